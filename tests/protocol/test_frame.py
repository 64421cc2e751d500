# SPDX-License-Identifier: Apache-2.0
"""The frame codec: there and back, and every deviation from the grammar refused at its own field."""

import copy
import json

import pytest
from history_delta_protocol import chain, frame
from history_delta_protocol.frame import HELD, Edit, Frame, Malformed, Pieces, Result, TooLarge
from hypothesis import given, settings
from hypothesis import strategies as st

LIMIT = 10_000_000
HASH = chain.to_text(bytes(range(32)))

digests = st.binary(min_size=32, max_size=32)
literal = st.binary(min_size=1, max_size=12)
copies = st.tuples(st.integers(0, 2**53 - 1), st.integers(1, 2**53 - 1))
piece_lists = st.lists(copies | literal, min_size=1, max_size=5) | st.lists(literal, min_size=64, max_size=64)
items = literal | st.just(HELD) | st.builds(Pieces, digests, piece_lists)
content_types = st.none() | st.sampled_from(["", "application/json", "a/b; charset=utf-8\t;x", "\xa9/\xff", "!~"])
separators = st.binary(max_size=3)


@st.composite
def edit_lists(draw, base_count):
    edits, free = [], 0
    while free <= base_count and draw(st.booleans()):
        at = draw(st.integers(free, base_count))
        remove = draw(st.integers(0, base_count - at))
        source = st.builds(Pieces, st.integers(0, base_count - 1), piece_lists) if base_count else literal
        insert = draw(st.lists(st.tuples(separators, literal | source), min_size=0 if remove else 1, max_size=3))
        edits.append(Edit(at, remove, insert))
        free = at + max(remove, 1)
    return edits


@st.composite
def frames(draw):
    base_count = draw(st.integers(0, 8) | st.just(100_000))
    return Frame(
        content_type=draw(content_types),
        head=draw(items),
        base_count=base_count,
        base_chain=draw(digests),
        edits=draw(edit_lists(base_count)),
        append=draw(st.lists(st.tuples(separators, literal), max_size=4)),
        tail=draw(items),
        result=draw(st.builds(Result, st.integers(0, 100_000), digests, digests, digests, st.integers(0, LIMIT))),
    )


@given(frames())
@settings(max_examples=300)
def test_there_and_back(sent):
    assert frame.decode(frame.encode(sent), LIMIT) == sent


@given(frames(), st.data())
@settings(max_examples=100)
def test_the_order_of_members_and_blanks_mean_nothing(sent, data):
    line, _, literals = frame.encode(sent).partition(b"\n")
    members = list(json.loads(line).items())
    shuffled = dict(data.draw(st.permutations(members)))
    spaced = " " + json.dumps(shuffled, separators=(" ,\t", " : ")) + "\r"
    assert frame.decode(spaced.encode() + b"\n" + literals, LIMIT) == sent


@given(st.binary(max_size=300))
def test_any_bytes_are_a_frame_or_refused(data):
    with pytest.raises((Malformed, TooLarge)):
        frame.decode(data, LIMIT, 200)


@given(frames(), st.integers(0, 5000), st.integers(0, 3), st.binary(max_size=4))
@settings(max_examples=500)
def test_a_damaged_frame_is_a_frame_or_refused(sent, place, removed, put_in):
    data = frame.encode(sent)
    place %= len(data)
    damaged = data[:place] + put_in + data[place + removed :]
    try:
        received = frame.decode(damaged, LIMIT)
    except (Malformed, TooLarge):
        return
    assert frame.decode(frame.encode(received), LIMIT) == received


@given(frames(), st.data())
@settings(max_examples=200)
def test_a_frame_cut_or_grown_is_malformed(sent, data):
    whole = frame.encode(sent)
    with pytest.raises(Malformed):
        frame.decode(whole[: data.draw(st.integers(0, len(whole) - 1))], LIMIT)
    with pytest.raises(Malformed, match="left over"):
        frame.decode(whole + b"\n", LIMIT)


# A frame in which everything that the grammar knows stands once; its literals are all "x".
LINE = {
    "content_type": "application/json",
    "head": {"of": HASH, "pieces": [[0, 10], 2]},
    "base": [5, HASH],
    "edits": [
        [0, 0, [[1, 2]]],
        [1, 2, [[1, {"of": 4, "pieces": [3, [7, 8]]}], [0, 1]]],
        [4, 1, []],
    ],
    "append": [[1, 4], [0, 5]],
    "tail": 6,
    "result": [7, HASH, HASH, HASH, 1000],
}


