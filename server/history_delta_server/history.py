# SPDX-License-Identifier: Apache-2.0
"""The histories that a worker holds: per rollout, messages by chain value, each knowing its parent.

Content-addressed, so that storing what is there already is a no-op by construction and branches share their prefix.
Bounded per rollout, in all, and in idle time; what falls out costs its conversation one full send. No I/O.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from history_delta_protocol import wire

from .intern import Interner

# What a message (node, digest, table entries), a head or tail, and a rollout cost beside the bytes that they hold.
# Measured on CPython 3.11; tests/server/test_history.py measures again.
NODE_OVERHEAD = 290
ITEM_OVERHEAD = 220
ROLLOUT_OVERHEAD = 800


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """Bounds of a store: bytes held, seconds idle, heads and tails held a rollout."""

    rollout_bytes: int = 256 * wire.MIB
    worker_bytes: int = 4096 * wire.MIB
    idle_seconds: float = 900.0
    items: int = 48  # a shim counts on the last six heads and six tails of a dialect


class Node:
    """One message at one place of one history. ``data`` is its separator and its own bytes."""

    __slots__ = ("chain", "children", "count", "data", "parent", "separator_length")

    def __init__(self, chain: bytes, parent: "Node | None", data: bytes, separator_length: int) -> None:
        self.chain = chain
        self.parent = parent
        self.data = data
        self.separator_length = separator_length
        self.count: int = parent.count + 1 if parent else 1
        self.children = 0


@dataclass(frozen=True, slots=True)
class Message:
    """A message to store: its chain value, and separator and bytes in one."""

    chain: bytes
    data: bytes
    separator_length: int


@dataclass(slots=True)
class Tally:
    """What all rollouts of a store hold together."""

    bytes: int = 0
    messages: int = 0


class RolloutHistories:
    """What is held of one rollout. A chain value or an item's hash has a meaning only in here."""

    def __init__(self, limits: HistoryLimits, interner: Interner, tally: Tally) -> None:
        self._limits = limits
        self._interner = interner
        self._tally = tally
        self.calls_in_flight = 0
        self._nodes: dict[bytes, Node] = {}
        # Histories as calls named them, least recently used first; a node lives while one of them runs through it.
        self._tips: OrderedDict[bytes, Node] = OrderedDict()
        self._pins: Counter[bytes] = Counter()
        self._items: OrderedDict[bytes, bytes] = OrderedDict()
        self._item_bytes = 0
        self.held_bytes = 0
        self._count(ROLLOUT_OVERHEAD)

    @property
    def message_count(self) -> int:
        return len(self._nodes)

    def node(self, chain: bytes) -> Node | None:
        return self._nodes.get(chain)

    def item(self, digest: bytes) -> bytes | None:
        """The head or tail of that SHA-256."""
        item = self._items.get(digest)
        if item is not None:
            self._items.move_to_end(digest)
        return item

    def lineage(self, tip: Node | None) -> list[Node]:
        """The nodes from the first message to ``tip``."""
        nodes: list[Node] = []
        while tip is not None:
            nodes.append(tip)
            tip = tip.parent
        nodes.reverse()
        return nodes

    def store(self, base: Node | None, messages: Iterable[Message], items: Iterable[tuple[bytes, bytes]]) -> None:
        """Hold ``messages`` after ``base``, and the (hash, bytes) of heads and tails."""
        tip = base
        for message in messages:
            tip = self._nodes.get(message.chain) or self._add(message, tip)
        if tip is not None:
            self._tips[tip.chain] = tip
            self._tips.move_to_end(tip.chain)
            # A history that has grown needs no place of its own any more.
            if base is not None and tip is not base and base.chain not in self._pins:
                self._tips.pop(base.chain, None)
        for digest, item in items:
            self._hold_item(digest, item)
        self._shrink()

    @contextmanager
    def pinned(self, chain: bytes) -> Iterator[None]:
        """Keep a history, named by its last chain value, while a request of it is in flight."""
        self._pins[chain] += 1
        node = self._nodes.get(chain)
        if node is not None:
            self._tips.setdefault(chain, node)
        try:
            yield
        finally:
            self._pins[chain] -= 1
            if not self._pins[chain]:
                del self._pins[chain]
            self._shrink()

    def clear(self) -> None:
        for node in self._nodes.values():
            self._interner.release(node.data)
        for item in self._items.values():
            self._interner.release(item)
        self._tally.messages -= len(self._nodes)
        self._count(-self.held_bytes)
        self._nodes.clear()
        self._tips.clear()
        self._items.clear()
        self._item_bytes = 0

    def _count(self, size: int) -> None:
        self.held_bytes += size
        self._tally.bytes += size

    def _add(self, message: Message, parent: Node | None) -> Node:
        node = Node(message.chain, parent, self._interner.intern(message.data), message.separator_length)
        if parent is not None:
            parent.children += 1
        self._nodes[message.chain] = node
        self._tally.messages += 1
        self._count(len(message.data) + NODE_OVERHEAD)
        return node

    def _hold_item(self, digest: bytes, item: bytes) -> None:
        if digest not in self._items:
            self._items[digest] = self._interner.intern(item)
            self._item_bytes += len(item) + ITEM_OVERHEAD
            self._count(len(item) + ITEM_OVERHEAD)
        self._items.move_to_end(digest)

    def _shrink(self) -> None:
        while len(self._items) > self._limits.items or (
            len(self._items) > 2 and self._item_bytes > self._limits.rollout_bytes // 4
        ):
            _, item = self._items.popitem(last=False)
            self._item_bytes -= len(item) + ITEM_OVERHEAD
            self._count(-len(item) - ITEM_OVERHEAD)
            self._interner.release(item)
        if self.held_bytes <= self._limits.rollout_bytes:
            return
        for chain in [chain for chain in self._tips if chain not in self._pins]:
            self._drop(self._tips.pop(chain))
            if self.held_bytes <= self._limits.rollout_bytes:
                return

    def _drop(self, node: Node | None) -> None:
        """Let go of a branch from its end up to where another history still runs through it."""
        while node is not None and not node.children and node.chain not in self._tips:
            del self._nodes[node.chain]
            self._tally.messages -= 1
            self._count(-len(node.data) - NODE_OVERHEAD)
            self._interner.release(node.data)
            node = node.parent
            if node is not None:
                node.children -= 1


