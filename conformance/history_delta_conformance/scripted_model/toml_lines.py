# SPDX-License-Identifier: Apache-2.0
"""On which line of a TOML text each value begins, which the standard library's parser does not tell.

It reads text that this parser has accepted, so it checks nothing; what a value is does not interest it.
"""

import re
from collections import Counter
from collections.abc import Iterator

# Where a value stands: ``("turns", 3, "calls", 0, "tool")``.
Place = tuple[str | int, ...]

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+|\#[^\n]*)
    |(?P<text>\"\"\"(?:\\.|[^\\])*?\"{3,5}|'''.*?'{3,5}|"(?:\\.|[^"\\])*"|'[^']*')
    |(?P<sign>[\[\]{},=])
    |(?P<bare>\d{4}-\d\d-\d\d\ \d\d:[\d:.Z+-]+|[^\s\[\]{},=\#"']+)""",
    re.VERBOSE | re.DOTALL,
)


def lines_of(text: str) -> dict[Place, int]:
    """The line, from 1, of every key, table and element of an array."""
    reader = _Reader(text)
    reader.document()
    return reader.lines


def line_of(lines: dict[Place, int], place: Place) -> int:
    """The line of this place or, where nothing stands there, of the nearest one that it would stand in."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


class _Reader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Place, int] = {}
        self._tokens = [*_tokens(text), ("", 0)]
        self._at = 0
        self._tables: Counter[Place] = Counter()

    def document(self) -> None:
        table: Place = ()
        while self._sign:
            if self._sign == "[":
                table = self._header()
            else:
                self._pair(table)

    @property
    def _sign(self) -> str:
        return self._tokens[self._at][0]

    def _next(self) -> tuple[str, int]:
        self._at += 1
        return self._tokens[self._at - 1]

    def _header(self) -> Place:
        _, line = self._next()
        is_array = self._sign == "["
        if is_array:
            self._next()
        table: Place = ()
        keys = self._key()
        for number, key in enumerate(keys, start=1):
            table += (key,)
            if is_array and number == len(keys):
                self._tables[table] += 1
            self.lines.setdefault(table, line)
            if self._tables[table]:
                table += (self._tables[table] - 1,)
                self.lines.setdefault(table, line)
        for _ in range(2 if is_array else 1):
            self._next()
        return table

    def _pair(self, table: Place) -> None:
        line = self._tokens[self._at][1]
        for key in self._key():
            table += (key,)
            self.lines.setdefault(table, line)
        self._next()
        self._value(table)

    def _key(self) -> list[str]:
        """A dotted key, up to what follows it."""
        keys: list[str] = []
        while self._sign not in ("=", "]"):
            token, _ = self._next()
            keys += [token[1:-1]] if token[0] in "\"'" else [key for key in token.split(".") if key]
        return keys

    def _value(self, place: Place) -> None:
        token, line = self._next()
        self.lines.setdefault(place, line)
        if token == "[":
            self._elements(place)
        elif token == "{":
            while self._sign != "}":
                self._pair(place)
                self._skip(",")
            self._next()

    def _elements(self, place: Place) -> None:
        number = 0
        while self._sign != "]":
            self._value((*place, number))
            self._skip(",")
            number += 1
        self._next()

    def _skip(self, sign: str) -> None:
        if self._sign == sign:
            self._next()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for found in _TOKEN.finditer(text):
        if found.lastgroup != "blank":
            yield found.group(), line
        line += found.group().count("\n")