def literal_total(value):
    total = 0
    for key in ("head", "tail"):
        total += value[key] if isinstance(value[key], int) else 0
    for pair in value["append"] + [pair for edit in value["edits"] for pair in edit[2]]:
        total += pair[0] + (pair[1] if isinstance(pair[1], int) else 0)
    piece_lists = [value["head"], value["edits"][1][2][0][1]]
    return total + sum(piece for item in piece_lists for piece in item["pieces"] if isinstance(piece, int))


def data_of(line):
    return json.dumps(line).encode() + b"\n" + b"x" * literal_total(LINE)


def leaves(value, path=()):
    """Every place of the line: (path, value), containers included."""
    yield path, value
    if isinstance(value, dict):
        for key, member in value.items():
            yield from leaves(member, (*path, key))
    if isinstance(value, list):
        for index, member in enumerate(value):
            yield from leaves(member, (*path, index))


def named(path):
    name = ""
    for step in path:
        name += f"[{step}]" if isinstance(step, int) else f".{step}"
    return name[1:] or "line"


def replaced(path, value):
    line = copy.deepcopy(LINE)
    if not path:
        return value
    place = line
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return line


def wrong_values(path, value):
    """Values that the grammar has at no such place."""
    yield from [True, False, 1.0, 1.5, -1, 2**53, "x", "HELD", HASH[:-1], HASH + "=", 10**30]
    if path != ("content_type",):
        yield None
    if not isinstance(value, list):
        yield from [[], [1], [1, 2, 3]]
    if not isinstance(value, dict):
        yield {}
    if isinstance(value, list) and path[-1] not in ("edits", "append", "pieces") and path[2:] != (2,):
        yield from [[], [*value, 0], [*value, None], value[:-1]]


WRONG = [
    (path, wrong)
    for path, value in leaves(LINE)
    for wrong in wrong_values(path, value)
    if not (path == ("content_type",) and isinstance(wrong, str))
]


def test_the_frame_with_everything_is_read():
    received = frame.decode(data_of(LINE), LIMIT)
    assert received.head == Pieces(bytes(range(32)), [(0, 10), b"xx"])
    assert received.edits[1] == Edit(1, 2, [(b"x", Pieces(4, [b"xxx", (7, 8)])), (b"", b"x")])
    assert received.tail == b"x" * 6


@pytest.mark.parametrize(("path", "wrong"), WRONG, ids=lambda value: str(value)[:40])
def test_a_wrong_value_anywhere_is_refused_at_its_field(path, wrong):
    with pytest.raises(Malformed) as caught:
        frame.decode(data_of(replaced(path, wrong)), LIMIT)
    # Where the value has parts, the fault may be named at one of them.
    assert caught.value.field.startswith(named(path))


def changed(change):
    line = copy.deepcopy(LINE)
    change(line)
    return line


@pytest.mark.parametrize("member", LINE)
def test_a_missing_member_is_named(member):
    with pytest.raises(Malformed) as caught:
        frame.decode(data_of(changed(lambda line: line.pop(member))), LIMIT)
    assert (caught.value.field, str(caught.value)) == (member, f"{member}: missing")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda line: line.update(extra=1), "line"),
        (lambda line: line["head"].update(extra=1), "head"),
        (lambda line: line["head"].pop("of"), "head.of"),
        (lambda line: line["edits"][1][2][0][1].pop("pieces"), "edits[1][2][0][1].pieces"),
        (lambda line: line["edits"][1][2][0][1].update(of=5), "edits[1][2][0][1].of"),
        (lambda line: line["head"]["pieces"].__setitem__(0, [0, 0]), "head.pieces[0][1]"),
        (lambda line: line["head"]["pieces"].__setitem__(1, 0), "head.pieces[1]"),
        (lambda line: line["head"].update(pieces=[[0, 1]] * 65), "head.pieces"),
        (lambda line: line["head"].update(pieces=[]), "head.pieces"),
        (lambda line: line.update(tail=0), "tail"),
        (lambda line: line["append"].__setitem__(0, [1, 0]), "append[0][1]"),
        (lambda line: line["edits"][0][2].__setitem__(0, [1, 0]), "edits[0][2][0][1]"),
        (lambda line: line["base"].__setitem__(0, 100_001), "base[0]"),
        (lambda line: line["result"].__setitem__(0, 100_001), "result[0]"),
        # Edits: ascending, disjoint, inside the base, each changing something.
        (lambda line: line["edits"].reverse(), "edits[1][0]"),
        (lambda line: line["edits"][1].__setitem__(0, 0), "edits[1][0]"),
        (lambda line: line["edits"][2].__setitem__(0, 2), "edits[2][0]"),
        (lambda line: line["edits"][2].__setitem__(1, 2), "edits[2][1]"),
        (lambda line: line["edits"][2].__setitem__(0, 6), "edits[2][0]"),
        (lambda line: line["edits"][2].__setitem__(1, 0), "edits[2]"),
        # Literals beyond the end.
        (lambda line: line.update(tail=7), "tail"),
        (lambda line: line.update(tail=2**53 - 1), "tail"),
        # Content types that would end their header line.
        (lambda line: line.update(content_type="a/b\r\nX: y"), "content_type"),
        (lambda line: line.update(content_type="a/b\n"), "content_type"),
        (lambda line: line.update(content_type="a\x00b"), "content_type"),
        (lambda line: line.update(content_type="\x7f"), "content_type"),
        (lambda line: line.update(content_type="a/b "), "content_type"),
        (lambda line: line.update(content_type=" a/b"), "content_type"),
        (lambda line: line.update(content_type="\u20ac"), "content_type"),
        (lambda line: line.update(content_type="\ud800"), "content_type"),
        # A frame within a frame.
        (lambda line: line.update(content_type="Application/vnd.History-Delta; v=1"), "content_type"),
    ],
)
def test_what_breaks_a_rule_is_refused_at_its_field(change, field):
    with pytest.raises(Malformed) as caught:
        frame.decode(data_of(changed(change)), LIMIT)
    assert caught.value.field == field


