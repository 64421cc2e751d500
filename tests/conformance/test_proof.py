# SPDX-License-Identifier: Apache-2.0
"""What passes must have been proved: an agent that fails alike on and off is found out, or that nothing befell."""

import asyncio
import sys
from dataclasses import dataclass, replace

import pytest
from history_delta_conformance.agents import AGENTS
from history_delta_conformance.agents.base import Launch
from history_delta_conformance.agents.builtin import BuiltIn
from history_delta_conformance.chain import Mode
from history_delta_conformance.comparison.evidence import Attempt
from history_delta_conformance.comparison.gather import gather
from history_delta_conformance.matrix import proof
from history_delta_conformance.matrix.cell import cell_of, own_findings
from history_delta_conformance.matrix.plan import SCENARIOS, places, rows
from history_delta_conformance.matrix.proof import CHECKS, EFFECTS, Run
from history_delta_conformance.run import run
from history_delta_conformance.scripted_model import load_scenario
from history_delta_conformance.scripted_model.scenario import Conversation, Disturbance, Fault, Task, Turn
from msgspec import structs

BUILTIN = AGENTS["builtin"]


class DoesNothing(BuiltIn):
    """An agent that ends before it calls the model, the same with the transport on and off."""

    def launch(self, task, executable):
        return Launch((sys.executable, "-c", "raise SystemExit(1)"))


class Moved(BuiltIn):
    """An agent that keeps its record somewhere else by now."""

    def session_record(self, task):
        return {"stdout": super().session_record(task)["stdout"]}


class Unasked(BuiltIn):
    """An agent that does none of what a scenario is about: no title, no small window, no sub-agents at once."""

    def launch(self, task, executable):
        return super().launch(replace(task, wanted=frozenset(), window=10_000_000), executable)


@dataclass
class Pair:
    off: Run
    on: Run

    @property
    def names(self):
        return [finding.name for finding in own_findings(self.off, self.on)]

    def with_on(self, evidence=None, **result):
        on = Run(replace(self.on.result, **result), replace(self.on.evidence, **(evidence or {})))
        return Pair(self.off, on)

    def with_off(self, evidence=None, **result):
        return Pair(Run(replace(self.off.result, **result), replace(self.off.evidence, **(evidence or {}))), self.on)


async def pair_of(agent, name, folder, **options):
    scenario = load_scenario(name)
    runs = []
    for number, (mode, played) in enumerate([(Mode.OFF, scenario.same_off_as or name), (Mode.PROXY, name)]):
        result = await run(agent, load_scenario(played), folder / str(number), rollout="r", mode=mode, **options)
        runs.append(Run(result, gather(agent, result)))
    return Pair(*runs)


def verdict(agent, name, pair):
    (place, *_) = places(rows([agent]), [name])
    cell = cell_of(place, "1", pair.off, pair.on)
    return cell.verdict, {finding.name for finding in cell.findings}


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return asyncio.run(pair_of(BUILTIN, "short-task", tmp_path_factory.mktemp("short")))


async def test_two_runs_that_are_as_they_should_be_have_no_finding(short):
    assert short.names == []


@pytest.mark.parametrize("name", ["model-500", "dropped-before", "short-task"])
async def test_an_agent_that_fails_alike_on_and_off_has_proved_nothing(name, tmp_path):
    found = verdict(BUILTIN, name, await pair_of(DoesNothing(), name, tmp_path))
    assert found[0] == "failed"
    assert "task-not-done" in found[1]
    expected = {"model-500": "fault-not-played", "dropped-before": "disturbance-not-reached"}
    assert {expected.get(name, "task-not-done")} <= found[1]


async def test_a_record_that_is_empty_on_both_sides_is_a_finding(tmp_path):
    assert verdict(BUILTIN, "short-task", await pair_of(Moved(), "short-task", tmp_path)) == (
        "failed",
        {"nothing-recorded"},
    )


@pytest.mark.parametrize(
    ("name", "finding"),
    [
        ("title-call", "no-title-call"),
        ("compaction", "history-not-cut"),
        ("compaction-between-prompts", "history-not-cut"),
    ],
)
async def test_a_scenario_that_is_about_something_that_did_not_happen_proves_nothing(name, finding, tmp_path):
    assert verdict(BUILTIN, name, await pair_of(Unasked(), name, tmp_path)) == ("failed", {finding})


def test_a_run_that_shows_nothing_is_a_finding(short):
    calls = short.on.result.calls
    in_full = [replace(call, kind="full") for call in calls]
    only_said = [replace(call, sent_bytes=call.body_bytes) for call in calls]
    assert short.with_on(calls=in_full).names == ["transport-not-used"]
    assert short.with_on(calls=only_said).names == ["transport-not-used"]
    assert short.with_on(calls=[]).names == ["transport-not-used"]
    assert short.with_on(calls=[], mode=Mode.IN_PROCESS).names == ["transport-not-used"]
    assert short.with_on(pending=["drop-before"]).names == ["disturbance-not-reached"]
    assert short.with_on(relay_failures=["request: no HTTP"]).names == ["not-http"]
    assert short.with_off(relay_failures=["request: no HTTP"]).names == ["not-http"]
    assert short.with_off(wrong_files=["one.txt"]).names == ["task-not-done"]
    assert short.with_on(model_side=short.on.result.model_side[1:]).names == ["body-not-equal"]
    assert short.with_off(model_side=short.off.result.model_side[1:]).names == ["body-not-equal"]
    for usage in ({}, {"turns": []}, {"steps": [None]}, {"messages": [{"input": 0, "note": "12"}]}):
        assert short.with_off({"usage": usage}).names == ["nothing-counted"]
    for record in ({"stdout": "x"}, {"stdout": "x", "session-1": ""}, {"session": "[short-task step 2 of 6]"}):
        assert short.with_on({"session_record": record}).names == ["nothing-recorded"]


