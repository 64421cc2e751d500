# SPDX-License-Identifier: Apache-2.0
"""From two runs to one cell of the report: the comparison, and what a run with the transport on must show by itself."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from ..chain import Mode
from ..comparison.compare import compare, raw
from ..comparison.evidence import Evidence
from ..report.results import CallBytes, Cell, Finding, Verdict
from ..run import RunResult
from .plan import Place

_LOSES_A_REQUEST = "drop-before"


@dataclass(frozen=True)
class Run:
    """A run and what it left behind for the comparison."""

    result: RunResult
    evidence: Evidence


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
    findings = (*own_findings(off.result, on.result), *comparison.findings)
    sent, received = on.result.sent, on.result.received
    dropped = min(_dropped_on_purpose(on.result), (sent - received).total())
    return msgspec.structs.replace(
        empty_cell(place, version, "failed" if findings else "passed", _reason(findings), findings),
        requests=sent.total() - dropped,
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


def own_findings(off: RunResult, on: RunResult) -> tuple[Finding, ...]:
    """What is wrong whatever the comparison says: a body that is not equal, or a run that proves nothing."""
    return (
        *_task_findings(off),
        *raw(on.sent, on.received, _dropped_on_purpose(on)),
        *(_finding("relay", "not-http", failure) for failure in on.relay_failures),
        *(_finding("run", "disturbance-not-reached", f"{kind} was to happen and did not") for kind in on.pending),
        *_use_findings(on),
    )


def _dropped_on_purpose(run: RunResult) -> int:
    return sum(disturbance.kind == _LOSES_A_REQUEST for disturbance in run.scenario.disturbances)


def _task_findings(off: RunResult) -> Iterable[Finding]:
    """A scenario without faults that the agent does not finish by itself proves nothing."""
    if not off.finished and not off.scenario.faults and not off.scenario.disturbances:
        yield _finding("run", "task-not-done", "the agent does not finish the task with the transport off either")


def _use_findings(on: RunResult) -> Iterable[Finding]:
    if on.mode is not Mode.OFF and len(on.calls) > 1 and not any(call.kind == "delta" for call in on.calls):
        yield _finding("run", "transport-not-used", "no call was sent as a delta, so that nothing is shown")


def _finding(aspect: str, name: str, summary: str) -> Finding:
    return Finding(aspect, name, summary)


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