@given(st.text(max_size=5) | st.text("a/\t \r\n\x00\x7f\x80\xff\u0100", max_size=5))
def test_a_content_type_that_can_be_carried_is_read_and_any_other_refused(content_type):
    data = data_of(changed(lambda line: line.update(content_type=content_type)))
    if frame.is_content_type(content_type):
        assert frame.decode(data, LIMIT).content_type == content_type
        assert content_type == content_type.strip(" \t")
        assert all(char == "\t" or " " <= char <= "~" or "\x80" <= char <= "\xff" for char in content_type)
    else:
        with pytest.raises(Malformed):
            frame.decode(data, LIMIT)


@pytest.mark.parametrize("member", LINE)
def test_a_duplicate_member_is_refused(member):
    text = data_of(LINE)
    again = json.dumps({member: LINE[member]}).encode()[1:-1]
    with pytest.raises(Malformed, match="stands twice"):
        frame.decode(b"{" + again + b"," + text[1:], LIMIT)


@pytest.mark.parametrize(
    "spelling", [b"-0", b"6.0", b"6e0", b"0" * 17, b"9" * 6000, b"-6", b"006", b"+6", b"NaN", b"Infinity"]
)
def test_a_number_in_any_other_spelling_is_refused(spelling):
    text = data_of(LINE).replace(b'"tail": 6', b'"tail": ' + spelling)
    with pytest.raises(Malformed) as caught:
        frame.decode(text, LIMIT)
    assert caught.value.field == ("line" if spelling[:1] in b"0+NI" else "tail")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"\xef\xbb\xbf{}",
        b'{"\xff":1}',
        b'{"a":1}{}',
        b"{}x",
        b"[" * 60_000,
        b'{"a":' * 10_000,
        b"{'head':1}",
        b'{"a":"\x01"}',
        b'\xc2\xa0{"a":1}',
    ],
)
def test_a_line_that_is_no_json_object_is_refused(line):
    with pytest.raises(Malformed) as caught:
        frame.decode(line + b"\n", LIMIT)
    assert caught.value.field == "line"


def test_a_frame_has_a_newline_behind_its_line():
    with pytest.raises(Malformed, match="newline"):
        frame.decode(json.dumps(LINE).encode(), LIMIT)


def test_the_limit_of_the_line_is_exact():
    text = data_of(LINE)
    length = text.index(b"\n")
    frame.decode(text, LIMIT, length)
    with pytest.raises(TooLarge) as caught:
        frame.decode(text, LIMIT, length - 1)
    assert (caught.value.limit, caught.value.setting) == (length - 1, "max_frame_line_bytes")
    with pytest.raises(Malformed):
        frame.decode(b" " * length, LIMIT, length)


def test_the_limit_of_the_body_is_exact():
    frame.decode(data_of(LINE), 1000)
    with pytest.raises(TooLarge) as caught:
        frame.decode(data_of(LINE), 999)
    assert (caught.value.limit, caught.value.setting) == (999, "max_body_bytes")


def test_literals_stand_in_the_order_of_the_rebuilt_body():
    sent = Frame(
        None, b"head", 1, bytes(32), [Edit(0, 1, [(b"s", Pieces(0, [b"p", (0, 1), b"q"])), (b"t", b"msg")])],
        [(b",", b"new")], b"tail", Result(3, bytes(32), bytes(32), bytes(32), 20),
    )  # fmt: skip
    assert frame.encode(sent).partition(b"\n")[2] == b"head" + b"s" + b"pq" + b"t" + b"msg" + b",new" + b"tail"
