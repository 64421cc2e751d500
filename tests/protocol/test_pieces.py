# SPDX-License-Identifier: Apache-2.0
"""Piece lists: whatever diff gives, apply makes the new item of it; and it pays where agents re-order or rewrite."""

import json
import random

import pytest
from history_delta_protocol import pieces
from history_delta_protocol.wire import MAX_PIECES
from hypothesis import given, settings
from hypothesis import strategies as st

short = st.binary(max_size=60) | st.text("ab,", max_size=60).map(str.encode)


@st.composite
def related(draw):
    """An old item and a new one cut and glued together out of it."""
    old = draw(st.text('ab,":{}', min_size=0, max_size=300).map(str.encode))
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(old)))
        parts.append(old[start : draw(st.integers(start, len(old)))])
        parts.append(draw(st.binary(max_size=20)))
    return old, b"".join(parts)


def literal_bytes(made):
    return sum(len(piece) for piece in made if isinstance(piece, bytes))


@given(related() | st.tuples(short, short))
@settings(max_examples=500)
def test_the_pieces_of_a_diff_make_the_new_item(pair):
    old, new = pair
    made = pieces.diff(old, new)
    if made is None:
        return
    assert pieces.apply(old, made) == new
    assert pieces.size_of(made) == len(new)
    assert 0 < len(made) <= MAX_PIECES
    assert all(piece if isinstance(piece, bytes) else piece[1] > 0 for piece in made)
    assert literal_bytes(made) < len(new)


@given(short, short, st.integers(0, 5), st.integers(0, 5))
@settings(max_examples=300)
def test_common_prefix_is_the_longest(old, new, old_start, new_start):
    old_start, new_start = min(old_start, len(old)), min(new_start, len(new))
    length = pieces.common_prefix(old, old_start, len(old), new, new_start, len(new))
    some, other = old[old_start:], new[new_start:]
    assert some[:length] == other[:length]
    assert length in (len(some), len(other)) or some[length] != other[length]


@pytest.mark.parametrize("place", [0, 1, 65535, 65536, 65537, 131071, 131072, 199_998, 199_999])
def test_common_prefix_at_the_edges_of_its_steps(place):
    old = bytes(200_000)
    new = old[:place] + b"x" + old[place + 1 :]
    assert pieces.common_prefix(old, 0, len(old), new, 0, len(new)) == place
    assert pieces.common_prefix(old, 0, place, new, 0, len(new)) == place
    assert pieces.common_suffix(old, new, len(old)) == len(old) - place - 1


def test_common_prefix_stays_inside_its_bounds():
    assert pieces.common_prefix(b"abcd", 1, 3, b"bcd", 0, 3) == 2
    assert pieces.common_prefix(b"", 0, 0, b"a", 0, 1) == 0


@given(short, short, st.integers(0, 70))
@settings(max_examples=300)
def test_common_suffix_is_the_longest_within_its_limit(old, new, limit):
    length = pieces.common_suffix(old, new, limit)
    assert length <= limit
    assert old[len(old) - length :] == new[len(new) - length :]
    room = min(limit, len(old), len(new))
    assert length == room or old[len(old) - length - 1] != new[len(new) - length - 1]


def test_nothing_worth_copying_is_no_diff():
    assert pieces.diff(b"", b"") is None
    assert pieces.diff(b"abc", b"abc") is None
    assert pieces.diff(b"x" * 100, b"y" * 100) is None


def test_equal_items_are_one_copy():
    item = bytes(range(200))
    assert pieces.diff(item, item) == [(0, 200)]


def test_shuffled_members_cost_less_than_themselves():
    """As Codex does: one member at the envelope's end, its own members in another order on each call."""
    metadata = {f"member_{i}": f"value {i * 7919} of some length" for i in range(20)}
    tools = json.dumps([{"name": f"tool_{i}", "description": "d" * 100} for i in range(60)])
    rng = random.Random(1)

    def tail():
        members = list(metadata.items())
        rng.shuffle(members)
        return f'],"tools":{tools},"client_metadata":{json.dumps(dict(members))}}}'.encode()

    old, new = tail(), tail()
    made = pieces.diff(old, new)
    assert pieces.apply(old, made) == new
    assert literal_bytes(made) < 150
    assert len(made) < 30


def test_too_many_fragments_are_one_literal():
    rng = random.Random(2)
    members = [b'"key number %d":"some value",' % i for i in range(200)]
    old = b"{" * 20 + b"".join(members) + b"}" * 20
    rng.shuffle(members)
    new = b"{" * 20 + b"".join(members) + b"}" * 20
    made = pieces.diff(old, new)
    assert [type(piece) for piece in made] == [tuple, bytes, tuple]
    assert pieces.apply(old, made) == new


def test_a_copy_beyond_the_end_is_refused():
    assert pieces.apply(b"abc", [(1, 2), b"x", (0, 1)]) == b"bcxa"
    for piece in [(1, 3), (3, 1), (4, 1), (2**53 - 1, 2**53 - 1)]:
        with pytest.raises(ValueError, match="of an item of 3 bytes"):
            pieces.apply(b"abc", [piece])
