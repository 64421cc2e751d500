# SPDX-License-Identifier: Apache-2.0
"""What a run must show by itself: two runs that fail alike, or in which nothing happened, differ in nothing.

Each check is about one run. Nothing is compared here, and how a run went beyond what a check asks is not judged.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..calls import Call, is_model_call
from ..chain import Mode
from ..comparison.evidence import Attempt, Evidence
from ..comparison.pieces import split_label
from ..comparison.rules import REPLY_ID
from ..observer import Exchange
from ..report.results import Finding
from ..run import RunResult
from ..scripted_model.scenario import Disturbance, Scenario, Task

ASPECT = "run"


@dataclass(frozen=True)
class Run:
    """A run and what it left behind for the comparison."""

    result: RunResult
    evidence: Evidence

    @property
    def scenario(self) -> Scenario:
        return self.result.scenario

    @property
    def labels(self) -> list[str]:
        """What the model took the requests for, in the order of their arrival."""
        return [request.label for request in self.evidence.requests]


@dataclass(frozen=True)
class Check:
    """``name`` and ``summary`` are of the finding where ``holds`` is false; ``concerns`` says of which runs it is
    asked."""

    name: str
    summary: str
    holds: Callable[[Run], bool]
    concerns: Callable[[Run], bool] = lambda run: True


def findings(run: Run) -> Iterator[Finding]:
    """Of every check that this run does not stand."""
    told = "with the transport off, " if run.result.mode is Mode.OFF else ""
    for check in CHECKS:
        if check.concerns(run) and not check.holds(run):
            yield Finding(ASPECT, check.name, told + check.summary)
    for kind in run.result.pending:
        yield Finding(ASPECT, "disturbance-not-reached", f"{told}{kind} was to happen and did not")
    for disturbance in run.scenario.disturbances:
        if disturbance.kind not in run.result.pending and not _had_effect(disturbance, run.result):
            yield Finding(ASPECT, "disturbance-without-effect", f"{told}nothing shows that {disturbance.kind} happened")


def _finished_or_gave_up(run: Run) -> bool:
    """An agent may give up where something befell it, and nowhere else: Codex does so at a 429."""
    return run.result.finished or (bool(run.evidence.attempts) and _is_what_befell(run, run.evidence.attempts[-1]))


def _is_what_befell(run: Run, attempt: Attempt) -> bool:
    steps = [fault.step for fault in run.scenario.faults if not fault.conversation]
    steps += [disturbance.step for disturbance in run.scenario.disturbances]
    struck = attempt.label in [_label(run.scenario, step) for step in steps]
    return struck and not (attempt.status == 200 and attempt.complete)


def _label(scenario: Scenario, step: int, conversation: str = "") -> str:
    return f"{conversation or scenario.marker} {step}"


def _all_faults_played(run: Run) -> bool:
    wanted = {(_label(run.scenario, fault.step, fault.conversation), fault.kind) for fault in run.scenario.faults}
    return wanted <= {(recording.label, recording.fault) for recording in run.result.model_side}


def _has_record(run: Run) -> bool:
    """Of its session, beside what it printed, to the last step if it came there."""
    record = "".join(text for name, text in run.evidence.session_record.items() if name != "stdout")
    steps = len(run.scenario.turns)
    end = f"[{run.scenario.marker} step {steps} of {steps}]" if run.result.finished else ""
    return bool(record) and end in record


def _knows_all_reply_ids(run: Run) -> bool:
    """All that it sent and noted: an id that became another on the way back would only get a number by the rules."""
    given = {recording.sha256[:24] for recording in run.result.model_side}
    bodies = (request.body.decode(errors="replace") for request in run.evidence.requests)
    texts = (*bodies, *run.evidence.session_record.values())
    return given.issuperset(match["value"] for text in texts for match in REPLY_ID.finditer(text))


def _has_figures(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_figures, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int | float) and value > 0


def _cuts_history(run: Run) -> bool:
    """What makes an agent compact or prune: the model's figures, or a scenario that is about it."""
    told = any(turn.input_tokens is not None for turn in run.scenario.turns)
    return told or not {"compaction", "pruning"}.isdisjoint(run.scenario.needs)


def _history_became_shorter(run: Run) -> bool:
    sizes = [len(each.body) for each in run.evidence.requests if split_label(each.label)[0] == run.scenario.marker]
    return any(after < before for before, after in pairwise(sizes))


