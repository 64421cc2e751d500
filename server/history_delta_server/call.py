# SPDX-License-Identifier: Apache-2.0
"""One call of a model, and what the model has answered so far.

Fed by the connection to the model, read by the connections of the agents that wait for it: one as a rule, several
where a delivery was repeated, each from the first byte. It holds no socket and starts no task.

    WAITING ──start──► ANSWERING ──finish──► COMPLETE
       │                   └───────fail────► BROKEN        what was received stands; the end is missing
       ├───────────────────────────fail────► BROKEN        may have run, nothing was received
       └───────────────────fail_unsent─────► UNREACHABLE   never ran
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from history_delta_protocol import wire

from .headers import Header

# The model may be this far ahead of the agent before it is held back.
_WINDOW = 256 * wire.KIB
_TAKE = 256 * wire.KIB
# What a piece costs beside its bytes: events of a stream are small.
_PIECE_OVERHEAD = 40


class Framing(Enum):
    """How the model's server says where its response ends."""

    LENGTH = "content-length"
    CHUNKED = "chunked"
    CLOSE = "close"
    NO_BODY = "no-body"


@dataclass(frozen=True, slots=True)
class Head:
    """A response's head, with the end-to-end headers alone."""

    status: int
    reason: bytes
    headers: list[Header]
    framing: Framing


class State(Enum):
    WAITING = "waiting"
    ANSWERING = "answering"
    COMPLETE = "complete"
    BROKEN = "broken"
    UNREACHABLE = "unreachable"


_ENDED = frozenset([State.COMPLETE, State.BROKEN, State.UNREACHABLE])


class Timer(Protocol):
    def cancel(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EarlyClose:
    """How long, and how far, a response is read on after the last agent has left."""

    seconds: float = 0.25
    bytes: int = 64 * wire.KIB


class Call:
    """``kept``: received bytes stay for agents that join later, until ``stop_keeping``."""

    def __init__(
        self,
        schedule: Callable[[float, Callable[[], object]], Timer],
        early_close: EarlyClose | None = None,
        *,
        kept: bool = False,
    ) -> None:
        self.state = State.WAITING
        self.head: Head | None = None
        self.failure = ""
        self.upstream = ""
        self.kept = kept
        self.received = 0
        self.kept_bytes = 0
        # Set by whoever feeds this call: stop the model, hold it back (True) or let it go on (False).
        self.cancel: Callable[[], object] = lambda: None
        self.throttle: Callable[[bool], None] = lambda held_back: None
        self.on_growth: Callable[[], None] = lambda: None
        self.on_end: list[Callable[[], None]] = []
        self._schedule = schedule
        self._early_close = early_close or EarlyClose()
        self._readers: list[Reader] = []
        self._pieces: list[bytes] = []
        self._dropped = 0
        self._held_back = False
        self._unread = 0
        self._leaving: Timer | None = None

    @property
    def ended(self) -> bool:
        return self.state in _ENDED

    # What the connection to the model tells.

    def start(self, head: Head) -> None:
        self.head = head
        self.state = State.ANSWERING
        self._wake()

    def append(self, data: bytes) -> None:
        if self.ended:
            return
        self.received += len(data)
        self._pieces.append(data)
        self.kept_bytes += len(data) + _PIECE_OVERHEAD
        self.on_growth()
        self._wake()
        self._regulate()
        if not self._readers:
            self._unread += len(data)
            if self._unread > self._early_close.bytes:
                self.cancel()

    def finish(self) -> None:
        self._end(State.COMPLETE)

    def fail(self, failure: str) -> None:
        self._end(State.BROKEN, failure)

    def fail_unsent(self, failure: str) -> None:
        self._end(State.UNREACHABLE, failure)

    def _end(self, state: State, failure: str = "") -> None:
        if self.ended:
            return
        self.state = state
        self.failure = failure
        self._forget_leaving()
        self._wake()
        for callback in self.on_end:
            callback()

    # What agents do.

    @contextmanager
    def join(self) -> Iterator["Reader"]:
        """Read from the first byte, while inside. The last one to leave before the end stops the model, soon."""
        reader = Reader(self)
        self._readers.append(reader)
        self._forget_leaving()
        try:
            yield reader
        finally:
            self._readers.remove(reader)
            self._regulate()
            if not self._readers and not self.ended:
                self._unread = 0
                self._leaving = self._schedule(self._early_close.seconds, self.cancel)

    def stop_keeping(self) -> None:
        """What no present reader still needs is let go of, now and from now on."""
        self.kept = False
        self._trim()

    def _forget_leaving(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None

    def _wake(self) -> None:
        for reader in self._readers:
            reader.changed.set()

    def _taken(self) -> None:
        if not self.kept:
            self._trim()
        self._regulate()

    def _trim(self) -> None:
        """Only while nothing is kept: readers are then present, or the bytes are of no more use."""
        needed = min((reader.next for reader in self._readers), default=self._dropped + len(self._pieces))
        gone = self._pieces[: needed - self._dropped]
        del self._pieces[: len(gone)]
        self._dropped += len(gone)
        self.kept_bytes -= sum(len(piece) + _PIECE_OVERHEAD for piece in gone)

    def _regulate(self) -> None:
        """A kept response goes at the pace of its fastest reader, one that is not kept at that of its slowest: a dead
        connection must not hold up the one that repeats it, and memory is bounded either way."""
        positions = [reader.taken for reader in self._readers]
        pace = self.received if not positions else max(positions) if self.kept else min(positions)
        held_back = self.received - pace > _WINDOW
        if held_back != self._held_back:
            self._held_back = held_back
            self.throttle(held_back)


class Reader:
    """One agent's place in a response. Iterate for its bytes as they come."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.changed = asyncio.Event()
        self.next = 0
        self.taken = 0

    async def head(self) -> Head | None:
        """Waits for the model. None: it ended without one."""
        while self.call.state is State.WAITING:
            await self._change()
        return self.call.head

    def take(self) -> bytes:
        """What has come since, at most some hundred kilobytes at once; b"" for nothing yet."""
        pieces = []
        size = 0
        for piece in self.call._pieces[self.next - self.call._dropped :]:
            pieces.append(piece)
            size += len(piece)
            if size >= _TAKE:
                break
        self.next += len(pieces)
        self.taken += size
        if size:
            self.call._taken()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def __aiter__(self) -> "Reader":
        return self

    async def __anext__(self) -> bytes:
        while True:
            data = self.take()
            if data:
                return data
            if self.call.ended:
                raise StopAsyncIteration
            await self._change()

    async def _change(self) -> None:
        self.changed.clear()
        await self.changed.wait()
