# SPDX-License-Identifier: Apache-2.0
"""Normalisation: what each rule changes, that it changes nothing else, and that ids keep their identity."""

import re

import pytest
from history_delta_conformance.agents import AGENTS
from history_delta_conformance.comparison.evidence import Evidence
from history_delta_conformance.comparison.normalise import Normaliser
from history_delta_conformance.comparison.rules import RULES
from hypothesis import given
from hypothesis import strategies as st

UUID, OTHER_UUID = "01a228c4-53e8-7880-9128-982066f119cb", "01a228c4-5403-7190-8d92-be8480abeb2d"
SES, OTHER_SES = "ses_dd73b5bc8ffexcfLfPB0hpg25x", "ses_dd73b3a5effeq0sNJZPls71WN7"
REPLY, OTHER_REPLY = "52f7d75f7ab7e8dfd289eb8a", "46b7cdfbf715e11ca3e48b3c"


def normaliser(agent, **paths):
    nothing = {"usage": {}, "session_record": {}, "workspace": {}, "git_diff": "", "exit_status": 0, "final_text": ""}
    paths = {f"<{name}>": path for name, path in paths.items()}
    addresses = {"<address>": "127.0.0.1:45993"}
    run = Evidence(agent, "chat", requests=(), attempts=(), paths=paths, addresses=addresses, **nothing)
    return Normaliser(run, RULES)