def _sub_agents_overlapped(run: Run) -> bool:
    """As many had begun as a turn starts before the first of them was asked for its last step."""
    steps = {conversation.name: len(conversation.turns) for conversation in run.scenario.conversations}
    places = [(split_label(label), place) for place, label in enumerate(run.labels)]
    begun = [place for (name, step), place in places if name in steps and step == 1]
    ending = [place for (name, step), place in places if 1 < step == steps.get(name)]
    wanted = max(sum(isinstance(call, Task) for call in turn.calls) for turn in run.scenario.turns)
    return sum(place < min(ending, default=len(places)) for place in begun) >= wanted


def _calls_for_a_delta(run: Run) -> bool:
    return run.result.mode is not Mode.OFF and sum(map(is_model_call, run.result.agent_side)) > 1


def _sent_a_delta(run: Run) -> bool:
    return any(call.kind == "delta" and call.sent_bytes < call.body_bytes for call in run.result.calls)


def _whole_answers(exchanges: Iterable[Exchange]) -> Counter[str]:
    return Counter(each.answer_sha256 for each in exchanges if each.status == 200 and each.response_complete)


CHECKS = (
    Check(
        "timed-out",
        "the agent had to be stopped",
        lambda run: run.result.agent.exit_status is not None,
    ),
    Check(
        "task-not-done",
        "the agent neither finished the task nor gave up at what befell it",
        _finished_or_gave_up,
    ),
    Check(
        "fault-not-played",
        "the model came to none of the requests that it was to fail, or not to all kinds",
        _all_faults_played,
        lambda run: bool(run.scenario.faults),
    ),
    Check(
        "nothing-recorded",
        "the agent's own record of its session was not found, or is not one of this task",
        _has_record,
    ),
    Check(
        "nothing-counted",
        "the agent finished the task and counted no tokens",
        lambda run: _has_figures(run.evidence.usage),
        lambda run: run.result.finished,
    ),
    Check(
        "answer-id-changed",
        "the agent has the id of an answer that the model did not give",
        _knows_all_reply_ids,
    ),
    Check(
        "no-title-call",
        "no title was asked for",
        lambda run: "title" in run.labels,
        lambda run: "title" in run.scenario.needs,
    ),
    Check(
        "history-not-cut",
        "the history was neither compacted nor pruned: each request was as long as the one before or longer",
        _history_became_shorter,
        _cuts_history,
    ),
    Check(
        "sub-agents-not-parallel",
        "sub-agents did not work at the same time",
        _sub_agents_overlapped,
        lambda run: "sub-agents" in run.scenario.needs,
    ),
    Check(
        "transport-not-used",
        "no call was sent as a delta, so that nothing is shown",
        _sent_a_delta,
        _calls_for_a_delta,
    ),
    Check(
        "too-many-bytes",
        "more crossed the wire than what was new of the bodies, 3 % and 400 B a call, compression not counted",
        lambda run: run.result.within_budget,
        lambda run: run.result.mode is not Mode.OFF and not run.scenario.faults and not run.scenario.disturbances,
    ),
    Check(
        "answer-not-equal",
        "a whole answer did not reach the agent as it came from the server, byte for byte",
        lambda run: _whole_answers(run.result.agent_side) <= _whole_answers(run.result.wire),
        lambda run: run.result.mode is Mode.PROXY,
    ),
)


def _had_effect(disturbance: Disturbance, run: RunResult) -> bool:
    return EFFECTS[disturbance.kind](run)


def _later_kinds(calls: list[Call]) -> list[str]:
    return [call.kind for call in calls[1:]]


def _last_on_its_connection(exchange: Exchange, wire: list[Exchange]) -> bool:
    return [other for other in wire if other.connection == exchange.connection][-1] is exchange


# How each is seen: in what crossed the wire, or in how a call was sent after the first.
EFFECTS: dict[str, Callable[[RunResult], bool]] = {
    "server-loses-state": lambda run: "full" in _later_kinds(run.calls),
    "switched-off": lambda run: not {"delta", "self-contained"} & set(_later_kinds(run.calls)[-1:]),
    "shim-restarts": lambda run: "self-contained" in _later_kinds(run.calls),
    "drop-before": lambda run: any(exchange.status is None for exchange in run.wire if exchange.complete),
    "drop-during": lambda run: any(
        exchange.status == 200 and not exchange.response_complete and not exchange.left for exchange in run.wire
    ),
    "drop-after": lambda run: any(
        struck.response_complete and _last_on_its_connection(struck, run.wire) for struck in run.struck
    ),
    "repeat": lambda run: run.repeats == ["HTTP/1.1 200 OK"],
}
