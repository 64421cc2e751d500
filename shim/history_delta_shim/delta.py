# SPDX-License-Identifier: Apache-2.0
"""From a body to the frame that says what is new of it. Pure: no I/O, no clock, no state.

One rule covers appending, rewriting, truncating and compacting: keep the messages that the base has in common with the
new history, in order, and say the rest.
"""

from itertools import islice
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from history_delta_protocol import chain, pieces, scan
from history_delta_protocol.dialect import Dialect
from history_delta_protocol.frame import HELD, Edit, Frame, Inserted, Item, Pieces, Result

from .conversations import Conversation, Match, Scope, best_match, find_head_end

# About what naming a source and one copy costs in the line.
_PIECES_COST = 60
_COPY_COST = 12
# How many held items are tried as a source for a new one.
_MOST_SOURCES = 4


class TakenApart(NamedTuple):
    """A body as a conversation to be, and the held one that it shares most with; ``continues``: it is that one, gone
    on."""

    conversation: Conversation
    match: Optional[Match]
    continues: bool
    head_hash: bytes
    tail_hash: bytes


def take_apart(scope: Scope, dialect: Dialect, body: bytes, candidates: Sequence[Conversation]) -> TakenApart:
    """Find the messages of ``body`` and their chain values, in time that grows with what no candidate has.

    Raises scan.NotUnderstood.
    """
    head_end = find_head_end(body, dialect.history_key, candidates)
    match = best_match(body, head_end, candidates)
    starts, ends, values = _shared(match, head_end) if match else ([], [], [chain.start(dialect.name)])
    position = ends[-1] if ends else head_end
    new_starts, new_ends = [], []
    for start, end in scan.iter_messages(body, position, len(ends)):
        new_starts.append(start)
        new_ends.append(end)
    values = values + chain.extend_over(values[-1], body, position, new_starts, new_ends)
    conversation = Conversation(scope, body, head_end, starts + new_starts, ends + new_ends, values)
    match = match or _match_behind(conversation, candidates)
    continues = match is not None and match.conversation.lives_on_in(conversation, match.shared)
    if match is not None and continues:
        conversation.health = match.conversation.health
    head_hash, tail_hash = chain.item_hash(conversation.head), chain.item_hash(conversation.tail)
    return TakenApart(conversation, match, continues, head_hash, tail_hash)


def _match_behind(new: Conversation, candidates: Sequence[Conversation]) -> Optional[Match]:
    """Where the very first message has changed: the most recent candidate that goes on in ``new`` all the same, or
    whose last message stands there."""
    pieces_of_new = {new.piece(index) for index in range(1, new.count)} if candidates else set()
    for old in candidates:
        if old.count and (old.lives_on_in(new, 0) or old.piece(old.count - 1) in pieces_of_new):
            return Match(old, 0)
    return None


def _shared(match: Match, head_end: int) -> Tuple[List[int], List[int], List[bytes]]:
    old, count = match
    shift = head_end - old.head_end
    starts, ends = list(old.starts[:count]), list(old.ends[:count])
    if shift:
        starts = [start + shift for start in starts]
        ends = [end + shift for end in ends]
    return starts, ends, list(old.chain[: count + 1])


def build_frame(
    taken: TakenApart,
    content_type: Optional[str],
    heads: Dict[bytes, bytes],
    tails: Dict[bytes, bytes],
) -> Frame:
    """The frame for a body that was taken apart; without a match it is self-contained.

    ``heads`` and ``tails``: those that the server holds, by hash, most recently used first.
    """
    new = taken.conversation
    base_count, edits, first_appended = _edits(taken)
    base = taken.match.conversation if taken.match else new
    append = []
    for index in range(first_appended, new.count):
        start = new.ends[index - 1] if index else new.head_end
        append.append((new.body[start : new.starts[index]], new.message(index)))
    result = Result(new.count, new.chain[-1], taken.head_hash, taken.tail_hash, len(new.body))
    return Frame(
        content_type,
        _item(new.head, taken.head_hash, heads),
        base_count,
        base.chain[base_count],
        edits,
        append,
        _item(new.tail, taken.tail_hash, tails),
        result,
    )


def _item(item: bytes, digest: bytes, held_items: Dict[bytes, bytes]) -> Item:
    if digest in held_items:
        return HELD
    best = item  # type: Item
    best_cost = len(item)
    for source, held in islice(held_items.items(), _MOST_SOURCES):
        parts = pieces.diff(held, item)
        if parts is not None and _cost(parts) < best_cost:
            best, best_cost = Pieces(source, parts), _cost(parts)
    return best


def _cost(parts: List[pieces.Piece]) -> int:
    return _PIECES_COST + sum(len(part) if isinstance(part, bytes) else _COPY_COST for part in parts)


def _edits(taken: TakenApart) -> Tuple[int, List[Edit], int]:
    """How many base messages the frame builds on, its edits, and the first of the new messages to append."""
    if taken.match is None:
        return 0, [], 0
    old, new, shared = taken.match.conversation, taken.conversation, taken.match.shared
    if shared == old.count:
        return shared, [], shared
    edits = []
    old_at = new_at = shared
    for kept_old, kept_new in _kept(old, new, shared):
        if (old_at, new_at) != (kept_old, kept_new):
            edits.append(_edit(old, new, (old_at, kept_old), (new_at, kept_new)))
        old_at, new_at = kept_old + 1, kept_new + 1
    rewritten = min(old.count - old_at, new.count - new_at)
    last = _edit(old, new, (old_at, old.count), (new_at, new_at + rewritten))
    if any(isinstance(message, Pieces) for _, message in last.insert):
        return old.count, edits + [last], new_at + rewritten
    # Nothing of the old end is worth copying from: build on what stands before it.
    return old_at, edits, new_at


def _kept(old: Conversation, new: Conversation, shared: int) -> List[Tuple[int, int]]:
    """Pairs of equal messages (with their separators) behind the shared ones, ascending on both sides."""
    same_end = 0
    while same_end < min(old.count, new.count) - shared and (
        old.piece(old.count - 1 - same_end) == new.piece(new.count - 1 - same_end)
    ):
        same_end += 1
    places = {}  # type: Dict[bytes, List[int]]
    for index in range(old.count - same_end - 1, shared - 1, -1):
        places.setdefault(old.piece(index), []).append(index)
    pairs = []
    free = shared
    for index in range(shared, new.count - same_end):
        ahead = places.get(new.piece(index), [])
        while ahead and ahead[-1] < free:
            ahead.pop()
        if ahead:
            free = ahead.pop() + 1
            pairs.append((free - 1, index))
    pairs.extend((old.count - left, new.count - left) for left in range(same_end, 0, -1))
    return pairs


def _edit(old: Conversation, new: Conversation, old_span: Tuple[int, int], new_span: Tuple[int, int]) -> Edit:
    insert = []
    for offset, index in enumerate(range(*new_span)):
        start = new.ends[index - 1] if index else new.head_end
        source = old_span[0] + offset
        message = new.message(index)  # type: Inserted
        if source < old_span[1]:
            message = _rewritten(old.message(source), new.message(index), source)
        insert.append((new.body[start : new.starts[index]], message))
    return Edit(old_span[0], old_span[1] - old_span[0], insert)


def _rewritten(old: bytes, new: bytes, source: int) -> Inserted:
    parts = pieces.diff(old, new)
    return Pieces(source, parts) if parts is not None and _cost(parts) < len(new) else new
