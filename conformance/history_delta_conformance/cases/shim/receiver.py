# SPDX-License-Identifier: Apache-2.0
"""What a server holds and how it rebuilds a frame: as little of a server as a shim can be tried against.

It forgets nothing by itself, and holds only what was acknowledged: a frame that takes anything else is ``NotHeld``.
The frame is read by the strict reference decoder. That what comes of it is right is not decided here: the body that
the agent sent decides.
"""

import threading
from dataclasses import dataclass
from functools import cached_property

from history_delta_protocol import chain, encoding, frame, scan, wire
from history_delta_protocol.dialect import Dialect
from history_delta_protocol.frame import HELD, Frame, Item, Pieces

Message = tuple[bytes, bytes]  # separator, message


class NotHeld(Exception):
    """The frame builds on what was never acknowledged; ``reason`` is one of the resync reasons."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Parts:
    """A body taken apart, as a rollout can hold it."""

    rollout: str
    dialect: Dialect
    head: bytes
    history: tuple[Message, ...]
    tail: bytes

    @cached_property
    def body(self) -> bytes:
        return self.head + b"".join(separator + message for separator, message in self.history) + self.tail

    @property
    def held(self) -> str:
        """The value of History-Delta-Held."""
        return f"{len(self.history)} {chain.to_text(self.values[-1])}"

    @cached_property
    def values(self) -> list[bytes]:
        values = [chain.start(self.dialect.name)]
        for separator, message in self.history:
            values.append(chain.extend(values[-1], separator, message))
        return values


def take_apart(rollout: str, dialect: Dialect, body: bytes) -> Parts | None:
    """None for a body that is not understood."""
    try:
        found = scan.split(body, dialect.history_key)
    except scan.NotUnderstood:
        return None
    ends = [found.head_end, *found.ends]
    history = tuple(
        (body[end:start], body[start:stop]) for end, start, stop in zip(ends, found.starts, found.ends, strict=False)
    )
    return Parts(rollout, dialect, body[: found.head_end], history, body[found.tail_start :])


class Receiver:
    """Everything that is held, by rollout and hash."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._histories: dict[tuple[str, bytes], tuple[Parts, int]] = {}
        self._items: dict[tuple[str, bytes], bytes] = {}

    def hold(self, parts: Parts) -> None:
        with self._lock:
            for count, value in enumerate(parts.values):
                self._histories[parts.rollout, value] = parts, count
            for item in (parts.head, parts.tail):
                self._items[parts.rollout, chain.item_hash(item)] = item

    def forget(self) -> None:
        with self._lock:
            self._histories.clear()
            self._items.clear()

    def rebuild(self, rollout: str, dialect: Dialect, data: bytes, line_bytes: int) -> tuple[Frame, Parts]:
        """Raises frame.Malformed, frame.TooLarge and NotHeld."""
        received = frame.decode(data, wire.MAX_BODY_BYTES, line_bytes)
        result = received.result
        with self._lock:
            base = self._base(rollout, dialect, received)
            head = self._item(rollout, received.head, result.head, wire.RESYNC_UNKNOWN_HEAD)
            tail = self._item(rollout, received.tail, result.tail, wire.RESYNC_UNKNOWN_TAIL)
        parts = Parts(rollout, dialect, head, _edited(base, received), tail)
        if _result(parts) != result:
            raise NotHeld(wire.RESYNC_MISMATCH)
        return received, parts

    def _base(self, rollout: str, dialect: Dialect, received: Frame) -> tuple[Message, ...]:
        if received.base_count == 0 and received.base_chain == chain.start(dialect.name):
            return ()
        parts, count = self._histories.get((rollout, received.base_chain), (None, -1))
        if parts is None or count != received.base_count:
            raise NotHeld(wire.RESYNC_UNKNOWN_BASE)
        return parts.history[:count]

    def _item(self, rollout: str, item: Item, digest: bytes, reason: str) -> bytes:
        if isinstance(item, bytes):
            return item
        source = self._items.get((rollout, item.source if isinstance(item, Pieces) else digest))  # type: ignore[arg-type]
        if source is None:
            raise NotHeld(reason)
        return source if item == HELD else _pieced(source, item)


def _pieced(source: bytes, item: Item) -> bytes:
    assert isinstance(item, Pieces)
    out = b""
    for piece in item.pieces:
        if isinstance(piece, bytes):
            out += piece
        elif sum(piece) > len(source):
            raise frame.Malformed("pieces", "a copy ends behind its source's end")
        else:
            out += source[piece[0] : sum(piece)]
    return out


def _edited(base: tuple[Message, ...], received: Frame) -> tuple[Message, ...]:
    history: list[Message] = []
    position = 0
    for edit in received.edits:
        history += base[position : edit.at]
        for separator, message in edit.insert:
            literal = isinstance(message, bytes)
            history.append((separator, message if literal else _pieced(base[message.source][1], message)))  # type: ignore
        position = edit.at + edit.remove
    return (*history, *base[position:], *received.append)


def _result(parts: Parts) -> frame.Result:
    head, tail = chain.item_hash(parts.head), chain.item_hash(parts.tail)
    return frame.Result(len(parts.history), parts.values[-1], head, tail, len(parts.body))


def decompressed(data: bytes, codings: list[str]) -> bytes:
    """The frame behind its content codings. Raises frame.Malformed."""
    if not codings:
        return data
    if codings != ["gzip"]:
        raise frame.Malformed("Content-Encoding", f"{codings}")
    return encoding.gunzip(data, wire.MAX_BODY_BYTES)
