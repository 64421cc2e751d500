# SPDX-License-Identifier: Apache-2.0
"""Finds the history and its message boundaries in the raw bytes of a request body. SPEC.md section 4.

It never changes, validates or keeps a value: what stands after the history's last message is opaque, and whatever it
does not understand is said by NotUnderstood, upon which the body travels in full.
"""

import re
from typing import Iterator, NamedTuple, Sequence, Tuple

from .values import MAX_MARKS, NO_HISTORY, NOT_JSON, TOO_DEEP, TOO_MANY_MESSAGES, TOO_MANY_VALUES, NotUnderstood, Values
from .wire import MAX_JSON_DEPTH, MAX_MESSAGES

__all__ = [
    "NOT_JSON",
    "NO_HISTORY",
    "TOO_DEEP",
    "TOO_MANY_MESSAGES",
    "TOO_MANY_VALUES",
    "NotUnderstood",
    "Split",
    "ends_here",
    "find_history",
    "iter_messages",
    "iter_to_history",
    "split",
]

# A message lies inside the body's object and the history's array, a member before the history in the object alone.
_MEMBER_LEVELS = MAX_JSON_DEPTH + 1
# What stands before the history is short as a rule; no more marks than are allowed fit in the windows of messages.
_MEMBER_WINDOW = 16384
_MESSAGE_WINDOW = MAX_MARKS

# Exactly JSON's four: bytes.isspace() would take 0x0b and 0x0c for blanks as well.
_blanks = re.compile(rb"[ \t\n\r]*").match


class Split(NamedTuple):
    """Where a body's parts lie: offsets into it. Message i is ``body[starts[i]:ends[i]]``."""

    head_end: int
    starts: Sequence[int]
    ends: Sequence[int]

    @property
    def tail_start(self) -> int:
        return self.ends[-1] if self.ends else self.head_end


def split(body: bytes, history_key: str) -> Split:
    """Take a whole body apart. Raises NotUnderstood."""
    head_end = find_history(body, history_key)
    starts = []
    ends = []
    for start, end in iter_messages(body, head_end):
        starts.append(start)
        ends.append(end)
    return Split(head_end, starts, ends)


def find_history(body: bytes, history_key: str) -> int:
    """The offset after the ``[`` of the history: the first top-level member of that name. Raises NotUnderstood."""
    *_, head_end = iter_to_history(body, history_key)
    return head_end


def iter_to_history(body: bytes, history_key: str) -> Iterator[int]:
    """The same in steps: the offset after each member before the history, and last the one after its ``[``."""
    values = Values(body, _MEMBER_LEVELS, _MEMBER_WINDOW)
    position = _expect(body, _skip(body, 0), b"{", NOT_JSON)
    while True:
        position = _skip(body, position)
        key, position = values.read(_expect(body, position, b'"', _no_member(body, position)) - 1)
        position = _skip(body, _expect(body, _skip(body, position), b":", NOT_JSON))
        if key == history_key:
            yield _expect(body, position, b"[", NO_HISTORY)
            return
        position = _skip(body, values.read(position)[1])
        position = _expect(body, position, b",", _no_member(body, position))
        yield position


def iter_messages(body: bytes, position: int, already: int = 0) -> Iterator[Tuple[int, int]]:
    """The (start, end) of each message from ``position`` to the end of the history's array.

    ``position`` is right after the ``[`` (``already`` = 0) or at the end of message number ``already``. Ends
    normally at the ``]``; raises NotUnderstood.
    """
    values = Values(body, MAX_JSON_DEPTH, _MESSAGE_WINDOW)
    count = already
    while True:
        position = _blanks(body, position).end()  # type: ignore[union-attr]
        mark = body[position : position + 1]
        if mark == b"]":
            return
        if count:
            if mark != b",":
                raise NotUnderstood(NOT_JSON)
            position = _blanks(body, position + 1).end()  # type: ignore[union-attr]
        if count >= MAX_MESSAGES:
            raise NotUnderstood(TOO_MANY_MESSAGES)
        start, position = position, values.read(position)[1]
        yield start, position
        count += 1


def ends_here(body: bytes, position: int) -> bool:
    """Whether a value that ends at ``position`` in another body ends there in this one too (``[1`` begins ``[12``)."""
    position = _skip(body, position)
    return body[position : position + 1] in (b",", b"]")


def _skip(body: bytes, position: int) -> int:
    return _blanks(body, position).end()  # type: ignore[union-attr]


def _expect(body: bytes, position: int, mark: bytes, otherwise: str) -> int:
    if body[position : position + 1] != mark:
        raise NotUnderstood(otherwise)
    return position + 1


def _no_member(body: bytes, position: int) -> str:
    """Why there is no further member at ``position``."""
    return NO_HISTORY if body[position : position + 1] == b"}" else NOT_JSON
