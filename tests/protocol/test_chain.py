# SPDX-License-Identifier: Apache-2.0
"""Chain values against SPEC.md section 5."""

import hashlib

import pytest
import slow_reference
from history_delta_protocol import chain
from hypothesis import given
from hypothesis import strategies as st

pairs = st.lists(st.tuples(st.binary(max_size=4), st.binary(max_size=40)), max_size=6)
dialects = st.sampled_from(["chat", "responses", "messages"])


def fold(dialect, messages):
    values = [chain.start(dialect)]
    for separator, message in messages:
        values.append(chain.extend(values[-1], separator, message))
    return values


def test_the_worked_example_of_the_specification():
    values = fold("chat", [(b"", b'{"role":"user","content":"hi"}'), (b",", b"1")])
    assert [value.hex() for value in values] == [
        "b63cb132c37a9f0c18597ca24b145b9339bfb20b72f17977a4d7ca49a32151e0",
        "b2720b0cd7b9590ccb6c26f0ad949e14d9427427930570b6ec9a4d5d82c77bc5",
        "c1310ddade7e272d56ee6941fb329a782700f32be44a72996da061e20f797dfd",
    ]


@given(dialects, pairs)
def test_agrees_with_the_slow_reference(dialect, messages):
    assert fold(dialect, messages) == slow_reference.chain_values(dialect, messages)


@given(dialects, st.binary(max_size=5), pairs)
def test_over_a_body_is_the_same_as_message_by_message(dialect, head, messages):
    body, starts, ends = head, [], []
    for separator, message in messages:
        starts.append(len(body) + len(separator))
        body += separator + message
        ends.append(len(body))
    values = chain.extend_over(chain.start(dialect), body + b"]}", len(head), starts, ends)
    assert [chain.start(dialect), *values] == fold(dialect, messages)


@given(pairs, pairs)
def test_different_histories_have_different_values(some, others):
    assert (fold("chat", some)[-1] == fold("chat", others)[-1]) is (some == others)


@given(st.binary(max_size=4), st.binary(max_size=4))
def test_where_separator_and_message_meet_is_part_of_the_value(separator, message):
    moved = (separator + message[:1], message[1:])
    start = chain.start("chat")
    assert (chain.extend(start, separator, message) == chain.extend(start, *moved)) is (message == b"")


def test_dialects_have_histories_of_their_own():
    assert len({chain.start(name) for name in ("chat", "responses", "messages")}) == 3


@given(st.binary(min_size=32, max_size=32))
def test_text_there_and_back(digest):
    text = chain.to_text(digest)
    assert text == slow_reference.text(digest)
    assert len(text) == chain.TEXT_LENGTH
    assert chain.from_text(text) == digest


@given(st.text(max_size=50) | st.text("ABCDEFabcdef0123456789-_=+/ \n", min_size=42, max_size=45))
def test_any_other_text_is_refused(text):
    try:
        digest = chain.from_text(text)
    except ValueError:
        return
    assert chain.to_text(digest) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A" * 42,
        "A" * 44,
        "A" * 42 + "B",
        "A" * 42 + "=",
        "A" * 43 + "=",
        "A" * 42 + "\n",
        "A" * 21 + "+" + "A" * 21,
        "A" * 20 + " " + "A" * 23,
        "é" * 43,
        "A" * 42 + "\ud800",
    ],
)
def test_text_that_is_not_canonical_is_refused(text):
    with pytest.raises(ValueError, match="not"):
        chain.from_text(text)


def test_an_item_is_named_by_its_sha_256():
    assert chain.item_hash(b"]}") == hashlib.sha256(b"]}").digest()
