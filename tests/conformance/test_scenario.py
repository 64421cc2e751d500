# SPDX-License-Identifier: Apache-2.0
"""Scenario files: those of the package are sound, and a faulty one is refused with its fault named."""

import pytest
from history_delta_conformance.scripted_model.scenario import Shell
from history_delta_conformance.scripted_model.scenario_file import ScenarioError, load_scenario, scenario_names


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


def test_a_file_of_ones_own(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text('name="own"\nprompt="p"\n[[turns]]\ntext="t"\ncalls=[{tool="shell",command="ls"}]\n')
    assert load_scenario(file).turns[0].calls == (Shell("ls"),)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('name="x"\nprompt="p"\n', "turns"),
        ('name="x"\nprompt="p"\n[[turns]]\ntxt="t"\n', "txt"),
        ('name="x"\nprompt="p"\n[[turns]]\ntext="t"\ncalls=[{tool="dance"}]\n', "dance"),
        ("name=", "own.toml"),
    ],
)
def test_a_faulty_file_is_refused_with_the_fault_named(text, named, tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=named):
        load_scenario(file)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ScenarioError, match="tool-use"):
        load_scenario("no-such")
