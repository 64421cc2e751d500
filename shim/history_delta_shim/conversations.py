# SPDX-License-Identifier: Apache-2.0
"""What the shim knows the server to hold: recent conversations as bases, and heads and tails by hash.

A conversation is found by its content, never by a session header: agents send none, or one for several histories.
Not thread-safe; the core guards it. Bounded, least recently used out.
"""

from bisect import bisect_right
from collections import OrderedDict
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from history_delta_protocol import pieces, scan

# Where a chain value means something: one dialect of one rollout behind one base path.
Scope = Tuple[str, str, str]

# Offsets and digest of a message beside its bytes; a conversation's own objects. Measured with tracemalloc.
_MESSAGE_OVERHEAD = 170
_CONVERSATION_OVERHEAD = 600
# An agent that marks its newest messages for the model's cache rewrites the last one or two of before.
_MOST_REWRITTEN = 2


class Health(object):
    """How a conversation has fared with resyncs; it outlives the conversation's single bodies.

    After three resyncs in a row its next 8 calls go in full, then 16, 32 and 64.
    """

    _MOST_IN_A_ROW = 3
    _FIRST_SUSPENSION = 8
    _LONGEST_SUSPENSION = 64

    def __init__(self) -> None:
        self._in_a_row = 0
        self._next_suspension = self._FIRST_SUSPENSION
        self._calls_left = 0

    def resynced(self) -> int:
        """Count a resync; the number of calls that go in full from now on (0: none)."""
        self._in_a_row += 1
        if self._in_a_row < self._MOST_IN_A_ROW:
            return 0
        self._in_a_row = 0
        self._calls_left = self._next_suspension
        self._next_suspension = min(2 * self._next_suspension, self._LONGEST_SUSPENSION)
        return self._calls_left

    def failed(self) -> int:
        """Count a failure that may be the frame's fault, like a resync: the next call goes in full at any rate."""
        suspended = self.resynced()
        self._calls_left = max(self._calls_left, 1)
        return suspended

    def accepted(self) -> None:
        self._in_a_row = 0
        self._next_suspension = self._FIRST_SUSPENSION

    def suspended(self) -> bool:
        """Whether this call must go in full; counts it."""
        if not self._calls_left:
            return False
        self._calls_left -= 1
        return True


class Conversation(object):
    """A body, where its messages lie, and the chain value after each of them (``chain[0]`` is h0)."""

    __slots__ = ("body", "chain", "ends", "head_end", "health", "scope", "starts")

    def __init__(
        self,
        scope: Scope,
        body: bytes,
        head_end: int,
        starts: Sequence[int],
        ends: Sequence[int],
        chain: Sequence[bytes],
    ) -> None:
        self.scope = scope
        self.body = body
        self.head_end = head_end
        self.starts = starts
        self.ends = ends
        self.chain = chain
        self.health = Health()

    @property
    def count(self) -> int:
        return len(self.ends)

    @property
    def tail_start(self) -> int:
        return self.ends[-1] if self.ends else self.head_end

    @property
    def head(self) -> bytes:
        return self.body[: self.head_end]

    @property
    def tail(self) -> bytes:
        return self.body[self.tail_start :]

    @property
    def size(self) -> int:
        return len(self.body) + _MESSAGE_OVERHEAD * len(self.ends) + _CONVERSATION_OVERHEAD

    def piece(self, index: int) -> bytes:
        """Message ``index`` (from 0) with its separator."""
        return self.body[self.ends[index - 1] if index else self.head_end : self.ends[index]]

    def message(self, index: int) -> bytes:
        return self.body[self.starts[index] : self.ends[index]]

    def may_share_more(self, body: bytes, head_end: int, size: int) -> bool:
        """Whether ``body``'s history may have more than ``size`` bytes of messages in common with this one: a look at
        one message, where shared_with compares all that is shared."""
        index = bisect_right(self.ends, self.head_end + size)
        return index < self.count and body.startswith(
            self.body[self.head_end + size : self.ends[index]], head_end + size
        )

    def shared_with(self, body: bytes, head_end: int) -> int:
        """How many leading messages of this history ``body``'s history, which begins at ``head_end``, has too."""
        shared = pieces.common_prefix(self.body, self.head_end, self.tail_start, body, head_end, len(body))
        count = bisect_right(self.ends, self.head_end + shared)
        # A number is not at its end where its digits are: [1 begins [12.
        while count and not scan.ends_here(body, self.ends[count - 1] - self.head_end + head_end):
            count -= 1
        return count

    def lives_on_in(self, new: "Conversation", shared: int) -> bool:
        """Whether ``new`` is this conversation gone on, so that it need not be kept: all its messages stand there, the
        last ones perhaps rewritten in part. A fork, a truncation or a compaction is another conversation."""
        return self.count - _MOST_REWRITTEN <= shared <= self.count <= new.count and all(
            _alike(self.message(index), new.message(index)) for index in range(shared, self.count)
        )


