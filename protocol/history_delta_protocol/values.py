# SPDX-License-Identifier: Apache-2.0
"""Reads single JSON values in the raw bytes of a body, at the speed of the standard library's scanner. SPEC.md 4.1.

That scanner builds all that it reads, and recurses: what a value may cost is bounded before it is given one. It is
shown a window of the body at a time, so that neither time nor memory goes into what is not read.
"""

import json
import re
from typing import Any, Tuple

# Reasons of NotUnderstood, as logs and metrics name them.
NOT_JSON = "not-json"
NO_HISTORY = "no-history"
TOO_DEEP = "too-deep"
TOO_MANY_MESSAGES = "too-many-messages"
TOO_MANY_VALUES = "too-many-values"

# A value with more strings, brackets and commas than this is passed by: to build it would take seconds and gigabytes.
MAX_MARKS = 65536

_GROWTH = 4
# What of a number's fraction or exponent is not taken for one as long as its digits are not seen: ``e+``.
_LONGEST_CUT = 2

# Numbers are measured, not converted: a 10,000-digit integer is refused by int() on newer Pythons, and slow on all.
# A latin-1 view of the body keeps one character a byte; strict=False lets control characters stand in strings.
_scan_value = json.JSONDecoder(strict=False, parse_int=len, parse_float=len, parse_constant=len).scan_once  # type: ignore[attr-defined]
_scan_string = json.decoder.scanstring  # type: ignore[attr-defined]

_next_mark = re.compile(r'["\[\]{},]').search
_BRACKETS = b"[]{}"
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)


class NotUnderstood(ValueError):
    """The body has no history that this scanner can delimit; ``reason`` says why in a word."""

    def __init__(self, reason: str) -> None:
        ValueError.__init__(self, reason)
        self.reason = reason


class Values(object):
    """The values of ``body``, none of which may nest deeper than ``levels``, looked at ``window`` bytes at a time."""

    def __init__(self, body: bytes, levels: int, window: int = MAX_MARKS) -> None:
        self._body = body
        self._levels = levels
        self._size = window
        self._start = self._end = 0
        self._text = ""
        self._harmless = True

    def read(self, position: int) -> Tuple[Any, int]:
        """The value at ``position`` as the scanner has it (a string decoded, all else of no use), and where it ends.

        Raises NotUnderstood.
        """
        if not self._start <= position < self._end:
            self._look_at(position)
        while True:
            start = self._start
            if not self._harmless:
                _check(self._text, position - start, self._levels)
            try:
                value, end = _scan_value(self._text, position - start)
                # A number that ends about where the window does may go on behind it: 1 begins 12, 1.5 and 1e+5.
                if start + end + _LONGEST_CUT < self._end or self._end == len(self._body):
                    return value, start + end
            except (ValueError, StopIteration):
                if self._end == len(self._body):
                    raise NotUnderstood(NOT_JSON)
            except RecursionError:
                raise NotUnderstood(TOO_DEEP)
            if start == position:
                self._size *= _GROWTH
            self._look_at(position)

    def _look_at(self, position: int) -> None:
        region = self._body[position : position + self._size]
        self._start, self._end = position, position + len(region)
        self._text = region.decode("latin-1")
        self._harmless = _is_harmless(region, self._levels)


def _is_harmless(region: bytes, levels: int) -> bool:
    """Whether no value in ``region``, which begins outside strings, can be too deep or too large. At the speed of
    bytes.count and bytes.replace; what is not harmless is looked at value by value."""
    openings = region.count(b"[") + region.count(b"{")
    if openings <= levels and (len(region) <= MAX_MARKS or openings + region.count(b",") <= MAX_MARKS):
        return True
    unescaped = region.replace(b"\\\\", b"").replace(b'\\"', b"")
    if unescaped.count(b'"') > 2 * MAX_MARKS:
        return False
    outside_strings = b"".join(unescaped.split(b'"')[::2])
    brackets = outside_strings.translate(None, _ALL_BUT_BRACKETS)
    if len(brackets) + outside_strings.count(b",") > MAX_MARKS:
        return False
    return brackets.count(b"[") + brackets.count(b"{") <= levels or _deepest(brackets) <= levels


def _deepest(brackets: bytes) -> int:
    depth = deepest = 0
    for byte in brackets:
        depth += 1 if byte in b"[{" else -1
        if depth > deepest:
            deepest = depth
    return deepest


def _check(text: str, position: int, levels: int) -> None:
    """Raises NotUnderstood where the value at ``position`` is too deep or too large; whether it is one, the scanner
    says."""
    level = 0
    for _ in range(MAX_MARKS):
        found = _next_mark(text, position)
        if found is None:
            return
        mark, position = found.group(), found.end()
        if mark == '"':
            try:
                position = _scan_string(text, position, False)[1]
            except ValueError:
                return
        elif mark != ",":
            level += 1 if mark in "[{" else -1
        if level > levels:
            raise NotUnderstood(TOO_DEEP)
        if level <= 0:
            return
    raise NotUnderstood(TOO_MANY_VALUES)
