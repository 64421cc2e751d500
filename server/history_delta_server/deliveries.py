# SPDX-License-Identifier: Apache-2.0
"""Deliveries that have been dispatched, so that one repeated below the agent runs its model call once.

A delivery is named by its rollout and its id, and stands for one method, path and content. Known while it runs and for
a while after; what was answered is kept for replay within limits. A plain object without I/O.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import NamedTuple

from history_delta_protocol import wire

from .call import Call, State


class Reused(Exception):
    """The id is known with another method, path or content."""


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    keep_seconds: float = 60.0
    response_bytes: int = 8 * wire.MIB
    worker_bytes: int = 64 * wire.MIB
    count: int = 65536


class Identity(NamedTuple):
    """What a delivery asks for. ``content`` None: it was streamed through and cannot be compared."""

    method: str
    target: str
    content: Hashable

    def may_be(self, other: "Identity") -> bool:
        if (self.method, self.target) != (other.method, other.target):
            return False
        return None in (self.content, other.content) or self.content == other.content


Key = tuple[str, str]


@dataclass(slots=True)
class _Delivery:
    identity: Identity
    call: Call
    counted_bytes: int = 0
    forget_at: float = 0.0


class Deliveries:
    """All that this worker knows of."""

    def __init__(self, limits: DeliveryLimits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits or DeliveryLimits()
        self._clock = clock
        self._running: dict[Key, _Delivery] = {}
        # In the order in which they ended.
        self._ended: OrderedDict[Key, _Delivery] = OrderedDict()
        # Those of them whose response is still kept.
        self._replayable: OrderedDict[Key, _Delivery] = OrderedDict()
        self.kept_bytes = 0

    def __len__(self) -> int:
        return len(self._running) + len(self._ended)

    def find(self, rollout: str, delivery: str, identity: Identity) -> Call | None:
        """The call that this delivery started before, which may not be ``kept`` any more. Raises Reused."""
        self.expire()
        key = (rollout, delivery)
        known = self._running.get(key) or self._ended.get(key)
        if known is None:
            return None
        if not known.identity.may_be(identity):
            raise Reused(delivery)
        return known.call

    def add(self, rollout: str, delivery: str, identity: Identity, call: Call) -> None:
        """The call is about to be dispatched."""
        key = (rollout, delivery)
        known = self._running[key] = _Delivery(identity, call)
        call.on_growth = lambda: self._grew(known)
        call.on_end.append(lambda: self._end(key, known))
        while len(self) > self._limits.count and self._ended:
            self._forget_oldest()

    def _grew(self, known: _Delivery) -> None:
        self._count(known)
        if known.call.kept and known.call.kept_bytes > self._limits.response_bytes:
            self._stop_keeping(known)
        while self._replayable and self.kept_bytes > self._limits.worker_bytes:
            self._stop_keeping(self._replayable.popitem(last=False)[1])
        if self.kept_bytes > self._limits.worker_bytes:
            self._stop_keeping(known)

    def _end(self, key: Key, known: _Delivery) -> None:
        del self._running[key]
        if known.call.state is State.UNREACHABLE:
            # It never ran, so a repeat is its first execution.
            self._uncount(known)
            return
        known.forget_at = self._clock() + self._limits.keep_seconds
        self._ended[key] = known
        if known.call.kept:
            self._replayable[key] = known

    def _stop_keeping(self, known: _Delivery) -> None:
        known.call.stop_keeping()
        self._count(known)

    def _count(self, known: _Delivery) -> None:
        """Bytes that are merely under way to a reader count for nothing here."""
        size = known.call.kept_bytes if known.call.kept else 0
        self.kept_bytes += size - known.counted_bytes
        known.counted_bytes = size

    def _uncount(self, known: _Delivery) -> None:
        self.kept_bytes -= known.counted_bytes
        known.counted_bytes = 0

    def expire(self) -> None:
        """Forget what ended long enough ago."""
        now = self._clock()
        while self._ended and next(iter(self._ended.values())).forget_at <= now:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        key, known = self._ended.popitem(last=False)
        self._replayable.pop(key, None)
        self._uncount(known)
