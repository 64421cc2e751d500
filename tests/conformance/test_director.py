# SPDX-License-Identifier: Apache-2.0
"""Which turn comes next is read from the request alone."""

import json

from history_delta_conformance.scripted_model import load_scenario
from history_delta_conformance.scripted_model.director import place_of, reply_at
from history_delta_conformance.scripted_model.reply import Tool
from history_delta_conformance.scripted_model.scenario import Scenario, Turn

TOOLS = [Tool(name, {"properties": {}}) for name in ("bash", "write", "read", "task")]
TOOL_USE = load_scenario("tool-use")
SUB_AGENTS = load_scenario("sub-agents")


def reply(scenario, *texts, tools=TOOLS):
    body = json.dumps([{"content": text} for text in texts]).encode()
    return reply_at(place_of(scenario, body, bool(tools)), scenario, body, "m", tools)


def test_a_conversation_played_by_its_own_replies_takes_every_step_once():
    texts, steps = [TOOL_USE.prompt], []
    while not steps or steps[-1].calls:
        steps.append(reply(TOOL_USE, *texts))
        texts.append(steps[-1].text)
    assert len(steps) == len(TOOL_USE.turns) == 12
    assert [len(step.calls) for step in steps] == [len(turn.calls) for turn in TOOL_USE.turns]
    assert steps[-1].text.endswith(TOOL_USE.final_text)


def test_the_same_request_gets_the_same_answer():
    assert reply(TOOL_USE, "go") == reply(TOOL_USE, "go")
    assert reply(TOOL_USE, "go").id != reply(TOOL_USE, "go on").id


def test_the_last_marker_counts_so_a_summary_carries_the_step_on():
    summary = reply(TOOL_USE, "[tool-use step 4 of 12] x", "sum this up", tools=[])
    assert summary.text == f"[tool-use step 4 of 12] {TOOL_USE.summary}"
    assert not summary.calls
    after = reply(TOOL_USE, "system", summary.text, "go on")
    assert after.text.startswith("[tool-use step 5 of 12]")
    kept_tail = reply(TOOL_USE, summary.text, "[tool-use step 9 of 12] kept")
    assert kept_tail.text.startswith("[tool-use step 10 of 12]")


def test_a_call_without_tools_and_steps_is_a_title_call_where_it_speaks_of_a_title():
    assert reply(TOOL_USE, "You are a title generator.", tools=[]).text == TOOL_USE.title
    assert reply(TOOL_USE, "go", tools=[]).text.startswith("[tool-use step 1 of 12]")
    assert not reply(TOOL_USE, "go", tools=[]).calls


def test_after_the_last_step_there_is_nothing_to_do():
    done = reply(TOOL_USE, "[tool-use step 12 of 12] done", "and now?")
    assert "nothing left" in done.text
    assert not done.calls


def test_sub_agents_have_steps_of_their_own_and_the_parent_is_not_taken_for_one():
    prompt = SUB_AGENTS.turns[0].calls[0].prompt
    first = reply(SUB_AGENTS, prompt)
    assert first.text.startswith("[helper step 1 of 3]")
    assert reply(SUB_AGENTS, prompt, first.text).text.startswith("[helper step 2 of 3]")
    start = reply(SUB_AGENTS, SUB_AGENTS.prompt)
    assert [call.name for call in start.calls] == ["task", "bash", "task"]
    parent = [SUB_AGENTS.prompt, start.text, start.calls[0].arguments, "[helper step 3 of 3] counted"]
    assert reply(SUB_AGENTS, *parent).text.startswith("[sub-agents step 2 of 4]")


def test_usage_grows_with_the_steps_unless_the_turn_says_so_and_not_with_what_differs_between_runs():
    compaction = load_scenario("compaction")
    body = [compaction.prompt, "[compaction step 3 of 7] x"]
    assert reply(compaction, *body).usage.input_tokens == compaction.turns[3].input_tokens
    first, longer = (reply(compaction, text).usage for text in ("go", "go" * 1000))
    second = reply(compaction, "go", "[compaction step 1 of 7]").usage
    assert first == longer
    assert first.input_tokens < second.input_tokens


def label(scenario, *texts, tools=True):
    return place_of(scenario, json.dumps([{"content": text} for text in texts]).encode(), tools).label


def test_a_request_is_called_after_the_step_that_it_asks_for():
    assert label(TOOL_USE, "go") == "tool-use 1"
    assert label(TOOL_USE, "[tool-use step 2 of 12] x") == "tool-use 3"
    assert label(TOOL_USE, "[tool-use step 12 of 12] x") == "tool-use 13"


def test_side_calls_are_called_what_they_are_and_are_at_no_step():
    for texts, wanted in [(("a title, please",), "title"), (("[tool-use step 2 of 12] x", "sum up"), "summary")]:
        place = place_of(TOOL_USE, json.dumps(texts).encode(), has_tools=False)
        assert (place.label, place.step) == (wanted, 0)


def test_what_follows_a_compaction_is_the_step_after_it():
    summary = reply(TOOL_USE, "[tool-use step 4 of 12] x", "a summary and a title", tools=[])
    assert label(TOOL_USE, "system", summary.text, "go on") == "tool-use 5"


def test_a_helper_and_its_own_side_calls_are_told_from_the_main_conversation():
    prompt = SUB_AGENTS.turns[0].calls[0].prompt
    assert label(SUB_AGENTS, prompt) == "helper 1"
    assert label(SUB_AGENTS, prompt, "[helper step 1 of 3] x") == "helper 2"
    assert label(SUB_AGENTS, prompt, "[helper step 1 of 3] x", tools=False) == "summary"
    summary = reply(SUB_AGENTS, prompt, "[helper step 1 of 3] x", tools=[])
    assert label(SUB_AGENTS, prompt, summary.text) == "helper 2"
    assert label(SUB_AGENTS, "[sub-agents step 1 of 3] x", prompt, "[helper step 3 of 3] done") == "sub-agents 2"


def test_where_no_turn_calls_a_tool_a_client_without_tools_takes_every_step():
    talk = Scenario(name="talk", prompt="p", turns=(Turn(text="Hello."), Turn(text="Goodbye.")))
    first = reply(talk, "hi", tools=[])
    assert first.text == "[talk step 1 of 2] Hello."
    assert reply(talk, "hi", first.text, "bye", tools=[]).text == "[talk step 2 of 2] Goodbye."
    assert label(talk, "hi", first.text, "bye", tools=False) == "talk 2"


def test_what_is_the_same_as_another_with_the_transport_off_says_the_same():
    other = Scenario(name="other", prompt="p", turns=TOOL_USE.turns, same_off_as="tool-use")
    assert reply(other, "go") == reply(TOOL_USE, "go")
    assert label(other, "[tool-use step 2 of 12] x") == "tool-use 3"
