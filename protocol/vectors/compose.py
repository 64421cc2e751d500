# SPDX-License-Identifier: Apache-2.0
"""Frames put together by hand for the vectors, and rebuilt the slow way to prove that they say what they should."""

import json
from dataclasses import dataclass, field
from typing import Any

import slow_reference
from describe import Description, describe
from slow_reference import Split

Piece = tuple[int, int] | bytes


@dataclass(frozen=True)
class Of:
    """Pieces of a head or tail, given as its octets, or of the base message of that index."""

    source: bytes | int
    pieces: list[Piece]


HELD = "held"
# A head or tail: HELD, None for a literal, or pieces.
Item = str | Of | None
# A new message by its index, as a literal or as pieces of a base message.
Insert = int | tuple[int, Of]


@dataclass
class Composed:
    """A frame, still to be changed by cases that need a broken one."""

    line: dict[str, Any]
    literals: bytes

    @property
    def data(self) -> bytes:
        return json.dumps(self.line, separators=(",", ":")).encode() + b"\n" + self.literals


@dataclass
class Composer:
    """Collects literals in the order in which the line names them."""

    literals: list[bytes] = field(default_factory=list)

    def item(self, how: Item, content: bytes) -> Any:
        if how is None:
            self.literals.append(content)
            return len(content)
        return self.pieces(how) if isinstance(how, Of) else how

    def pieces(self, of: Of) -> Any:
        self.literals += [piece for piece in of.pieces if isinstance(piece, bytes)]
        parts = [len(piece) if isinstance(piece, bytes) else list(piece) for piece in of.pieces]
        source = of.source if isinstance(of.source, int) else slow_reference.item_text(of.source)
        return {"of": source, "pieces": parts}

    def message(self, separator: bytes, message: bytes, of: Of | None = None) -> list[Any]:
        self.literals.append(separator)
        if of is not None:
            return [len(separator), self.pieces(of)]
        self.literals.append(message)
        return [len(separator), len(message)]


def compose(
    dialect: str,
    old: bytes | None,
    new: bytes,
    *,
    base: int | None = None,
    head: Item = HELD,
    edits: list[tuple[int, int, list[Insert]]] | None = None,
    tail: Item = HELD,
    content_type: str | None = "application/json",
) -> Composed:
    """The frame that makes ``new`` out of the first ``base`` messages of ``old`` (all, unless told otherwise)."""
    after = slow_reference.split(new, dialect)
    before = slow_reference.split(old, dialect).messages if old is not None else []
    base = len(before) if base is None else base
    edits = edits or []
    composer = Composer()
    coded_head = composer.item(head, after.head)
    coded_edits = []
    for at, remove, inserts in edits:
        pairs = [(insert, None) if isinstance(insert, int) else insert for insert in inserts]
        coded_edits.append([at, remove, [composer.message(*after.messages[index], of) for index, of in pairs]])
    kept = base + sum(len(inserts) - remove for _, remove, inserts in edits)
    coded_append = [composer.message(*pair) for pair in after.messages[kept:]]
    line = {
        "content_type": content_type,
        "head": coded_head,
        "base": [base, slow_reference.text(slow_reference.chain_values(dialect, before[:base])[-1])],
        "edits": coded_edits,
        "append": coded_append,
        "tail": composer.item(tail, after.tail),
        "result": result(dialect, after),
    }
    composed = Composed(line, b"".join(composer.literals))
    items = [how.source for how in (head, tail) if isinstance(how, Of) and isinstance(how.source, bytes)]
    assert rebuild(composed, before[:base], [after.head, after.tail, *items]) == new
    return composed


def result(dialect: str, split: Split) -> list[Any]:
    chain = slow_reference.text(slow_reference.chain_values(dialect, split.messages)[-1])
    head, tail = slow_reference.item_text(split.head), slow_reference.item_text(split.tail)
    return [len(split.messages), chain, head, tail, len(split.body)]


def rebuild(frame: Composed, base: list[tuple[bytes, bytes]], items: list[bytes]) -> bytes:
    """SPEC.md sections 6.1 to 6.4, step by step, for a well-formed frame."""
    left = frame.literals
    by_hash = {slow_reference.item_text(item): item for item in items}

    def take(length: int) -> bytes:
        nonlocal left
        taken, left = left[:length], left[length:]
        assert len(taken) == length
        return taken

    def made(coded: Any, held: bytes, sources: Any) -> bytes:
        if coded == HELD:
            return held
        if isinstance(coded, int):
            return take(coded)
        source = sources[coded["of"]]
        parts = []
        for piece in coded["pieces"]:
            parts.append(take(piece) if isinstance(piece, int) else source[piece[0] : piece[0] + piece[1]])
        return b"".join(parts)

    line = frame.line
    messages = [message for _, message in base]
    body = made(line["head"], by_hash.get(line["result"][2], b""), by_hash)
    position = 0
    for at, remove, inserts in line["edits"]:
        body += b"".join(separator + message for separator, message in base[position:at])
        for separator_length, message in inserts:
            body += take(separator_length) + made(message, b"", messages)
        position = at + remove
    body += b"".join(separator + message for separator, message in base[position:])
    for separator_length, message_length in line["append"]:
        body += take(separator_length) + take(message_length)
    body += made(line["tail"], by_hash.get(line["result"][3], b""), by_hash)
    assert not left
    return body


# Steps of a scenario.


def full(dialect: str, body: bytes, rollout: str = "a") -> Description:
    """A full send. It is held where the splitting rules understand it."""
    try:
        held = result(dialect, slow_reference.split(body, dialect))[:2]
    except slow_reference.NotUnderstood:
        held = None
    return {"send": "full", "rollout": rollout, "dialect": dialect, "body": describe(body), "held": held}


def frame(
    dialect: str, composed: Composed | bytes, body: bytes, *, rollout: str = "a", packed: bytes | None = None
) -> Description:
    """A frame that is accepted and stands for ``body``; ``packed``: as it travels, gzip-coded."""
    data = composed if isinstance(composed, bytes) else composed.data
    line = json.loads(data.partition(b"\n")[0])
    return {
        **_sent(dialect, rollout, data, packed),
        "content_type": line["content_type"],
        "body": describe(body),
        "held": result(dialect, slow_reference.split(body, dialect))[:2],
    }


def refused(
    dialect: str,
    composed: Composed | bytes,
    status: int,
    code: str,
    *,
    rollout: str = "a",
    packed: bytes | None = None,
    **why: str,
) -> Description:
    data = composed if isinstance(composed, bytes) else composed.data
    return {**_sent(dialect, rollout, data, packed), "refused": {"status": status, "code": code, **why}}


def _sent(dialect: str, rollout: str, data: bytes, packed: bytes | None) -> Description:
    step: Description = {"send": "frame", "rollout": rollout, "dialect": dialect}
    if packed is None:
        return {**step, "frame": describe(data)}
    return {**step, "content_encoding": "gzip", "frame": describe(packed)}
