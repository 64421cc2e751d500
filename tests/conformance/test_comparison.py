# SPDX-License-Identifier: Apache-2.0
"""The comparison on evidence made by hand: each kind of difference by its name, and nothing where there is none."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from history_delta_conformance.comparison.compare import compare, raw
from history_delta_conformance.comparison.evidence import Attempt, Evidence, ModelRequest
from hypothesis import given
from hypothesis import strategies as st

SES, OTHER_SES = "ses_dd73b5bc8ffexcfLfPB0hpg25x", "ses_dd73b3a5effeq0sNJZPls71WN7"
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def call(id, command):
    function = {"name": "bash", "arguments": compact({"command": command, "timeout": 5})}
    calls = [{"id": id, "type": "function", "function": function}]
    return {"role": "assistant", "content": f"I run {command}", "tool_calls": calls}


def result(id, output):
    return {"role": "tool", "tool_call_id": id, "content": output}


HISTORY = [
    {"role": "system", "content": "You are careful."},
    {"role": "user", "content": "Tidy up."},
    call("call_1", "ls -a"),
    result("call_1", "README.md\n"),
    call("call_2", "cat README.md"),
    result("call_2", "# A small project\n"),
]


def request(label, messages, session=None, dialect="chat", **members):
    key = "input" if dialect == "responses" else "messages"
    headers = [("User-Agent", "x"), ("Authorization", "Bearer EMPTY"), ("Referer", "http://127.0.0.1:40001/")]
    headers += [("x-session-id", session)] if session else []
    body = compact({"model": "m", key: messages, "stream": True, **members}).encode()
    return ModelRequest(label, "POST", PATHS[dialect], (*headers, ("Content-Length", str(len(body)))), body)


def evidence(*requests, **what):
    run = Evidence(
        agent="opencode",
        dialect="chat",
        requests=requests,
        attempts=tuple(Attempt(each.label, 200, True) for each in requests),
        final_text="Done.",
        exit_status=0,
        usage={"input_tokens": 12},
        session_record={"session-1": '{"role":"user"}\n'},
        workspace={"README.md": "aa", "notes.md": "bb"},
        git_diff="+notes\n",
        addresses={"<address>": "127.0.0.1:40001"},
    )
    return replace(run, **what)


STEPS = [request("task 1", HISTORY[:2]), request("task 2", HISTORY[:4]), request("task 3", HISTORY)]
OFF = evidence(*STEPS)


def names(on, off=OFF):
    return [(finding.aspect, finding.name) for finding in compare(off, on).findings]


def with_last(new):
    """The run with another last request."""
    return replace(OFF, requests=(*STEPS[:2], new))


def with_body(change):
    return with_last(replace(STEPS[2], body=change(STEPS[2].body)))


def with_messages(messages):
    return with_last(request("task 3", messages))


def with_headers(change):
    return with_last(replace(STEPS[2], headers=tuple(change(list(STEPS[2].headers)))))


def arguments_spaced(body):
    old = compact(HISTORY[4])
    new = old.replace('{\\"command\\":\\"cat', '{ \\"command\\" : \\"cat')
    assert new != old
    return body.replace(old.encode(), new.encode())


REQUESTS = [
    ("message-missing", with_messages(HISTORY[:2] + HISTORY[3:])),
    ("message-added", with_messages(HISTORY[:4] + HISTORY[2:])),
    ("message-changed", with_messages([*HISTORY[:5], result("call_2", "# a small project\n")])),
    ("messages-reordered", with_messages([*HISTORY[:2], HISTORY[3], HISTORY[2], *HISTORY[4:]])),
    ("arguments-rewritten", with_body(arguments_spaced)),
    ("body-re-serialised", with_body(lambda body: json.dumps(json.loads(body), indent=1).encode())),
    ("body-re-serialised", with_body(lambda body: body.replace(b'"tool"', b'"\\u0074ool"'))),
    ("body-re-serialised", with_body(lambda body: body + b"\n")),
    ("envelope-changed", with_body(lambda body: body.replace(b'"stream":true', b'"stream":false'))),
    ("envelope-changed", with_body(lambda body: b'{"temperature":0,' + body[1:])),
    ("body-changed", with_body(lambda body: body[:-9])),
    ("header-missing", with_headers(lambda headers: headers[:1] + headers[2:])),
    ("header-added", with_headers(lambda headers: [*headers, ("History-Delta-Version", "1")])),
    ("header-added", with_headers(lambda headers: [*headers, headers[2]])),
    ("header-changed", with_headers(lambda headers: [headers[0], (headers[1][0], "Bearer none"), *headers[2:]])),
    ("header-changed", with_headers(lambda headers: [headers[0], ("authorization", headers[1][1]), *headers[2:]])),
    ("headers-reordered", with_headers(lambda headers: [headers[1], headers[0], *headers[2:]])),
    ("request-line-changed", with_last(replace(STEPS[2], path="/v1/chat/completions?x=1"))),
    ("request-line-changed", with_last(replace(STEPS[2], method="PUT"))),
]


@pytest.mark.parametrize(("name", "on"), REQUESTS)
def test_a_difference_between_two_requests_has_a_name(name, on):
    found = [finding for finding in compare(OFF, on).findings if finding.aspect == "requests"]
    assert [finding.name for finding in found] == [name]
    assert found[0].summary.startswith("task 3: ")
    assert any(line[:1] in "-+" for line in found[0].diff.splitlines()[2:])


@pytest.mark.parametrize(
    ("found", "on"),
    [
        ([("calls", "call-missing")], replace(OFF, requests=(STEPS[0], STEPS[2]))),
        ([("calls", "call-repeated")], replace(OFF, requests=(*STEPS, STEPS[1]))),
        ([("calls", "call-added")], replace(OFF, requests=(*STEPS, request("title", [{"role": "user"}])))),
        ([("final-text", "final-text-changed")], replace(OFF, final_text="Gave up.")),
        ([("usage", "usage-changed")], replace(OFF, usage={"input_tokens": 13})),
        ([("workspace", "file-changed")], replace(OFF, workspace={"README.md": "aa", "notes.md": "cc"})),
        ([("workspace", "file-missing")], replace(OFF, workspace={"README.md": "aa"})),
        ([("workspace", "file-added")], replace(OFF, workspace=OFF.workspace | {"x": "dd"})),
        ([("git-diff", "git-diff-changed")], replace(OFF, git_diff="-notes\n")),
        ([("session-record", "record-changed")], replace(OFF, session_record={"session-1": '{"role":"tool"}\n'})),
        ([("session-record", "record-missing")], replace(OFF, session_record={})),
        (
            [("session-record", "record-added")],
            replace(OFF, session_record=OFF.session_record | {"session-2": '{"x":1}'}),
        ),
        ([("exit-status", "exit-status-changed")], replace(OFF, exit_status=1)),
        ([("attempts", "attempt-missing")], replace(OFF, attempts=OFF.attempts[:2])),
        ([("attempts", "attempt-added")], replace(OFF, attempts=(*OFF.attempts, OFF.attempts[0]))),
        ([("attempts", "status-changed")], replace(OFF, attempts=(*OFF.attempts[:2], Attempt("task 3", 500, True)))),
        ([("attempts", "status-changed")], replace(OFF, attempts=(*OFF.attempts[:2], Attempt("task 3", None, False)))),
        ([("attempts", "end-cut")], replace(OFF, attempts=(*OFF.attempts[:2], Attempt("task 3", 200, False)))),
    ],
)
def test_what_differs_beside_the_requests_has_a_name(found, on):
    assert names(on) == found


def test_a_cut_that_was_ended_is_told_from_an_end_that_was_cut():
    cut = replace(OFF, attempts=(Attempt("task 1", 200, False), *OFF.attempts))
    ended = replace(OFF, attempts=(Attempt("task 1", 200, True), *OFF.attempts))
    assert names(ended, cut) == [("attempts", "cut-ended")]
    assert names(cut, ended) == [("attempts", "end-cut")]


def test_an_answer_of_another_size_is_named_where_both_were_seen_whole():
    def run(*sizes):
        return replace(OFF, attempts=tuple(Attempt("task 1", 200, True, size) for size in sizes))

    assert names(run(100, 80), run(100, 90)) == [("attempts", "answer-changed")]
    assert names(run(100, 90), run(90, 100)) == []
    assert names(run(100, None), run(100, 90)) == []
    assert names(run(100, 80), run(None, 90)) == []
    assert names(run(100), run(100, 90)) == [("attempts", "attempt-missing")]


def test_several_faults_of_a_request_are_all_named():
    both = with_headers(lambda headers: headers[1:])
    both = replace(both, requests=(*STEPS[:2], replace(both.requests[2], body=STEPS[2].body[:-1] + b',"x":1}')))
    assert names(both) == [("requests", "header-missing"), ("requests", "envelope-changed")]


def test_one_fault_that_shows_in_all_that_follows_is_one_finding():
    changed = [request(f"task {step}", [{"role": "system"}, *HISTORY[1 : step * 2]]) for step in (1, 2, 3)]
    found = compare(OFF, replace(OFF, requests=tuple(changed))).findings
    assert [finding.name for finding in found] == ["message-changed"]
    assert found[0].summary.endswith("(and 2 more such)")


HELPERS = [
    request("a 1", [{"role": "user", "content": "Count."}]),
    request("b 1", [{"role": "user", "content": "Read."}]),
]
HELPERS += [request("a 2", [*HISTORY[1:4]]), request("b 2", [*HISTORY[1:2], *HISTORY[4:]])]
MAIN = [request("task 1", HISTORY[:2], SES)]


def helpers(*sessions):
    return evidence(*MAIN, *(named(each, session) for each, session in zip(HELPERS, sessions, strict=True)))


def named(each, session):
    return replace(each, headers=(*each.headers, ("x-session-id", session)))


A, B = "ses_dd73b3a5effeq0sNJZPls71WNA", "ses_dd73b3a5effeq0sNJZPls71WNB"
OTHER_A, OTHER_B = "ses_aa73b3a5effeq0sNJZPls71WNA", "ses_aa73b3a5effeq0sNJZPls71WNB"


def test_sessions_that_are_named_anew_and_come_in_another_order_are_the_same():
    off, on = helpers(A, B, A, B), helpers(OTHER_A, OTHER_B, OTHER_A, OTHER_B)
    main, *others = on.requests
    assert names(replace(on, requests=(main, others[1], others[3], others[0], others[2])), off) == []


def test_two_conversations_that_were_swapped_are_named_so():
    assert names(helpers(A, B, B, A), helpers(A, B, A, B)) == [("requests", "conversations-swapped")]


def test_bodies_that_were_swapped_are_named_so():
    off = evidence(MAIN[0], named(HELPERS[2], A), named(HELPERS[3], B))
    on = evidence(
        MAIN[0], replace(off.requests[1], body=HELPERS[3].body), replace(off.requests[2], body=HELPERS[2].body)
    )
    assert ("requests", "conversations-swapped") in names(on, off)


def test_the_same_fault_in_two_requests_is_no_swap():
    on = [replace(each, headers=tuple(reversed(each.headers))) for each in STEPS]
    assert names(evidence(*on)) == [("requests", "headers-reordered")]


def test_what_each_hop_writes_anew_is_not_compared():
    hop = (("host", "127.0.0.1:1"), ("connection", "close"), ("transfer-encoding", "chunked"))
    on = [replace(each, headers=(*hop, *each.headers[:-1])) for each in STEPS]
    assert names(evidence(*on)) == []


def test_a_main_conversation_that_mixes_up_its_helpers_is_seen():
    def run(first, second):
        told = request("task 2", [*HISTORY[:3], result("call_1", f"{first} counted, {second} read")], SES)
        return evidence(*MAIN, named(HELPERS[0], A), named(HELPERS[1], B), told)

    assert names(run(A, B), run(A, B)) == []
    assert ("requests", "header-changed") in names(run(B, A), run(A, B)) or (
        "requests",
        "conversations-swapped",
    ) in names(run(B, A), run(A, B))


def test_two_helpers_with_the_same_body_may_come_in_any_order():
    same = [named(HELPERS[0], session) for session in (A, B)]
    later = [named(replace(HELPERS[2], label="a 2"), session) for session in (A, B)]
    off, on = evidence(*MAIN, *same, *later), evidence(*MAIN, *reversed(same), *later)
    assert names(on, off) == []


def test_sessions_that_were_begun_in_another_order_are_the_same_and_what_they_hold_is_told_apart():
    def run(*sessions):
        told = request("task 2", [*HISTORY[:3], result("call_1", f"{A} counted, {B} read")], SES)
        record = {f"session-{number}": compact({"id": id, "said": said}) for number, (id, said) in enumerate(sessions)}
        return evidence(*MAIN, told, session_record=record)

    off = run((SES, "start"), (A, "one"), (B, "two"))
    assert names(run((SES, "start"), (B, "two"), (A, "one")), off) == []
    assert names(run((SES, "start"), (A, "two"), (B, "one")), off) == [("session-record", "record-changed")]


CALLS = {
    "chat": (HISTORY[2:4], [HISTORY[2], result("call_1", "nothing\n")]),
    "responses": (
        [
            {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "a"},
        ],
        [
            {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "b"},
        ],
    ),
    "messages": (
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}]},
        ],
        [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "b"}]},
        ],
    ),
}


@pytest.mark.parametrize("dialect", list(CALLS))
def test_tool_calls_and_results_are_read_in_every_dialect(dialect):
    same, other = CALLS[dialect]

    def found(messages):
        findings = compare(
            evidence(request("task 2", same, dialect=dialect)), evidence(request("task 2", messages, dialect=dialect))
        ).findings
        return [(finding.name, finding.summary) for finding in findings if finding.aspect == "tool-calls"]

    assert found(other) == [("tool-calls-changed", "task: 2 calls and results, now 2")]
    assert found(same[:1]) == [("tool-calls-missing", "task: 2 calls and results, now 1")]
    assert found([*same, *other]) == [("tool-calls-added", "task: 2 calls and results, now 4")]


def test_a_request_that_lost_so_much_that_the_model_took_it_for_another_is_found_by_content():
    lost = request("task 2", [*HISTORY[:2], HISTORY[3], HISTORY[5]])
    assert ("requests", "message-missing") in names(replace(OFF, requests=(*STEPS[:2], lost)))


def test_arguments_in_an_object_are_told_from_the_rest_of_a_message():
    block = {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"a": 1, "b": 2}}
    off = request("task 2", [{"role": "assistant", "content": [block]}], dialect="messages")
    on = replace(off, body=off.body.replace(b'{"a":1,"b":2}', b'{"b":2, "a":1}'))
    assert ("requests", "arguments-rewritten") in names(evidence(on), evidence(off))
    on = replace(off, body=off.body.replace(b'"name":"bash"', b'"name": "bash"'))
    assert names(evidence(on), evidence(off)) == [("requests", "body-re-serialised")]


def test_large_numbers_and_other_values_are_not_taken_for_another_spelling():
    off = request("task 2", [{"role": "user", "content": [{"n": 9007199254740993}]}])
    on = replace(off, body=off.body.replace(b"9007199254740993", b"9007199254740992"))
    assert names(evidence(on), evidence(off)) == [("requests", "message-changed")]


@pytest.mark.parametrize("body", [b"\xff\xfe", b"no json", b"", b'{"messages":[', b"[]"])
def test_a_body_that_is_no_model_call_is_compared_whole(body):
    other = replace(STEPS[0], body=body)
    assert names(evidence(other), evidence(other)) == []
    assert names(evidence(replace(other, body=body + b"!")), evidence(other)) == [("requests", "body-changed")]


def test_a_diff_is_one_line_for_each_member_and_no_longer_than_a_person_reads():
    long = [{"role": "user", "content": [{"n": number} for number in range(5000)]}]
    changed = [{"role": "user", "content": [{"n": -number} for number in range(5000)]}]
    found = compare(evidence(request("task 1", long)), evidence(request("task 1", changed))).findings[0]
    lines = found.diff.splitlines()
    assert '-    "n":17' in lines or '-   "n":17' in lines or any('"n":17' in line for line in lines)
    assert len(lines) == 201
    assert "left out" in lines[-1]


def test_rules_are_counted_on_either_side():
    counts = compare(evidence(*MAIN), evidence(*MAIN, *MAIN)).counts
    assert (counts["port"].off, counts["port"].on) == (1, 2)
    assert (counts["opencode-session-id"].off, counts["opencode-session-id"].on) == (1, 2)
    assert not any(name.startswith("codex") for name in counts)


def test_bodies_are_compared_without_any_rule():
    one, other = ("POST", "/v1/responses", "aa"), ("POST", "/v1/responses", "bb")
    assert raw(Counter([one, other]), Counter([other, one])) == ()
    (found,) = raw(Counter([one]), Counter([other]))
    assert (found.name, found.diff) == ("body-not-equal", "-POST /v1/responses aa\n+POST /v1/responses bb")
    assert raw(Counter([one]), Counter([one, one]))
    assert raw(Counter([one]), Counter())
    assert raw(Counter([one]), Counter(), Counter([one])) == ()
    assert raw(Counter([one, one, other]), Counter([other]), Counter([one]))
    assert raw(Counter([one]), Counter(), Counter([other]))
    assert raw(Counter([one]), Counter([one, one]), Counter([one]))


texts = st.text(max_size=20)
messages = st.lists(st.fixed_dictionaries({"role": texts, "content": texts | st.lists(st.integers())}), max_size=5)
requests = st.builds(
    request, st.sampled_from(["task 1", "task 2", "helper 1", "title", ""]), messages, st.sampled_from([None, SES, A])
)
runs = st.builds(
    lambda requests, text, record: evidence(*requests, final_text=text, session_record=record),
    st.lists(requests, max_size=6),
    texts,
    st.dictionaries(texts, texts, max_size=3),
)


@given(runs)
def test_a_run_is_the_same_as_itself(run):
    assert names(run, run) == []


@given(runs, st.randoms(use_true_random=False))
def test_two_runs_with_other_ids_are_the_same(run, random):
    def again(text):
        return text.replace(SES, OTHER_SES).replace(A, OTHER_A)

    other = [
        replace(each, headers=tuple((name, again(value)) for name, value in each.headers)) for each in run.requests
    ]
    assert names(replace(run, requests=tuple(other)), run) == []


@given(runs, runs)
def test_a_comparison_finds_the_same_whichever_way_round(run, other):
    assert bool(names(run, other)) == bool(names(other, run))
