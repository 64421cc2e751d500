# SPDX-License-Identifier: Apache-2.0
import json
from typing import Any

import pytest
from history_delta_conformance.report.document import ReportError, from_json, to_json
from history_delta_conformance.report.results import Report
from support.sample_report import FAILED, good_report, hostile_report, report, sample_report


@pytest.mark.parametrize("made", [sample_report(), good_report(), report(), report(FAILED)])
def test_a_report_comes_back_as_it_was(made: Report) -> None:
    assert from_json(to_json(made)) == made


def test_it_is_indented_with_a_call_on_a_line_and_always_the_same_bytes() -> None:
    document = to_json(sample_report())
    assert document == to_json(sample_report())
    assert b'\n   "verdict": "passed",\n' in document
    assert b'\n    {"label": "tool-use 1", "kind": "off", "body_bytes": 20000, "sent_bytes": 20000},\n' in document


def test_a_lone_surrogate_is_written_as_a_visible_escape() -> None:
    document = to_json(hostile_report())
    json.loads(document.decode())
    back = from_json(document)
    assert r"\udc80" in back.cells[0].findings[0].diff
    assert to_json(back) == document


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda tree: tree.pop("command"), "missing required field `command`"),
        (lambda tree: tree.update(schema=2), "expected a report of schema 1, got 2 - at `$.schema`"),
        (lambda tree: tree.update(schema="1"), "Expected `int`, got `str` - at `$.schema`"),
        (lambda tree: tree.pop("schema"), "missing required field `schema`"),
        (lambda tree: tree["cells"][0].update(verdict="fine"), "'fine' - at `$.cells[0].verdict`"),
        (lambda tree: tree["cells"][0].update(requests="12"), "Expected `int`, got `str` - at `$.cells[0].requests`"),
        (lambda tree: tree["cells"][0].update(rules={"date": 3}), "got `int` - at `$.cells[0].rules[...]`"),
    ],
)
def test_another_document_is_refused_by_its_field(change: Any, told: str) -> None:
    tree = json.loads(to_json(report(FAILED)))
    change(tree)
    with pytest.raises(ReportError) as error:
        from_json(json.dumps(tree).encode())
    assert told in str(error.value)


@pytest.mark.parametrize(
    "document", [b"", b"{", b"[]", b"null", b'"\xff"', b'{"schema": 1}', b"<html>", b'{"schema": 1.5}']
)
def test_what_is_no_report_at_all_is_refused(document: bytes) -> None:
    with pytest.raises(ReportError, match="not a report: "):
        from_json(document)


def test_a_field_that_a_later_version_adds_does_no_harm() -> None:
    tree = json.loads(to_json(report(FAILED)))
    tree["cells"][0]["weather"] = "fine"
    assert from_json(json.dumps(tree).encode()) == report(FAILED)
