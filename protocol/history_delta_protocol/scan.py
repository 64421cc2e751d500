# SPDX-License-Identifier: Apache-2.0
"""Finds the history and its message boundaries in the raw bytes of a request body. SPEC.md section 4.

It never changes, validates or keeps a value: what stands after the history's last message is opaque, and whatever it
does not understand is said by NotUnderstood, upon which the body travels in full.
"""

import json
import re
from typing import Iterator, NamedTuple, Optional, Sequence, Tuple

from .wire import MAX_JSON_DEPTH, MAX_MESSAGES

# Reasons of NotUnderstood, as logs and metrics name them.
NOT_JSON = "not-json"
NO_HISTORY = "no-history"
TOO_DEEP = "too-deep"
TOO_MANY_MESSAGES = "too-many-messages"

# A message lies inside the body's object and the history's array.
_MESSAGE_LEVEL = 2
_MAX_LEVEL = _MESSAGE_LEVEL + MAX_JSON_DEPTH

# The history mostly begins in here, and then the rest need not be looked at.
_HEAD_WINDOW = 65536

# Numbers are measured, not converted: a 10,000-digit integer is refused by int() on newer Pythons, and slow on all.
# A latin-1 view of the body keeps one character a byte; strict=False lets control characters stand in strings.
_scan_value = json.JSONDecoder(strict=False, parse_int=len, parse_float=len, parse_constant=len).scan_once  # type: ignore[attr-defined]
# Exactly JSON's four: str.isspace() would take NBSP and 0x1c for blanks as well.
_blanks = re.compile(r"[ \t\n\r]*").match
_blank_bytes = re.compile(rb"[ \t\n\r]*").match

_BRACKETS = b"[]{}"
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_STRUCTURE = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)


class NotUnderstood(ValueError):
    """The body has no history that this scanner can delimit; ``reason`` says why in a word."""

    def __init__(self, reason: str) -> None:
        ValueError.__init__(self, reason)
        self.reason = reason


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
    if len(body) > _HEAD_WINDOW:
        try:
            return _find_history(body[:_HEAD_WINDOW], history_key)
        except NotUnderstood:
            # Cut short as it is, it says nothing of the whole.
            pass
    return _find_history(body, history_key)


def _find_history(body: bytes, history_key: str) -> int:
    text, cut = _scannable(body, 0, 0)
    try:
        position = _blanks(text, 0).end()  # type: ignore[union-attr]
        if text[position : position + 1] != "{":
            raise NotUnderstood(NOT_JSON)
        position += 1
        while True:
            key, position = _member_key(text, position)
            if key == history_key:
                if text[position : position + 1] != "[":
                    raise NotUnderstood(NO_HISTORY)
                return position + 1
            position = _blanks(text, _scan_value(text, position)[1]).end()  # type: ignore[union-attr]
            mark = text[position : position + 1]
            if mark == "}":
                raise NotUnderstood(NO_HISTORY)
            if mark != ",":
                raise NotUnderstood(NOT_JSON)
            position += 1
    except NotUnderstood as error:
        raise _blame(error, cut)
    except (ValueError, StopIteration):
        raise _blame(NotUnderstood(NOT_JSON), cut)
    except RecursionError:
        raise NotUnderstood(TOO_DEEP)


def iter_messages(body: bytes, position: int, already: int = 0) -> Iterator[Tuple[int, int]]:
    """The (start, end) of each message from ``position`` to the end of the history's array.

    ``position`` is right after the ``[`` (``already`` = 0) or at the end of message number ``already``. Ends
    normally at the ``]``; raises NotUnderstood.
    """
    offset = position
    text, cut = _scannable(body, offset, _MESSAGE_LEVEL)
    position = 0
    count = already
    while True:
        position = _blanks(text, position).end()  # type: ignore[union-attr]
        mark = text[position : position + 1]
        if mark == "]":
            return
        if count:
            if mark != ",":
                raise _blame(NotUnderstood(NOT_JSON), cut)
            position = _blanks(text, position + 1).end()  # type: ignore[union-attr]
        if count >= MAX_MESSAGES:
            raise NotUnderstood(TOO_MANY_MESSAGES)
        try:
            end = _scan_value(text, position)[1]
        except (ValueError, StopIteration):
            raise _blame(NotUnderstood(NOT_JSON), cut)
        except RecursionError:
            raise NotUnderstood(TOO_DEEP)
        yield offset + position, offset + end
        position = end
        count += 1


def ends_here(body: bytes, position: int) -> bool:
    """Whether a value that ends at ``position`` in another body ends there in this one too (``[1`` begins ``[12``)."""
    position = _blank_bytes(body, position).end()  # type: ignore[union-attr]
    return body[position : position + 1] in (b",", b"]")


def _member_key(text: str, position: int) -> Tuple[str, int]:
    """A member's decoded key and where its value starts."""
    position = _blanks(text, position).end()  # type: ignore[union-attr]
    if text[position : position + 1] != '"':
        raise NotUnderstood(NO_HISTORY if text[position : position + 1] == "}" else NOT_JSON)
    key, position = _scan_value(text, position)
    position = _blanks(text, position).end()  # type: ignore[union-attr]
    if text[position : position + 1] != ":":
        raise NotUnderstood(NOT_JSON)
    return key, _blanks(text, position + 1).end()  # type: ignore[union-attr]


def _blame(error: NotUnderstood, cut: Optional[int]) -> NotUnderstood:
    return NotUnderstood(TOO_DEEP) if cut is not None and error.reason == NOT_JSON else error


def _scannable(body: bytes, position: int, level: int) -> Tuple[str, Optional[int]]:
    """A view of ``body[position:]`` that the recursive scanner can take, and where it was cut for that, if it was.

    The cut stands where nesting passes the limit, so that the scanner meets the end of its text instead of the end
    of its stack. What lies behind the history may nest as it likes: the scanner never gets there.
    """
    region = body[position:] if position else body
    text = region.decode("latin-1")
    if level + _openings(region) <= _MAX_LEVEL or level + _deepest(region) <= _MAX_LEVEL:
        return text, None
    cut = _first_too_deep(region, level)
    return text[:cut], cut


def _openings(data: bytes) -> int:
    return data.count(b"[") + data.count(b"{")


def _deepest(region: bytes) -> int:
    """The deepest nesting in well-formed JSON, at the speed of bytes.replace; for anything else at least that of the
    part before the first error."""
    outside_strings = b"".join(region.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    brackets = outside_strings.translate(None, _ALL_BUT_BRACKETS)
    if _openings(brackets) <= _MAX_LEVEL - _MESSAGE_LEVEL:
        return _openings(brackets)
    depth = deepest = 0
    for byte in brackets:
        depth += 1 if byte in b"[{" else -1
        if depth > deepest:
            deepest = depth
    return deepest


def _first_too_deep(region: bytes, level: int) -> Optional[int]:
    in_string = False
    for token in _STRUCTURE.finditer(region):
        mark = token.group()
        if mark == b'"':
            in_string = not in_string
        elif not in_string and mark in (b"[", b"{"):
            level += 1
            if level > _MAX_LEVEL:
                return token.start()
        elif not in_string and mark in (b"]", b"}"):
            level -= 1
    return None
