# SPDX-License-Identifier: Apache-2.0
"""The splitter against SPEC.md section 4, and against a slow reference that shares nothing with it."""

import hostile_json
import pytest
import slow_reference
from history_delta_protocol import scan
from history_delta_protocol.dialect import DIALECTS
from hypothesis import given, settings
from hypothesis import strategies as st

dialects = st.sampled_from([dialect.name for dialect in DIALECTS])


def key_of(dialect):
    return slow_reference.HISTORY_KEYS[dialect]


@st.composite
def dialects_and_bodies(draw, damaged=False):
    dialect = draw(dialects)
    body = hostile_json.bodies(key_of(dialect))
    return dialect, draw(hostile_json.damaged(body) if damaged else body)


def outcome(body, dialect):
    """What the package makes of a body: (head, pairs, tail), or None."""
    try:
        found = scan.split(body, key_of(dialect))
    except scan.NotUnderstood:
        return None
    position = found.head_end
    pairs = []
    for start, end in zip(found.starts, found.ends, strict=True):
        pairs.append((body[position:start], body[start:end]))
        position = end
    assert position == found.tail_start
    return body[: found.head_end], pairs, body[found.tail_start :]


def reference_outcome(body, dialect):
    try:
        found = slow_reference.split(body, dialect)
    except slow_reference.NotUnderstood:
        return None
    return found.head, found.messages, found.tail


def reason(body, key="messages"):
    with pytest.raises(scan.NotUnderstood) as caught:
        scan.split(body, key)
    return caught.value.reason


@given(dialects_and_bodies())
@settings(max_examples=200)
def test_agrees_with_the_slow_reference(case):
    dialect, body = case
    assert outcome(body, dialect) == reference_outcome(body, dialect)


@given(dialects_and_bodies(damaged=True))
@settings(max_examples=300)
def test_agrees_with_the_slow_reference_on_what_is_hardly_json(case):
    dialect, body = case
    assert outcome(body, dialect) == reference_outcome(body, dialect)


@given(st.binary(max_size=200), dialects)
def test_any_bytes_are_split_or_not_understood(body, dialect):
    assert outcome(body, dialect) == reference_outcome(body, dialect)


@given(dialects_and_bodies())
def test_the_parts_put_together_are_the_body(case):
    dialect, body = case
    found = outcome(body, dialect)
    if found is not None:
        head, pairs, tail = found
        assert head + b"".join(separator + message for separator, message in pairs) + tail == body


@given(dialects_and_bodies())
@settings(max_examples=100)
def test_scanning_on_from_any_boundary_gives_the_same_split(case):
    dialect, body = case
    try:
        found = scan.split(body, key_of(dialect))
    except scan.NotUnderstood:
        return
    boundaries = list(zip(found.starts, found.ends, strict=True))
    for already in range(1, len(boundaries) + 1):
        rest = list(scan.iter_messages(body, found.ends[already - 1], already))
        assert rest == boundaries[already:]


@given(st.lists(st.sampled_from([b"1", b"12", b"[1", b'"', b",", b"]", b" ", b"{}"]), max_size=6), dialects)
def test_a_shared_prefix_that_ends_here_is_a_boundary_of_both(parts, dialect):
    key = key_of(dialect).encode()
    old = b'{"' + key + b'":[1,12,{}]}'
    new = b'{"' + key + b'":[1' + b"".join(parts) + b"]}"
    position = old.index(b"1") + 1
    found = outcome(new, dialect)
    if found is not None:
        assert scan.ends_here(new, position) == (found[1][0] == (b"", b"1"))


def test_a_number_that_goes_on_does_not_end_here():
    assert not scan.ends_here(b"[12", 2)
    assert not scan.ends_here(b"[1 2", 2)
    assert not scan.ends_here(b"[1", 2)
    assert scan.ends_here(b"[1 \t\r\n,2", 2)
    assert scan.ends_here(b"[1]", 2)


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("levels", [511, 512])
def test_a_message_may_nest_as_deep_as_the_limit(levels, kind):
    body = b'{"messages":[' + hostile_json.nested(levels, kind) + b"]}"
    assert outcome(body, "chat")[1] == [(b"", hostile_json.nested(levels, kind))]


