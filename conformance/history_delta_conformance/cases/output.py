# SPDX-License-Identifier: Apache-2.0
"""Results for machines: JSON, and JUnit XML for a CI system."""

import json
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .base import CaseResult
from .show import requirement_text

FORMAT = "history-delta-cases/1"

# What XML 1.0 cannot hold in any spelling.
_FORBIDDEN = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535), "�")


def as_json(kind: str, target: str, results: Sequence[CaseResult]) -> str:
    counts = Counter(result.outcome for result in results)
    document = {
        "format": FORMAT,
        "kind": kind,
        "target": target,
        "counts": {outcome: counts[outcome] for outcome in ("passed", "failed", "error", "not-run")},
        "cases": [_member(result) for result in results],
    }
    return json.dumps(document, indent=1) + "\n"


def _member(result: CaseResult) -> dict[str, Any]:
    case = result.case
    member: dict[str, Any] = {
        "number": case.number,
        "title": case.title,
        "level": case.level,
        "requirements": list(case.requirements),
        "outcome": result.outcome,
        "seconds": round(result.seconds, 3),
    }
    for name in ("expected", "got", "reason"):
        if text := getattr(result, name):
            member[name] = text
    if result.exchange:
        member["exchange"] = list(result.exchange)
    return member


def as_junit(kind: str, results: Sequence[CaseResult]) -> str:
    counts = Counter(result.outcome for result in results)
    suite = ElementTree.Element(
        "testsuite",
        name=f"history-delta.{kind}",
        tests=str(len(results)),
        failures=str(counts["failed"]),
        errors=str(counts["error"]),
        skipped=str(counts["not-run"]),
        time=f"{sum(result.seconds for result in results):.3f}",
    )
    for result in results:
        case = result.case
        element = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"history-delta.{kind}",
            name=f"{case.number} {case.title}",
            time=f"{result.seconds:.3f}",
        )
        _add_outcome(element, result)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _add_outcome(element: ElementTree.Element, result: CaseResult) -> None:
    if result.outcome == "not-run":
        ElementTree.SubElement(element, "skipped", message=_clean(result.reason))
    elif result.outcome == "error":
        ElementTree.SubElement(element, "error", message=_clean(result.reason)).text = _exchange(result)
    elif result.outcome == "failed":
        message = f"expected {result.expected}; got {result.got} [{requirement_text(result.case)}]"
        ElementTree.SubElement(element, "failure", message=_clean(message)).text = _exchange(result)


def _exchange(result: CaseResult) -> str:
    return _clean("\n".join(result.exchange))


def _clean(text: str) -> str:
    return text.translate(_FORBIDDEN)