class HistoryStore:
    """All rollouts of one worker, least recently used first."""

    def __init__(self, limits: HistoryLimits | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits or HistoryLimits()
        self._clock = clock
        self._interner = Interner()
        self._rollouts: OrderedDict[str, RolloutHistories] = OrderedDict()
        self._used: dict[str, float] = {}
        self.tally = Tally()

    def __len__(self) -> int:
        return len(self._rollouts)

    @contextmanager
    def in_flight(self, rollout_id: str) -> Iterator[RolloutHistories]:
        """The histories of a rollout, made on first use, and kept at least as long as the call that is under way."""
        self.expire()
        rollout = self._rollouts.get(rollout_id)
        if rollout is None:
            rollout = self._rollouts[rollout_id] = RolloutHistories(self._limits, self._interner, self.tally)
        self._touch(rollout_id)
        rollout.calls_in_flight += 1
        try:
            yield rollout
        finally:
            rollout.calls_in_flight -= 1
            self._touch(rollout_id)

    def _touch(self, rollout_id: str) -> None:
        self._rollouts.move_to_end(rollout_id)
        self._used[rollout_id] = self._clock()

    def expire(self) -> None:
        """Let go of rollouts idle for too long, and of the longest idle ones while the worker holds too much."""
        idle_since = self._clock() - self._limits.idle_seconds
        excess = self.tally.bytes - self._limits.worker_bytes
        gone = []
        for rollout_id, rollout in self._rollouts.items():
            if excess <= 0 and self._used[rollout_id] > idle_since:
                break
            if not rollout.calls_in_flight:
                excess -= rollout.held_bytes
                gone.append(rollout_id)
        for rollout_id in gone:
            self._rollouts.pop(rollout_id).clear()
            del self._used[rollout_id]
