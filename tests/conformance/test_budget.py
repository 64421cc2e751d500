# SPDX-License-Identifier: Apache-2.0
"""What a run may cost, from its bodies alone."""

import json

import pytest
from history_delta_conformance.budget import budgets, parts_of
from history_delta_conformance.observer import Exchange

CHAT = "/ng-rollout/r/v1/chat/completions"


def call(body, started, answered=None, target=CHAT):
    data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    return Exchange(0, "POST", target, [], started, data, answered=answered)


def message(text):
    return {"role": "user", "content": text}


def size(value):
    return len(json.dumps(value, ensure_ascii=False).encode())


ONE, TWO, NEW = message("one é"), message("two"), message("new 🎈")
TOOLS = [{"name": "a tool with a long description"}]


def body(*messages, **members):
    return {"model": "m", "messages": list(messages), "tools": TOOLS} | members


def test_the_first_body_counts_whole_and_an_appended_message_alone():
    calls = [call(body(ONE), 0, 1), call(body(ONE, TWO, NEW), 2, 3)]
    assert budgets(calls) == [len(calls[0].body), size(TWO) + size(NEW)]


def test_a_rewritten_message_counts_whole_and_one_that_went_costs_nothing():
    calls = [call(body(ONE, TWO), 0, 1), call(body(NEW, TWO), 2, 3), call(body(TWO), 4, 5)]
    assert budgets(calls)[1:] == [size(NEW), 0]


def test_a_changed_member_of_the_envelope_counts_with_its_key():
    calls = [call(body(ONE, meta={"a": 1, "b": 2}), 0, 1), call(body(ONE, meta={"b": 2, "a": 1}), 2, 3)]
    assert budgets(calls)[1] == len('"meta": {"b": 2, "a": 1}')


def test_a_body_that_is_still_unanswered_is_nothing_to_build_on():
    calls = [call(body(ONE), 0, 5), call(body(ONE), 4, 6), call(body(ONE), 7)]
    assert budgets(calls) == [len(calls[0].body), len(calls[1].body), 0]


def test_the_cheapest_of_all_earlier_bodies_counts():
    calls = [call(body(ONE), 0, 1), call({"model": "m", "messages": [TWO]}, 2, 3), call(body(ONE, NEW), 4, 5)]
    assert budgets(calls)[2] == size(NEW)


def test_the_same_message_twice_is_new_the_second_time():
    calls = [call(body(ONE), 0, 1), call(body(ONE, ONE), 2, 3)]
    assert budgets(calls)[1] == size(ONE)


@pytest.mark.parametrize("data", [b"\xff", b"[]", b'{"messages":[', b"{} extra", b"", b"{"])
def test_what_cannot_be_split_counts_whole(data):
    calls = [call(body(ONE), 0, 1), call(data, 2, 3)]
    assert budgets(calls)[1] == len(data)


@pytest.mark.parametrize("indent", [None, 2])
def test_parts_are_the_raw_text(indent):
    text = json.dumps({"model": "m", "input": [1, {"b": [2]}, "x"], "store": False}, indent=indent)
    parts = parts_of("/v1/responses", text.encode())
    assert [json.loads(text) for text in parts.messages] == [1, {"b": [2]}, "x"]
    assert parts.members == {'"model": "m"', '"store": false'}


def test_a_history_that_is_no_array_is_a_member():
    parts = parts_of("/v1/responses", b'{"input":"just text"}')
    assert (parts.members, parts.messages) == ({'"input":"just text"'}, ())