# Rule, agent, aspect, a text in which it has something to do, and what comes of it.
EXAMPLES = [
    (
        "codex-metadata-order",
        "codex",
        "requests",
        '{"a":1,"client_metadata":{"z":"1","b":"{\\"y\\":1}","c":"3"}}',
        '{"a":1,"client_metadata":{"b":"{\\"y\\":1}","c":"3","z":"1"}}',
    ),
    ("port", "hermes", "session-record", '"http://127.0.0.1:45993/v1"', '"http://<address>/v1"'),
    ("port", "hermes", "session-record", "127.0.0.1:45994 127.0.0.1:459931", "127.0.0.1:45994 127.0.0.1:459931"),
    ("reply-id", "codex", "requests", f'"id":"fc_{REPLY}_0"', '"id":"fc_<reply-1>_0"'),
    ("reply-id", "codex", "requests", f'"c2NyaXB0ZWQ{REPLY}"', '"c2NyaXB0ZWQ<reply-1>"'),
    ("codex-id", "codex", "requests", f"x-codex-window-id: {UUID}:0", "x-codex-window-id: <id-1>:0"),
    ("codex-id", "codex", "requests", f'"{{\\"turn_id\\":\\"{UUID}\\"}}"', '"{\\"turn_id\\":\\"<id-1>\\"}"'),
    (
        "codex-agent-id",
        "codex",
        "requests",
        f'"{{\\"targets\\": [\\"{UUID}\\", \\"{OTHER_UUID}\\"]}}"',
        '"{\\"targets\\": [\\"<id-1>\\", \\"<id-2>\\"]}"',
    ),
    ("codex-nickname", "codex", "requests", '\\"nickname\\":\\"Kepler\\"}', '\\"nickname\\":\\"<nickname-1>\\"}'),
    ("codex-nickname", "codex", "requests", "- <id-2>: Arendt</sub", "- <id-2>: <nickname-1></sub"),
    ("codex-item-id", "codex", "requests", f'"id":"fco_{UUID}"', '"id":"fco_<item-1>"'),
    ("codex-chunk-id", "codex", "requests", '"Chunk ID: d8b007\\nWall', '"Chunk ID: <chunk-1>\\nWall'),
    ("codex-wall-time", "codex", "requests", "Wall time: 0.0512 seconds", "Wall time: <codex-wall-time> seconds"),
    (
        "codex-turn-started",
        "codex",
        "requests",
        '\\"turn_started_at_unix_ms\\":1795980284937,',
        '\\"turn_started_at_unix_ms\\":0,',
    ),
    ("opencode-session-id", "opencode", "requests", f"x-session-id: {SES}", "x-session-id: <session-1>"),
    ("opencode-part-id", "kilo", "session-record", '"msg_dd73b5bc8ffexcfLfPB0hpg25x"', '"<part-1>"'),
    (
        "kilo-message-time",
        "kilo",
        "requests",
        "Message time: 2026-11-29T19:25:28Z\\n",
        "Message time: <kilo-message-time>\\n",
    ),
    ("date", "opencode", "requests", "Today's date: Sun Nov 29 2026\\n", "Today's date: <date>\\n"),
    ("date", "codex", "requests", "<current_date>2026-11-29</current_date>", "<current_date><date></current_date>"),
    ("date", "hermes", "requests", "started: Sunday, November 29, 2026\\n", "started: Sunday, November 29, 2026\\n"),
    (
        "date",
        "hermes",
        "requests",
        "Conversation started: Sunday, November 29, 2026\\n",
        "Conversation started: <date>\\n",
    ),
    (
        "recorded-time",
        "pi",
        "session-record",
        '"timestamp":"2026-11-29T19:32:41.848Z"',
        '"timestamp":"<recorded-time>"',
    ),
    (
        "recorded-time",
        "kilo",
        "session-record",
        '"date": "Sun, 29 Nov 2026 20:47:58 GMT"',
        '"date": "<recorded-time>"',
    ),
    ("recorded-clock", "opencode", "session-record", '{"start": 1795980796212}', '{"start": 0}'),
    ("recorded-clock", "hermes", "session-record", '"ended_at": 1795980773.709318,', '"ended_at": 0,'),
    ("codex-place", "codex", "session-record", '"ordinal":67,', '"ordinal":0,'),
    (
        "codex-duration",
        "codex",
        "session-record",
        '"duration":{"secs":0,"nanos":7061}',
        '"duration":{"secs":0,"nanos":0}',
    ),
    ("codex-process-id", "codex", "session-record", '"process_id":"56530"', '"process_id":"<process-1>"'),
    ("codex-printed-item", "codex", "session-record", '"id":"item_22"', '"id":"<printed-1>"'),
    ("codex-revision", "codex", "session-record", f'"revision":"retained_{UUID}"', '"revision":"<revision-1>"'),
    ("pi-session-id", "pi", "session-record", f'"id":"{UUID}"', '"id":"<session-1>"'),
    ("pi-entry-id", "pi", "session-record", '"parentId":"4619a559"', '"parentId":"<entry-1>"'),
    (
        "hermes-session-id",
        "hermes",
        "session-record",
        '"session_id": "20261129_193250_a7430d"',
        '"session_id": "<session-1>"',
    ),
    (
        "hermes-delegation-id",
        "hermes",
        "requests",
        '"/live/deleg_f5fc0f3e/task-0.log"',
        '"/live/<delegation-1>/task-0.log"',
    ),
    ("hermes-duration", "hermes", "requests", '\\"duration_seconds\\": 3.71, ', '\\"duration_seconds\\": 0, '),
    ("hermes-row", "hermes", "session-record", '{"id": 13, "role"', '{"id": 0, "role"'),
    ("kilo-speed", "kilo", "session-record", '"generation": 23.75061850569025,', '"generation": 0,'),
    (
        "opencode-title",
        "kilo",
        "session-record",
        '"New session - 2026-11-29T19:47:01.446Z"',
        '"New session - <opencode-title>"',
    ),
    ("opencode-slug", "opencode", "session-record", '"slug": "swift-sailor"', '"slug": "<opencode-slug>"'),
]


@pytest.mark.parametrize(("rule", "agent", "aspect", "text", "normalised"), EXAMPLES)
def test_what_a_rule_makes_of_a_text(rule, agent, aspect, text, normalised):
    normalise = normaliser(agent)
    assert normalise(text, aspect) == normalised
    assert {name for name, count in normalise.counts.items() if count} == ({rule} if text != normalised else set())


def test_every_rule_has_an_example_a_reason_and_agents_that_there_are():
    assert {rule.name for rule in RULES} - {rule for rule, *_ in EXAMPLES} == {
        "temporary-path",
        "codex-parallel-results",
    }
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert all(rule.reason.endswith(".") and set(rule.agents) <= set(AGENTS) for rule in RULES)


def test_the_runs_own_paths_go_by_their_names_the_longest_first_and_as_whole_words():
    normalise = normaliser("pi", folder="/tmp/run/1", workspace="/tmp/run/1/workspace")
    text = '"cd /tmp/run/1/workspace/src; ls /tmp/run/1 /tmp/run/12 /tmp/run/1/workspaces"'
    assert normalise(text, "requests") == '"cd <workspace>/src; ls <folder> /tmp/run/12 <folder>/workspaces"'
    assert normalise.counts["temporary-path"] == 3


