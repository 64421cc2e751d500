# SPDX-License-Identifier: Apache-2.0
"""From two runs to one cell of the report: the comparison, and what a run with the transport on must show by itself."""

from collections import Counter
from collections.abc import Iterator

import msgspec

from ..calls import Fingerprint, sent_by_agent
from ..comparison.compare import compare, raw
from ..report.results import CallBytes, Cell, Finding, Verdict
from ..run import RunResult
from . import proof
from .plan import Place
from .proof import Run

_LOSES_A_REQUEST = "drop-before"


def empty_cell(place: Place, version: str, verdict: Verdict, reason: str, findings: tuple[Finding, ...] = ()) -> Cell:
    """A cell that no two runs stand behind."""
    return Cell(
        agent=place.row.agent.name,
        version=version,
        dialect=place.row.dialect,
        mode=str(place.row.mode),
        scenario=place.title,
        verdict=verdict,
        reason=reason,
        findings=findings,
    )


def cell_of(place: Place, version: str, off: Run, on: Run) -> Cell:
    """The cell, passed or failed."""
    comparison = compare(off.evidence, on.evidence)
    findings = (*own_findings(off, on), *comparison.findings)
    sent, received = on.result.sent, on.result.received
    return msgspec.structs.replace(
        empty_cell(place, version, "failed" if findings else "passed", _reason(findings), findings),
        requests=sent.total() - _lost_on_purpose(on.result).total(),
        equal=(sent & received).total(),
        off_calls=_bytes(off.result),
        calls=_bytes(on.result),
        rules=comparison.counts,
        off_seconds=round(off.result.agent.seconds, 2),
        on_seconds=round(on.result.agent.seconds, 2),
    )


def with_second_run(cell: Cell, off: Run, again: Run) -> Cell:
    """The cell with what differs between two runs with the transport off; any such difference fails it."""
    unstable = compare(off.evidence, again.evidence).findings
    if unstable and cell.verdict == "passed":
        cell = msgspec.structs.replace(cell, verdict="failed", reason=f"off against off differs: {_reason(unstable)}")
    return msgspec.structs.replace(cell, unstable=unstable)


def own_findings(off: Run, on: Run) -> tuple[Finding, ...]:
    """What is wrong whatever the comparison says: a body that is not equal, or a run that proves nothing."""
    return tuple(finding for run in (on, off) for finding in _findings_of(run))


def _findings_of(run: Run) -> Iterator[Finding]:
    yield from proof.findings(run)
    yield from raw(run.result.sent, run.result.received, _lost_on_purpose(run.result))
    for failure in run.result.relay_failures:
        yield Finding("relay", "not-http", failure)


def _lost_on_purpose(run: RunResult) -> Counter[Fingerprint]:
    """As many as the scenario drops, and only such as the agent was given no answer to."""
    dropped = sum(disturbance.kind == _LOSES_A_REQUEST for disturbance in run.scenario.disturbances)
    unanswered = sent_by_agent(exchange for exchange in run.agent_side if _is_failed(exchange.status))
    lost = (run.sent - run.received) & unanswered
    return Counter(list(lost.elements())[:dropped])


def _is_failed(status: int | None) -> bool:
    return status is None or status >= 500


def _reason(findings: tuple[Finding, ...]) -> str:
    if not findings:
        return ""
    more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
    return f"{findings[0].name}: {findings[0].summary}{more}"


def _bytes(run: RunResult) -> tuple[CallBytes, ...]:
    labels = {recording.sha256: recording.label for recording in run.model_side}
    return tuple(
        CallBytes(labels.get(call.sha256 or "", str(call.number)), call.kind, call.body_bytes, call.sent_bytes)
        for call in run.calls
    )