@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("levels", [513, 100_000])
def test_a_message_beyond_the_depth_limit_is_not_understood(levels, kind):
    assert reason(b'{"messages":[' + hostile_json.nested(levels, kind) + b"]}") == scan.TOO_DEEP
    assert reason(b'{"messages":[1,' + b"[" * levels) == scan.TOO_DEEP


def test_what_comes_before_the_history_may_nest_one_level_more():
    for levels, understood in [(513, True), (514, False)]:
        body = b'{"a":' + hostile_json.nested(levels) + b',"messages":[]}'
        assert (outcome(body, "chat") is not None) is understood
        assert (reference_outcome(body, "chat") is not None) is understood


def test_what_comes_behind_the_history_may_nest_as_it_likes():
    for tail in [b'],"tools":' + hostile_json.nested(100_000) + b"}", b"]" + b"[" * 100_000]:
        assert outcome(b'{"messages":[1' + tail, "chat") == (b'{"messages":[', [(b"", b"1")], tail)


@pytest.mark.parametrize("length", range(65_536 - 24, 65_536 + 4))
def test_a_history_that_begins_about_where_the_first_look_ends(length):
    """Everything of the key and the bracket lies once before, once on, and once behind 64 KiB."""
    head = b'{"a":' + b"1" * length + b',"messages":['
    assert outcome(head + b"[1],2]}", "chat") == (head, [(b"", b"[1]"), (b",", b"2")], b"]}")
    assert reason(head[:-1] + b"1]}" + b" " * 70_000) == scan.NO_HISTORY


def test_many_brackets_in_strings_are_no_depth():
    message = b'"' + b"[{" * 100_000 + b'\\"[\\\\"'
    assert outcome(b'{"messages":[' + message + b"]}", "chat")[1] == [(b"", message)]


def test_many_values_side_by_side_are_no_depth():
    message = b"[" + b"[{}]," * 5_000 + b"0]"
    assert outcome(b'{"messages":[' + message + b"," + message + b"]}", "chat")[1] == [(b"", message), (b",", message)]


def test_a_history_of_as_many_messages_as_the_limit():
    full = b'{"messages":[' + b"1," * 99_999 + b"1"
    assert len(scan.split(full + b"]}", "messages").ends) == 100_000
    assert reason(full + b",1]}") == scan.TOO_MANY_MESSAGES


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", scan.NOT_JSON),
        (b"[]", scan.NOT_JSON),
        (b"\xef\xbb\xbf" + b'{"messages":[]}', scan.NOT_JSON),
        ('{"messages":[]}'.encode("utf-16"), scan.NOT_JSON),
        (b'\x1c{"messages":[]}', scan.NOT_JSON),
        (b'{"messages":\xc2\xa0[]}', scan.NO_HISTORY),
        (b'{"messages":[1\x1c,2]}', scan.NOT_JSON),
        (b'{"messages":[1,]}', scan.NOT_JSON),
        (b'{"messages":[,1]}', scan.NOT_JSON),
        (b'{"messages":[01]}', scan.NOT_JSON),
        (b'{"messages":["\\x"]}', scan.NOT_JSON),
        (b'{"messages":["\\u12g4"]}', scan.NOT_JSON),
        (b'{"messages":[1', scan.NOT_JSON),
        (b'{"messages":["a', scan.NOT_JSON),
        (b'{"messages" [1]}', scan.NOT_JSON),
        (b'{"a":1,"messages', scan.NOT_JSON),
        (b"{}", scan.NO_HISTORY),
        (b'{"input":[1]}', scan.NO_HISTORY),
        (b'{"messages":"hello"}', scan.NO_HISTORY),
        (b'{"messages":null,"messages":[1]}', scan.NO_HISTORY),
        (b'{"a":{"messages":[1]}}', scan.NO_HISTORY),
    ],
)
def test_what_is_not_understood_says_why(body, why):
    assert reason(body) == why
    assert reference_outcome(body, "chat") is None


def test_the_first_member_of_the_name_is_taken_and_nested_ones_are_not():
    body = b'{"x":{"messages":[0]},"m\\u0065ssages":[1],"messages":[2]}'
    head, pairs, tail = outcome(body, "chat")
    assert (head, pairs, tail) == (b'{"x":{"messages":[0]},"m\\u0065ssages":[', [(b"", b"1")], b'],"messages":[2]}')
