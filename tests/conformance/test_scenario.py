# SPDX-License-Identifier: Apache-2.0
"""The scenarios that come with the package are sound."""

import pytest
from history_delta_conformance.scripted_model import load_scenario, scenario_names


def test_the_package_has_the_scenarios_that_the_runs_need():
    assert {"compaction", "hello", "sub-agents", "tool-use"} <= set(scenario_names())


@pytest.mark.parametrize("name", scenario_names())
def test_each_is_named_after_its_file_and_every_prompt_has_its_end(name):
    scenario = load_scenario(name)
    assert scenario.name == name
    assert ends_of_prompts(scenario.turns) == 1 + len(scenario.follow_ups)
    assert all(ends_of_prompts(conversation.turns) == 1 for conversation in scenario.conversations)


def ends_of_prompts(turns):
    """An agent is done with a prompt when the model answers without a call."""
    assert not turns[-1].calls
    return sum(not turn.calls for turn in turns)


@pytest.mark.parametrize("name", scenario_names())
def test_each_is_described_in_a_line(name):
    assert 0 < len(load_scenario(name).description) < 100


FAULTY = [name for name in scenario_names() if load_scenario(name).faults]


def test_every_way_for_the_model_to_fail_has_a_scenario():
    kinds = {fault.kind for name in FAULTY for fault in load_scenario(name).faults}
    assert kinds == {"status", "reset-before", "cut", "reset", "no-final-event", "short-length", "stall", "drip"}
    statuses = {fault.status for name in FAULTY for fault in load_scenario(name).faults if fault.kind == "status"}
    assert statuses == {400, 409, 429, 500, 503}


@pytest.mark.parametrize("name", FAULTY)
def test_where_the_model_fails_no_file_is_expected_whose_content_depends_on_what_the_agent_does_then(name):
    assert "trace.txt" not in [file.path for file in load_scenario(name).files]
