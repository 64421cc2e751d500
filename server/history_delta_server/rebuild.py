# SPDX-License-Identifier: Apache-2.0
"""From what arrived to the agent's exact body, checked, and held for the next call. No I/O; runs before dispatch.

A frame is rebuilt out of what its rollout holds and must come to the count, chain, head, tail and length that it
names, or it is refused with Resync and nothing is stored. A full body is taken apart and stored.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

from history_delta_protocol import chain, frame, pieces, scan, wire
from history_delta_protocol.dialect import Dialect
from history_delta_protocol.frame import Frame, Malformed, Pieces, TooLarge

from .history import Message, Node, RolloutHistories

__all__ = [
    "OVER_LIMIT",
    "Malformed",
    "Rebuilt",
    "Resync",
    "TooLarge",
    "rebuild_frame",
    "rebuild_frame_in_steps",
    "receive_full",
    "receive_full_in_steps",
]


# The history alone is more than its rollout may hold, and is let go of at once.
OVER_LIMIT = "over-history-limit"

# What is hashed in about a millisecond.
_STEP_BYTES = 1 << 20


class Resync(Exception):
    """The frame extends what is not held here; ``reason`` is one of wire.RESYNC_REASONS. One full send heals it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A request body as the agent sent it.

    ``held`` is its history's (count, chain value) where the rollout now holds it, else None with ``reason`` (one of
    scan's, or OVER_LIMIT). ``identity`` names the exact content: equal for a frame and for the full body that it
    stands for.
    """

    body: bytes
    content_type: str | None
    held: tuple[int, bytes] | None
    identity: tuple[object, ...]
    reason: str | None = None

    @property
    def held_header(self) -> str | None:
        """The value of History-Delta-Held."""
        return f"{self.held[0]} {chain.to_text(self.held[1])}" if self.held else None


def rebuild_frame(
    rollout: RolloutHistories,
    dialect: Dialect,
    data: bytes,
    max_body: int = wire.MAX_BODY_BYTES,
    max_line: int = wire.MAX_FRAME_LINE_BYTES,
) -> Rebuilt:
    """Rebuild the body of a decompressed frame. Raises Malformed, TooLarge or Resync; stores nothing then."""
    return _run(rebuild_frame_in_steps(rollout, dialect, data, max_body, max_line))


def rebuild_frame_in_steps(
    rollout: RolloutHistories,
    dialect: Dialect,
    data: bytes,
    max_body: int = wire.MAX_BODY_BYTES,
    max_line: int = wire.MAX_FRAME_LINE_BYTES,
    admit: Callable[[int], None] = lambda length: None,
) -> Generator[None, None, Rebuilt]:
    """The same, giving control back after every megabyte that an early edit makes it hash anew: some hundred bytes
    can name all of a history. ``admit`` is told the body's length before a byte is copied, and may raise.
    """
    received = frame.decode(data, max_body, max_line)
    result = received.result
    base = rollout.lineage(_base(rollout, dialect, received))
    held_head = _held(rollout, received.head, result.head, wire.RESYNC_UNKNOWN_HEAD)
    held_tail = _held(rollout, received.tail, result.tail, wire.RESYNC_UNKNOWN_TAIL)
    # Before a byte is copied: pieces can be many times the size of the frame that names them.
    if result.length != _length(received, base, held_head, held_tail):
        raise Resync(wire.RESYNC_MISMATCH)
    admit(result.length)
    head = _apply(held_head, received.head, "head")
    tail = _apply(held_tail, received.tail, "tail")
    unchanged = received.edits[0].at if received.edits else len(base)
    value = base[unchanged - 1].chain if unchanged else chain.start(dialect.name)
    messages = yield from _chained(value, _contents_after(base, unchanged, received))
    history = (unchanged + len(messages), messages[-1].chain if messages else value)
    _check(received, history, head, tail)
    body = b"".join([head, *(node.data for node in base[:unchanged]), *(message.data for message in messages), tail])
    _store(rollout, base[:unchanged], messages, [(result.head, head), (result.tail, tail)])
    return _rebuilt(rollout, body, received.content_type, history, (result.head, result.tail))


def receive_full(rollout: RolloutHistories, dialect: Dialect, body: bytes) -> Rebuilt:
    """Take a full body apart and hold it; a body that is not understood is not held, and no error."""
    return _run(receive_full_in_steps(rollout, dialect, body))


def receive_full_in_steps(rollout: RolloutHistories, dialect: Dialect, body: bytes) -> Generator[None, None, Rebuilt]:
    """The same, giving control back after every member and message, so that an event loop can breathe."""
    messages: list[Message] = []
    value = chain.start(dialect.name)
    head_end = position = 0
    try:
        for reached in scan.iter_to_history(body, dialect.history_key):
            head_end = position = reached
            yield
        for start, end in scan.iter_messages(body, head_end):
            value = chain.extend(value, body[position:start], body[start:end])
            messages.append(Message(value, body[position:end], start - position))
            position = end
            yield
    except scan.NotUnderstood as error:
        return Rebuilt(body, None, None, ("body", chain.item_hash(body)), error.reason)
    head, tail = body[:head_end], body[position:]
    head_hash, tail_hash = chain.item_hash(head), chain.item_hash(tail)
    rollout.store(None, messages, [(head_hash, head), (tail_hash, tail)])
    return _rebuilt(rollout, body, None, (len(messages), value), (head_hash, tail_hash))


def _run(steps: Generator[None, None, Rebuilt]) -> Rebuilt:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            rebuilt: Rebuilt = done.value
            return rebuilt


def _rebuilt(
    rollout: RolloutHistories,
    body: bytes,
    content_type: str | None,
    history: tuple[int, bytes],
    items: tuple[bytes, bytes],
) -> Rebuilt:
    count, value = history
    identity = ("history", count, value, *items, len(body))
    if count and rollout.node(value) is None:
        return Rebuilt(body, content_type, None, identity, OVER_LIMIT)
    return Rebuilt(body, content_type, history, identity)


def _base(rollout: RolloutHistories, dialect: Dialect, received: Frame) -> Node | None:
    if received.base_count == 0:
        if received.base_chain != chain.start(dialect.name):
            raise Resync(wire.RESYNC_UNKNOWN_BASE)
        return None
    base = rollout.node(received.base_chain)
    if base is None or base.count != received.base_count:
        raise Resync(wire.RESYNC_UNKNOWN_BASE)
    return base


def _held(rollout: RolloutHistories, item: frame.Item, digest: bytes, unknown: str) -> bytes:
    """What the item is made of: the held bytes that it names, or none."""
    if isinstance(item, bytes):
        return b""
    held = rollout.item(item.source if isinstance(item, Pieces) and isinstance(item.source, bytes) else digest)
    if held is None:
        raise Resync(unknown)
    return held


def _length(received: Frame, base: list[Node], held_head: bytes, held_tail: bytes) -> int:
    length = _size(received.head, held_head) + _size(received.tail, held_tail)
    length += sum(len(node.data) for node in base)
    for edit in received.edits:
        length -= sum(len(node.data) for node in base[edit.at : edit.at + edit.remove])
        length += sum(len(separator) + _size(message, b"") for separator, message in edit.insert)
    return length + sum(len(separator) + len(message) for separator, message in received.append)


def _size(item: frame.Item, held: bytes) -> int:
    if isinstance(item, Pieces):
        return pieces.size_of(item.pieces)
    return len(item) if isinstance(item, bytes) else len(held)


def _apply(held: bytes, item: frame.Item, field: str, begin: int = 0) -> bytes:
    if isinstance(item, bytes):
        return item
    if isinstance(item, str):
        return held
    try:
        return pieces.apply(held, item.pieces, begin)
    except ValueError as error:
        raise Malformed(field + ".pieces", str(error)) from error


def _chained(value: bytes, contents: Iterator[tuple[bytes, int]]) -> Generator[None, None, list[Message]]:
    """The contents as messages behind the chain value ``value``, in steps of about a megabyte."""
    messages: list[Message] = []
    hashed = 0
    for content, separator_length in contents:
        digest = chain.begin(value, content[:separator_length], len(content) - separator_length)
        view = memoryview(content)
        for start in range(separator_length, len(content), _STEP_BYTES):
            digest.update(view[start : start + _STEP_BYTES])
            hashed += min(_STEP_BYTES, len(content) - start)
            if hashed >= _STEP_BYTES:
                hashed = 0
                yield
        value = digest.digest()
        messages.append(Message(value, content, separator_length))
    return messages


def _contents_after(base: list[Node], unchanged: int, received: Frame) -> Iterator[tuple[bytes, int]]:
    """Separator and message in one, and the separator's length, of each message behind the first ``unchanged`` of the
    base: inserted ones, those kept behind an edit, and appended ones."""
    position = unchanged
    for place, edit in enumerate(received.edits):
        for node in base[position : edit.at]:
            yield node.data, node.separator_length
        for index, (separator, inserted) in enumerate(edit.insert):
            # Out of the node's own bytes: a frame can name a large message thousands of times for a byte of it.
            source = base[int(inserted.source)] if isinstance(inserted, Pieces) else None
            data, begin = (source.data, source.separator_length) if source else (b"", 0)
            message = _apply(data, inserted, f"edits[{place}][2][{index}][1]", begin)
            yield separator + message, len(separator)
        position = edit.at + edit.remove
    for node in base[position:]:
        yield node.data, node.separator_length
    for separator, message in received.append:
        yield separator + message, len(separator)


def _check(received: Frame, history: tuple[int, bytes], head: bytes, tail: bytes) -> None:
    """Count, chain, head and tail; the length has been checked."""
    result = received.result
    if (
        history != (result.message_count, result.chain)
        or _differs(received.head, head, result.head)
        or _differs(received.tail, tail, result.tail)
    ):
        raise Resync(wire.RESYNC_MISMATCH)


def _store(
    rollout: RolloutHistories, stem: list[Node], messages: list[Message], items: list[tuple[bytes, bytes]]
) -> None:
    """Hold ``messages`` behind the nodes of ``stem``, which may have been let go of between two steps."""
    tip = rollout.node(stem[-1].chain) if stem else None
    if stem and tip is None:
        messages = [Message(node.chain, node.data, node.separator_length) for node in stem] + messages
    rollout.store(tip, messages, items)


def _differs(item: frame.Item, content: bytes, digest: bytes) -> bool:
    """A held item is stored under its hash; anything else has to be hashed."""
    return item != frame.HELD and chain.item_hash(content) != digest
