# SPDX-License-Identifier: Apache-2.0
"""The whole chain with the built-in agent: real shim, real server, evidence from outside both."""

from dataclasses import replace

import pytest
from history_delta_conformance.agents import AGENTS
from history_delta_conformance.chain import Mode
from history_delta_conformance.run import run
from history_delta_conformance.scripted_model import Recorder, load_scenario
from history_delta_conformance.scripted_model.scenario import Fault
from msgspec import structs

TOOL_USE = load_scenario("tool-use")


@pytest.mark.parametrize("rollout", [None, "r-1"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_every_body_arrives_as_it_was_sent_for_the_bytes_that_are_new(dialect, rollout, tmp_path):
    result = await run(AGENTS["builtin"], TOOL_USE, tmp_path, dialect=dialect, rollout=rollout)
    assert result.finished, result.agent
    assert result.bodies_equal
    assert result.within_budget
    assert len(result.calls) == len(TOOL_USE.turns)
    assert all(call.equal and call.status == 200 for call in result.calls)
    assert [call.kind for call in result.calls[1:]] == ["delta"] * (len(TOOL_USE.turns) - 1)
    assert result.sent_bytes < result.budget < result.body_bytes


async def test_with_the_transport_off_all_goes_in_full_and_arrives_as_well(tmp_path):
    result = await run(AGENTS["builtin"], TOOL_USE, tmp_path, rollout="r-1", mode=Mode.OFF)
    assert result.finished
    assert result.bodies_equal
    assert not result.within_budget
    assert [call.kind for call in result.calls] == ["off"] * len(TOOL_USE.turns)
    assert result.sent_bytes == result.body_bytes


async def test_what_goes_wrong_is_seen(tmp_path):
    result = await run(AGENTS["builtin"], load_scenario("hello"), tmp_path)
    assert result.finished
    assert result.bodies_equal
    changed = Recorder()
    for recording in result.model_side:
        changed.record(recording.method, recording.path, recording.headers, recording.body.replace(b"e", b"E", 1))
    assert not replace(result, model_side=changed.recordings).bodies_equal
    assert not replace(result, model_side=result.model_side * 2).bodies_equal
    assert not replace(result, model_side=[]).bodies_equal
    assert not replace(result, relay_failures=["request: not HTTP"]).bodies_equal
    assert not replace(result, wrong_files=["notes.md"]).finished
    assert not replace(result, agent=replace(result.agent, exit_status=1)).finished
    assert not replace(result, agent=replace(result.agent, final_text="gave up")).finished


async def test_an_agent_that_fails_is_a_result_and_not_an_error(tmp_path):
    refused = structs.replace(load_scenario("hello"), faults=(Fault(1, "status", status=400),))
    result = await run(AGENTS["builtin"], refused, tmp_path, rollout="r-1")
    assert not result.finished
    assert result.agent.exit_status == 1
    assert result.bodies_equal
    assert [call.status for call in result.calls] == [400]
