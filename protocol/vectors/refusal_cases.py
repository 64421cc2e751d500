# SPDX-License-Identifier: Apache-2.0
"""Frames that break the grammar or a limit, and how they are refused: SPEC.md sections 6.2, 6.6, 6.7 and 10.1."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import gzip_members
from compose import Composed, Of, compose, frame, full, refused
from describe import Description, run
from scenario_cases import SYSTEM, M, chat, parts, scenario

OLD = chat(SYSTEM, *M[:4], b"0")
NEW = chat(M[7], SYSTEM, M[6], M[1], M[2], b"0", M[5], tail=b'],"stream":false}')
_LATER = chat(SYSTEM, *M[:4], b"0", M[4])
# Around the steps of every case: what the frame builds on, and that it is all still there.
BEFORE = [full("chat", OLD)]
AFTER = [frame("chat", compose("chat", OLD, _LATER), _LATER)]
HASH = "A" * 43


def rich() -> Composed:
    """Everything that the grammar knows, in one frame."""
    edits: list[Any] = [
        (0, 1, [0, (1, Of(0, [(0, 30), SYSTEM[30:40], (40, len(SYSTEM) - 40)]))]),
        (1, 1, [2]),
        (4, 1, []),
    ]
    tail = Of(parts(OLD).tail, [(0, 11), b"false}"])
    return compose("chat", OLD, NEW, edits=edits, tail=tail)


def cases() -> Iterator[Description]:
    yield scenario("rich", "the frame that the next cases break, whole", frame("chat", rich(), NEW))
    for name, about, change, field in [*_members(), *_types(), *_ranges()]:
        broken = rich()
        change(broken.line)
        yield _malformed(name, about, broken, field)
    for name, about, data, field in [*_spellings(), *_lines(), *_literals()]:
        yield _malformed(name, about, data, field)
    yield from _copies()
    yield from _gzip()
    yield from _too_large()


def _malformed(name: str, about: str, broken: Composed | bytes, field: str, packed: bytes | None = None) -> Description:
    step = refused("chat", broken, 400, "history_delta_malformed", packed=packed, field=field)
    return scenario(name, about, step)


Changed = Iterator[tuple[str, str, Callable[[dict[str, Any]], Any], str]]


def _members() -> Changed:
    for name in rich().line:
        yield f"missing-{name}", "a missing member", lambda line, name=name: line.pop(name), name
    yield "unknown-member", "a member that the grammar does not know", lambda line: line.update(extra=0), "line"
    yield "unknown-in-pieces", "the same in a piece list", lambda line: line["tail"].update(extra=0), "tail"
    yield "missing-of", "a piece list without its source", lambda line: line["tail"].pop("of"), "tail.of"
    yield "missing-pieces", "a piece list without pieces", lambda line: line["tail"].pop("pieces"), "tail.pieces"
    inserted = "edits[0][2][1][1]"
    yield "missing-of-in-edit", "in an edit", lambda line: line["edits"][0][2][1][1].pop("of"), inserted + ".of"
    for name, size in [("base", 2), ("result", 5)]:
        yield f"{name}-short", f"fewer than {size} elements", lambda line, name=name: line[name].pop(), name
        yield f"{name}-long", f"more than {size} elements", lambda line, name=name: line[name].append(0), name
    yield "edit-short", "an edit of two elements", lambda line: line["edits"][2].pop(), "edits[2]"
    yield "edit-long", "an edit of four elements", lambda line: line["edits"][2].append(0), "edits[2]"
    yield "insert-short", "an insert without a message", lambda line: line["edits"][1][2][0].pop(), "edits[1][2][0]"
    yield "append-short", "an appended message without a length", lambda line: line["append"][0].pop(), "append[0]"
    yield "append-long", "three numbers", lambda line: line["append"][0].append(1), "append[0]"
    yield "copy-short", "a copy without a length", lambda line: line["tail"]["pieces"][0].pop(), "tail.pieces[0]"
    yield "copy-long", "a copy of three numbers", lambda line: line["tail"]["pieces"][0].append(1), "tail.pieces[0]"


def _at(line: Any, path: list[Any], value: Any) -> None:
    for step in path[:-1]:
        line = line[step]
    line[path[-1]] = value


PLACES: list[tuple[str, list[Any]]] = [
    ("base[0]", ["base", 0]),
    ("edits[0][0]", ["edits", 0, 0]),
    ("edits[0][1]", ["edits", 0, 1]),
    ("edits[0][2][0][0]", ["edits", 0, 2, 0, 0]),
    ("edits[0][2][0][1]", ["edits", 0, 2, 0, 1]),
    ("edits[0][2][1][1].of", ["edits", 0, 2, 1, 1, "of"]),
    ("edits[0][2][1][1].pieces[1]", ["edits", 0, 2, 1, 1, "pieces", 1]),
    ("append[0][0]", ["append", 0, 0]),
    ("append[0][1]", ["append", 0, 1]),
    ("tail.pieces[0][0]", ["tail", "pieces", 0, 0]),
    ("tail.pieces[0][1]", ["tail", "pieces", 0, 1]),
    ("result[0]", ["result", 0]),
    ("result[4]", ["result", 4]),
]
HASHES = [("base[1]", ["base", 1]), ("tail.of", ["tail", "of"])]
HASHES += [(f"result[{i}]", ["result", i]) for i in (1, 2, 3)]


def _types() -> Changed:
    for field, path in PLACES:
        for what, value in [("boolean", True), ("fraction", 1.5), ("negative", -1), ("string", "1"), ("null", None)]:
            yield f"{field}-{what}", f"a {what} for a number", lambda line, p=path, v=value: _at(line, p, v), field
    for field, path in HASHES:
        number: Any = 7
        for what, value in [
            ("number", number),
            ("short", HASH[1:]),
            ("padded", HASH + "="),
            ("not-canonical", HASH[1:] + "B"),
        ]:
            yield f"{field}-{what}", f"a hash that is {what}", lambda line, p=path, v=value: _at(line, p, v), field
    yield "base[1]-plus", "base64, not base64url", lambda line: _at(line, ["base", 1], "+" + HASH[1:]), "base[1]"
    yield "base[1]-blank", "a blank in a hash", lambda line: _at(line, ["base", 1], " " + HASH[1:]), "base[1]"
    for name in ("base", "edits", "append", "result"):
        yield f"{name}-object", "an object for an array", lambda line, name=name: line.update({name: {}}), name
        yield f"{name}-null", "null for an array", lambda line, name=name: line.update({name: None}), name
    for name in ("head", "tail"):
        for what, value in [
            ("null", None),
            ("array", []),
            ("true", True),
            ("empty", 0),
            ("word", "Held"),
            ("negative", -1),
        ]:
            yield f"{name}-{what}", "no item", lambda line, name=name, v=value: line.update({name: v}), name
    yield "pieces-empty", "a piece list of no piece", lambda line: line["tail"].update(pieces=[]), "tail.pieces"
    yield "pieces-object", "no list", lambda line: line["tail"].update(pieces={}), "tail.pieces"
    yield (
        "piece-string",
        "a piece that is a string",
        lambda line: _at(line, ["tail", "pieces", 1], "x"),
        "tail.pieces[1]",
    )
    source = ["edits", 0, 2, 1, 1, "of"]
    field = "edits[0][2][1][1].of"
    yield "edit-source-hash", "messages are named by index", lambda line: _at(line, source, HASH), field
    yield "tail-source-index", "items are named by hash", lambda line: _at(line, ["tail", "of"], 0), "tail.of"
    for what, value in [("number", 1), ("true", True), ("array", ["a/b"]), ("object", {})]:
        about = f"a content type that is a {what}"
        yield f"content-type-{what}", about, lambda line, v=value: line.update(content_type=v), "content_type"
    for what, value in [
        ("line-break", "a/b\r\nAuthorization: x"),
        ("line-feed", "a/b\n"),
        ("nul", "a/b\x00"),
        ("delete", "a/b\x7f"),
        ("wide", "a/b;\u0100"),
        ("lone-surrogate", "a/b;\ud800"),
        ("blank-first", " a/b"),
        ("blank-last", "a/b\t"),
        ("frame", "Application/VND.history-delta; x=y"),
    ]:
        about = "a content type that no request may have"
        yield f"content-type-{what}", about, lambda line, v=value: line.update(content_type=v), "content_type"


def _ranges() -> Changed:
    most = 2**53
    yield "edits-descending", "edits out of order", lambda line: line["edits"].reverse(), "edits[1][0]"
    yield "edits-overlap", "an edit inside the one before", lambda line: _at(line, ["edits", 0, 1], 2), "edits[1][0]"
    yield "edits-same-place", "two edits at one message", lambda line: _at(line, ["edits", 1, 0], 0), "edits[1][0]"
    yield "edits-behind-insertion", "a second edit where one inserts", _insert_and_edit, "edits[1][0]"
    yield "edit-behind-base", "an edit behind the base", lambda line: _at(line, ["edits", 2, 0], 7), "edits[2][0]"
    yield "edit-too-long", "an edit that goes past the base", lambda line: _at(line, ["edits", 2, 1], 3), "edits[2][1]"
    yield "edit-of-nothing", "an edit that changes nothing", lambda line: _at(line, ["edits", 2, 1], 0), "edits[2]"
    field = "edits[0][2][1][1].of"
    yield (
        "edit-source-behind-base",
        "copies of no message",
        lambda line: _at(line, ["edits", 0, 2, 1, 1, "of"], 6),
        field,
    )
    field = "edits[1][2][0][1]"
    yield "insert-empty", "an inserted message of no octet", lambda line: _at(line, ["edits", 1, 2, 0, 1], 0), field
    yield "append-empty", "an appended message of no octet", lambda line: _at(line, ["append", 0, 1], 0), "append[0][1]"
    yield "copy-empty", "a copy of nothing", lambda line: _at(line, ["tail", "pieces", 0, 1], 0), "tail.pieces[0][1]"
    yield (
        "piece-empty",
        "a literal piece of nothing",
        lambda line: _at(line, ["tail", "pieces", 1], 0),
        "tail.pieces[1]",
    )
    yield "65-pieces", "a piece too many", lambda line: line["tail"].update(pieces=[[0, 1]] * 65), "tail.pieces"
    yield "base-too-many", "a base of 100,001", lambda line: _at(line, ["base", 0], 100_001), "base[0]"
    yield "result-too-many", "a result of 100,001", lambda line: _at(line, ["result", 0], 100_001), "result[0]"
    yield "result-length-2-53", "a length of 2^53", lambda line: _at(line, ["result", 4], most), "result[4]"
    yield "copy-at-2-53", "a copy at 2^53", lambda line: _at(line, ["tail", "pieces", 0, 0], most), "tail.pieces[0][0]"
    yield "append-2-64", "a length of 2^64", lambda line: _at(line, ["append", 0, 1], 2**64), "append[0][1]"


def _insert_and_edit(line: dict[str, Any]) -> None:
    _at(line, ["edits", 0, 1], 0)
    _at(line, ["edits", 1, 0], 0)


Raw = Iterator[tuple[str, str, bytes, str]]


def _spellings() -> Raw:
    whole = rich().data
    assert whole.count(b'"append":[[1,') == 1
    for name, spelling, field in [
        ("minus-zero", b"-0", "append[0][0]"),
        ("one-point-zero", b"1.0", "append[0][0]"),
        ("exponent", b"1e0", "append[0][0]"),
        ("6000-digits", b"1" + run(b"0", 6_000), "append[0][0]"),
        ("leading-zero", b"01", "line"),
        ("plus", b"+1", "line"),
        ("nan", b"NaN", "line"),
        ("infinity", b"Infinity", "line"),
        ("hex", b"0x1", "line"),
    ]:
        data = whole.replace(b'"append":[[1,', b'"append":[[' + spelling + b",")
        yield f"number-{name}", "a number in another spelling", data, field
    line = rich().line
    for name in line:
        again = json.dumps({name: line[name]}).encode()[1:-1]
        yield f"twice-{name}", "a member twice", b"{" + again + b"," + whole[1:], "line"
    again = whole.replace(b'{"of":0,', b'{"of":0,"of":0,')
    assert again != whole
    yield "twice-of", "also inside a piece list", again, "line"
    escaped = whole[:1] + b'"t\\u0061il":1,' + whole[1:]
    yield "twice-escaped", "also in another spelling", escaped, "line"


def _lines() -> Raw:
    for name, line in [
        ("empty", b""),
        ("array", b"[]"),
        ("string", b'"held"'),
        ("null", b"null"),
        ("unclosed", b'{"head":'),
        ("two", b"{}{}"),
        ("not-utf-8", b'{"\xff":0}'),
        ("byte-order-mark", b"\xef\xbb\xbf{}"),
        ("nbsp", b"\xc2\xa0{}"),
        ("raw-control", b'{"a":"\x01"}'),
        ("single-quotes", b"{'a':1}"),
        ("comma-last", b'{"a":1,}'),
        ("comment", b"{/**/}"),
        ("deep", run(b"[", 60_000)),
    ]:
        yield f"line-{name}", "a line that is no JSON object", line + b"\n", "line"
    yield "line-without-end", "no line feed", rich().data.partition(b"\n")[0], "line"
    yield "frame-empty", "no octet at all", b"", "line"
    pretty = json.dumps(rich().line, indent=1).encode() + b"\n" + rich().literals
    yield "line-of-several", "the line ends at its first line feed", pretty, "line"


def _literals() -> Raw:
    ordinary = rich().data
    yield "literals-short", "the last octet is missing", ordinary[:-1], "tail.pieces[1]"
    yield "literals-none", "no octet behind the line", ordinary[: -len(rich().literals)], "edits[0][2][0][1]"
    yield "literals-long", "an octet too many", ordinary + b"\n", "literals"
    broken = copy.deepcopy(rich())
    broken.line["append"][0][1] = 2**53 - 1
    yield "literals-far-too-short", "a length that no machine has", broken.data, "append[0][1]"
    body = b'{"model":"m","messages":[1]}'
    yield "not-a-frame", "a body where a frame should be", body, "line"


def _copies() -> Iterator[Description]:
    """The body's length is right, or it would be a mismatch before anything is copied."""
    about = "a copy that goes past its source"
    tail = parts(OLD).tail
    broken = rich()
    broken.line["tail"]["pieces"][0] = [len(tail) - 10, 11]
    yield _malformed("copy-past-end", about, broken, "tail.pieces")
    broken = rich()
    broken.line["tail"]["pieces"][0] = [2**53 - 1, 11]
    yield _malformed("copy-far-past-end", about, broken, "tail.pieces")
    broken = rich()
    broken.line["edits"][0][2][1][1]["pieces"][0] = [len(SYSTEM) - 29, 30]
    yield _malformed("copy-past-end-in-edit", about, broken, "edits[0][2][1][1].pieces")


