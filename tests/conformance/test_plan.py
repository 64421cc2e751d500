# SPDX-License-Identifier: Apache-2.0
"""Which cells there are, and why a place is not one."""

import pytest
from history_delta_conformance.agents import AGENTS
from history_delta_conformance.chain import Mode
from history_delta_conformance.matrix.plan import REAL_AGENTS, SCENARIOS, SMOKE_AGENTS, SMOKE_SCENARIOS, places, rows
from history_delta_conformance.scripted_model.scenario_file import ScenarioError


def applicable(*agents, scenarios=SCENARIOS):
    planned = places(rows(AGENTS[name] for name in agents), scenarios)
    return {(place.row.name, place.scenario) for place in planned if not place.not_applicable}


def test_every_agent_plays_the_whole_list_in_its_usual_dialect_and_the_12_turns_in_its_others():
    cells = applicable("pi")
    assert {name for row, name in cells if row == "pi chat"} >= {"tool-use", "long", "dropped-during", "model-500"}
    assert {name for row, name in cells if row != "pi chat"} == {"tool-use"}
    assert {row for row, _ in cells} == {"pi chat", "pi responses", "pi messages"}


def test_a_python_agent_plays_it_in_process_too():
    beside = {name for row, name in applicable("hermes") if row == "hermes chat"}
    within = {name for row, name in applicable("hermes") if row == "hermes chat in-process"}
    assert beside - within == {"shim-restarts"}
    assert within <= beside
    assert not any("in-process" in row for row, _ in applicable("codex", "opencode"))


def test_what_an_agent_does_not_do_does_not_apply_and_says_why():
    planned = places(rows([AGENTS["pi"]]), ["sub-agents", "compaction-between-prompts"])
    by_scenario = {place.scenario: place.not_applicable for place in planned if place.row.name == "pi chat"}
    assert by_scenario == {"sub-agents": "pi does not do sub-agents", "compaction-between-prompts": ""}


def test_every_scenario_is_played_by_an_agent_and_every_real_agent_plays_most():
    cells = applicable(*REAL_AGENTS)
    assert {name for _, name in cells} == set(SCENARIOS)
    assert REAL_AGENTS == ("opencode", "codex", "pi", "hermes", "hermes-library", "kilo")
    for name in REAL_AGENTS:
        assert sum(row == f"{name} {AGENTS[name].dialects[0]}" for row, _ in cells) >= len(SCENARIOS) - 5


@pytest.mark.parametrize("name", ["opencode", "kilo", "hermes", "codex"])
def test_those_that_have_sub_agents_play_them(name):
    assert (f"{name} {AGENTS[name].dialects[0]}", "sub-agents") in applicable(name)


def test_the_smoke_subset_is_of_four_agents_and_two_scenarios():
    assert len(SMOKE_AGENTS) == 4
    assert len(SMOKE_SCENARIOS) == 2
    assert set(SMOKE_SCENARIOS) <= set(SCENARIOS)


def test_a_row_says_its_mode_where_it_is_not_the_usual_one():
    names = [row.name for row in rows([AGENTS["hermes"]], (Mode.PROXY, Mode.IN_PROCESS))]
    assert names == ["hermes chat", "hermes chat in-process"]


def test_a_scenario_that_is_not_there_is_an_error():
    with pytest.raises(ScenarioError, match="no-such"):
        places(rows([AGENTS["pi"]]), ["no-such"])