def test_results_that_came_in_a_random_order_stand_in_that_of_the_calls():
    def record(*calls):
        lines = ['{"ordinal":1,"payload":{"type":"message"}}\n']
        for place, call in enumerate(calls, start=2):
            completed = f'"payload":{{"type":"item_completed","item":{{"type":"CommandExecution","id":"call_{call}"}}}}'
            lines.append(f'{{"ordinal":{place},{completed}}}\n')
            lines.append(f'{{"ordinal":{place},"payload":{{"type":"function_call_output","call_id":"call_{call}"}}}}\n')
        return "".join(lines)

    one, other = (normaliser("codex")(record(*calls), "session-record") for calls in ("12", "21"))
    assert one == other
    assert normaliser("codex")(record(*"13"), "session-record") != one


def test_an_id_keeps_its_number_through_a_run_and_another_gets_another():
    normalise = normaliser("opencode")
    assert normalise(f"{SES} {OTHER_SES}", "requests") == "<session-1> <session-2>"
    assert normalise(f"{OTHER_SES} {SES}", "session-record") == "<session-2> <session-1>"


def test_exchanged_ids_stay_visible():
    texts = [(f"main {first}", f"a {first}", f"b {second}") for first, second in [(SES, OTHER_SES), (OTHER_SES, SES)]]
    same = [[normaliser("opencode")(text, "requests") for text in run] for run in texts]
    assert same[0] == same[1]
    exchanged = [f"main {SES}", f"a {OTHER_SES}", f"b {SES}"]
    normalise, other = normaliser("opencode"), normaliser("opencode")
    assert [normalise(text, "requests") for text in texts[0]] != [other(text, "requests") for text in exchanged]


@pytest.mark.parametrize(
    "text",
    [
        '{"content":"127.0.0.1 and 10.0.0.1:8080, v1.2.3"}',
        f'{{"content":"{UUID} in the middle of a text"}}',
        '{"usage":{"prompt_tokens":1795980796212},"id":"call_tool_use_2_1","name":"ses_short"}',
        '{"content":"2026-11-29 and 2026-11-29T19:32:41.848Z and Wall time: long"}',
        f'{{"content":"msg_{REPLY}0 and xrs_{REPLY}"}}'.replace("xrs_", "xr_"),
    ],
)
@pytest.mark.parametrize("agent", sorted(AGENTS))
def test_what_only_looks_like_something_to_normalise_is_left_alone(agent, text):
    assert normaliser(agent)(text, "requests") == text


def test_rules_of_other_agents_and_aspects_do_nothing():
    assert normaliser("pi")(f'"turn_id":"{UUID}" {SES}', "requests") == f'"turn_id":"{UUID}" {SES}'
    assert normaliser("pi")('"parentId":"4619a559","start": 1795980796212', "requests").count("4619a559") == 1


@given(st.text(max_size=200))
def test_a_text_without_anything_generated_is_left_alone(text):
    for agent in AGENTS:
        matched = any(rule.pattern and rule.pattern.search(text) for rule in RULES)
        assert matched or normaliser(agent, workspace="/tmp/run/1")(text, "requests") == text


@given(
    st.lists(st.sampled_from([SES, OTHER_SES, '"', " ", "ses_", "x", "\n", f"msg_{REPLY}", OTHER_REPLY]), max_size=30)
)
def test_only_the_ids_themselves_are_touched_and_the_same_whatever_came_before(parts):
    text = "".join(parts)
    normalise = normaliser("opencode")
    once = normalise(text, "requests")
    assert normalise(text, "requests") == once
    # Outside of what the rules match, not a character is another.
    ids = re.compile(r"<(?:session|reply|part)-\d+>")
    patterns = [rule.pattern for rule in RULES if rule.name in ("reply-id", "opencode-session-id", "opencode-part-id")]
    found = sorted(match.span("value") for pattern in patterns for match in pattern.finditer(text))
    outside, position = [], 0
    for start, end in found:
        outside.append(text[position:start])
        position = end
    assert ids.split(once) == [*outside, text[position:]]