def test_bytes_that_were_not_new_are_a_finding(short):
    twice = [replace(call, sent_plain_bytes=call.body_bytes) for call in short.on.result.calls]
    assert short.with_on(calls=twice).names == ["too-many-bytes"]
    assert short.with_off(calls=twice).names == []


def test_an_answer_that_was_changed_on_its_way_back_is_a_finding(short):
    first, *others = short.on.result.agent_side
    changed = [replace(first, answer_sha256="0" * 64), *others]
    assert short.with_on(agent_side=changed).names == ["answer-not-equal"]
    assert "answer-not-equal" in short.with_on(agent_side=[others[0], *others]).names
    cut = [replace(first, answer_sha256="", response_complete=False), *others]
    assert short.with_on(agent_side=cut).names == []


def test_an_id_that_the_model_gave_to_no_answer_is_a_finding(short):
    record, given = short.on.evidence.session_record, short.on.result.model_side[0].sha256[:24]
    for id, names in [(given, []), ("0" * 24, ["answer-id-changed"])]:
        assert short.with_on({"session_record": record | {"stdout": f'"id":"resp_{id}"'}}).names == names
        body = b'{"id":"rs_%b_0"}' % id.encode()
        sent = replace(short.on.evidence.requests[0], body=body)
        assert short.with_on({"requests": (*short.on.evidence.requests, sent)}).names == names


def test_a_run_that_was_stopped_at_its_timeout_is_a_finding(short):
    stopped = replace(short.off.result.agent, exit_status=None)
    assert short.with_off(agent=stopped).names == ["timed-out", "task-not-done"]


def with_faults(short, *faults, **changes):
    """The short task as if the model had been told to fail."""
    scenario = structs.replace(short.off.result.scenario, faults=faults)
    return short.with_off(scenario=scenario, **changes)


def test_a_fault_that_was_not_played_is_a_finding(short):
    fault = Fault(step=3, kind="cut")
    assert with_faults(short, fault).names == ["fault-not-played"]
    played = [replace(each, fault="cut") if each.number == 3 else each for each in short.off.result.model_side]
    assert with_faults(short, fault, model_side=played).names == []
    assert with_faults(short, fault, Fault(step=3, kind="status"), model_side=played).names == ["fault-not-played"]
    assert with_faults(short, structs.replace(fault, step=4), model_side=played).names == ["fault-not-played"]


@pytest.mark.parametrize(
    ("last", "gave_up"),
    [
        (Attempt("short-task 3", 429, True), True),
        (Attempt("short-task 3", None, False), True),
        (Attempt("short-task 3", 200, False), True),
        (Attempt("short-task 3", 200, True), False),
        (Attempt("short-task 4", 429, True), False),
        (None, False),
    ],
)
def test_an_agent_may_give_up_at_what_befell_it_and_nowhere_else(last, gave_up, short):
    played = [replace(each, fault="status") if each.number == 3 else each for each in short.off.result.model_side]
    pair = with_faults(short, Fault(step=3, kind="status"), model_side=played, wrong_files=["notes.md"])
    attempts = (*short.off.evidence.attempts[:2], last) if last else ()
    pair = pair.with_off({"attempts": attempts})
    assert pair.names == ([] if gave_up else ["task-not-done"])


@pytest.mark.parametrize("kind", sorted(EFFECTS))
def test_a_disturbance_that_left_no_trace_is_a_finding(kind, short):
    scenario = structs.replace(short.on.result.scenario, disturbances=(Disturbance(step=3, kind=kind),))
    assert short.with_on(scenario=scenario).names == ["disturbance-without-effect"]


def test_a_dropped_request_hides_no_other_that_was_lost(short):
    """A request that the agent was given an answer to has reached the model, whatever was dropped."""
    scenario = structs.replace(short.on.result.scenario, disturbances=(Disturbance(step=3, kind="drop-before"),))
    assert "body-not-equal" in short.with_on(scenario=scenario, model_side=short.on.result.model_side[1:]).names


def played(labels, scenario, run):
    requests = [replace(run.evidence.requests[0], label=label) for label in labels]
    return Run(replace(run.result, scenario=scenario), replace(run.evidence, requests=tuple(requests)))


def test_sub_agents_of_which_one_began_when_the_other_was_done_are_a_finding(short):
    start = Turn(text="Start.", calls=(Task(description="a", prompt="b"), Task(description="a", prompt="b")))
    helper = Conversation(name="helper", match="b", turns=(Turn(text="One."), Turn(text="Two.")))
    scenario = structs.replace(
        short.off.result.scenario, turns=(start, Turn(text="Done.")), conversations=(helper,), needs=("sub-agents",)
    )

    def overlapped(*labels):
        names = {finding.name for finding in proof.findings(played(labels, scenario, short.off))}
        return "sub-agents-not-parallel" not in names

    assert overlapped("task 1", "helper 1", "helper 1", "helper 2", "helper 2", "task 2")
    assert not overlapped("task 1", "helper 1", "helper 2", "helper 1", "helper 2", "task 2")
    assert not overlapped("task 1", "helper 1", "helper 2", "task 2")
    assert not overlapped("task 1", "task 2")


def test_every_check_has_a_name_of_its_own():
    assert len({check.name for check in CHECKS}) == len(CHECKS)


def test_every_scenario_asks_for_what_it_is_about():
    """No scenario of the list is a plain task but those that are meant to be."""
    plain = {
        name
        for name in SCENARIOS
        if not (loaded := load_scenario(name)).faults and not loaded.disturbances and not loaded.needs
    }
    assert plain == {"tool-use", "long"}