def _gzip() -> Iterator[Description]:
    data = rich().data
    packed = gzip_members.stored(data)
    for name, about, member in [
        ("gzip-cut", "the member's last octet is missing", packed[:-1]),
        ("gzip-cut-early", "it ends in the middle", packed[:100]),
        ("gzip-empty", "no octet", b""),
        ("gzip-header-alone", "a header and nothing else", packed[:10]),
        ("gzip-two-members", "another member follows", packed + gzip_members.stored(b"")),
        ("gzip-octet-behind", "an octet follows", packed + b"\x00"),
        ("gzip-bad-check", "the check value is wrong", packed[:-8] + b"\x00\x00\x00\x00" + packed[-4:]),
        ("gzip-bad-length", "the length is wrong", packed[:-1] + b"\x01"),
        ("gzip-not", "not compressed at all", data),
        ("gzip-zlib", "zlib's own form", b"\x78\x01" + packed[10:-8]),
    ]:
        yield _malformed(name, about, data, "body", member)


def _too_large() -> Iterator[Description]:
    code = "history_delta_too_large"
    line, _, literals = rich().data.partition(b"\n")
    longer = line + run(b" ", 65_537 - len(line)) + b"\n" + literals
    step = refused("chat", longer, 413, code, setting="max_frame_line_bytes")
    yield scenario("line-too-long", "a line of 64 KiB and one octet", step)
    step = refused("chat", b"{" + run(b" ", 70_000), 413, code, setting="max_frame_line_bytes")
    yield scenario("line-endless", "no line feed within the limit", step)
    large = rich()
    large.line["result"][4] = 2**28 + 1
    step = refused("chat", large, 413, code, setting="max_body_bytes")
    yield scenario("body-too-large", "a result over 256 MiB", step)
    bomb = refused("chat", b"{}\n", 413, code, packed=gzip_members.zeros(5_000), setting="max_body_bytes")
    yield {
        **scenario("gzip-bomb", "10 MB in 65 kB, at a server that takes 1 MB", bomb),
        "limits": {"body_bytes": 1_000_000},
    }
