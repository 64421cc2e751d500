# SPDX-License-Identifier: Apache-2.0
"""Which turn comes next is read from the request alone."""

import json

from history_delta_conformance.scripted_model import load_scenario
from history_delta_conformance.scripted_model.director import direct
from history_delta_conformance.scripted_model.reply import Tool

TOOLS = [Tool(name, {"properties": {}}) for name in ("bash", "write", "read", "task")]
TOOL_USE = load_scenario("tool-use")
SUB_AGENTS = load_scenario("sub-agents")


def reply(scenario, *texts, tools=TOOLS):
    return direct(scenario, json.dumps([{"content": text} for text in texts]).encode(), "m", tools)


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


def test_usage_grows_with_the_request_unless_the_turn_says_so():
    compaction = load_scenario("compaction")
    body = [compaction.prompt, "[compaction step 3 of 7] x"]
    assert reply(compaction, *body).usage.input_tokens == compaction.turns[3].input_tokens
    small, large = reply(compaction, "go"), reply(compaction, "go" * 1000)
    assert small.usage.input_tokens < large.usage.input_tokens