def _alike(old: bytes, new: bytes) -> bool:
    """Whether most of ``new`` is ``old``'s: its two ends."""
    prefix = pieces.common_prefix(old, 0, len(old), new, 0, len(new))
    suffix = pieces.common_suffix(old, new, min(len(old), len(new)) - prefix)
    return 2 * (prefix + suffix) >= max(len(old), len(new))


class Match(NamedTuple):
    """The held conversation that shares most with a body, and how many leading messages."""

    conversation: Conversation
    shared: int


class Conversations(object):
    """The acknowledged conversations of a shim, least recently used first."""

    def __init__(self, max_bytes: int, max_count: int = 256) -> None:
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._held = OrderedDict()  # type: OrderedDict[int, Conversation]
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._held)

    def candidates(self, scope: Scope) -> List[Conversation]:
        """What a body in ``scope`` may extend, most recently used first."""
        return [conversation for conversation in reversed(self._held.values()) if conversation.scope == scope]

    def hold(self, conversation: Conversation) -> None:
        if id(conversation) in self._held or conversation.size > self._max_bytes:
            return
        self._held[id(conversation)] = conversation
        self.bytes += conversation.size
        while self.bytes > self._max_bytes or len(self._held) > self._max_count:
            self.bytes -= self._held.popitem(last=False)[1].size

    def drop(self, conversation: Conversation) -> None:
        if self._held.pop(id(conversation), None) is not None:
            self.bytes -= conversation.size


def find_head_end(body: bytes, history_key: str, candidates: Sequence[Conversation]) -> int:
    """Where the history of ``body`` begins. A known head in front says it at once; raises scan.NotUnderstood."""
    for conversation in candidates:
        if body.startswith(memoryview(conversation.body)[: conversation.head_end]):
            return conversation.head_end
    return scan.find_history(body, history_key)


def best_match(body: bytes, head_end: int, candidates: Sequence[Conversation]) -> Optional[Match]:
    """The candidate with the longest shared history, the most recent of equals; None where nothing is shared."""
    best = None  # type: Optional[Match]
    best_bytes = 0
    for conversation in candidates:
        if not conversation.may_share_more(body, head_end, best_bytes):
            continue
        shared = conversation.shared_with(body, head_end)
        size = conversation.ends[shared - 1] - conversation.head_end if shared else 0
        if size > best_bytes:
            best, best_bytes = Match(conversation, shared), size
    return best


class HeldItems(object):
    """Heads or tails that the server acknowledged, by scope and hash: the latest few, as it holds no more either."""

    def __init__(self, max_bytes: int, max_count: int = 64, max_of_scope: int = 6) -> None:
        self._max_bytes = max_bytes
        self._max_count = max_count
        self._max_of_scope = max_of_scope
        self._items = OrderedDict()  # type: OrderedDict[Tuple[Scope, bytes], bytes]
        self.bytes = 0

    def of(self, scope: Scope) -> Dict[bytes, bytes]:
        """Bytes by hash, most recently used first."""
        return OrderedDict((key[1], self._items[key]) for key in reversed(self._keys(scope)))

    def hold(self, scope: Scope, digest: bytes, item: bytes) -> None:
        if len(item) > self._max_bytes:
            return
        key = (scope, digest)
        if key not in self._items:
            self._items[key] = item
            self.bytes += len(item)
        self._items.move_to_end(key)
        for old in self._keys(scope)[: -self._max_of_scope]:
            self._drop(old)
        while self.bytes > self._max_bytes or len(self._items) > self._max_count:
            self._drop(next(iter(self._items)))

    def forget(self, scope: Scope) -> None:
        for key in self._keys(scope):
            self._drop(key)

    def _keys(self, scope: Scope) -> List[Tuple[Scope, bytes]]:
        return [key for key in self._items if key[0] == scope]

    def _drop(self, key: Tuple[Scope, bytes]) -> None:
        self.bytes -= len(self._items.pop(key))
