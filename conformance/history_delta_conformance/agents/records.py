# SPDX-License-Identifier: Apache-2.0
"""Reading the records that agents keep of their sessions, as text that two runs can be compared by.

Nothing is normalised here. Where an agent keeps several sessions, as it does for sub-agents, each becomes a text of its
own, so that it does not matter how they were interleaved.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any, cast

Row = dict[str, Any]
# A line: a JSON object, or else its text.
Entry = Row | str


def rows(database: Path, query: str, *values: object) -> list[Row]:
    """The rows of a query, without writing to the database; none where there is no such file."""
    if not database.is_file():
        return []
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(zip(row.keys(), map(_opened, row), strict=True)) for row in connection.execute(query, values)]


def json_lines_text(entries: Iterable[Entry]) -> str:
    """One entry a line, keys in the agent's order."""
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def numbered(texts: Iterable[str]) -> dict[str, str]:
    return {f"session-{number}": text for number, text in enumerate(texts, start=1)}


def text_of(path: Path) -> str:
    """A file's text, its line ends as they are; empty where there is no such file."""
    return path.read_bytes().decode("utf-8", errors="replace") if path.is_file() else ""


def json_objects(path: Path) -> list[Row]:
    """Every line that is a JSON object; all else is skipped."""
    return [entry for entry in entries_of(path) if isinstance(entry, dict)]


def steadied(entries: Iterable[Entry], place: Callable[[Row], object]) -> list[Entry]:
    """Entries without the order that chance gave them: what tools do that run at the same time.

    Entries that have a ``place`` and follow upon each other are sorted by it; None is for those that stand where they
    are.
    """
    placed = [(place(entry) if isinstance(entry, dict) else None, entry) for entry in entries]
    ordered: list[Entry] = []
    for _, group in groupby(placed, lambda pair: pair[0] is not None):
        ordered += [entry for _, entry in sorted(group, key=lambda pair: cast("Any", pair[0] or 0))]
    return ordered


def entries_of(path: Path) -> list[Entry]:
    """The lines of a file, those that are JSON objects as such. A line ends at a line feed, nowhere else."""
    return [_object_or_text(line) for line in text_of(path).split("\n") if line]


def _object_or_text(line: str) -> Entry:
    try:
        parsed = json.loads(line) if line.startswith("{") else None
    except ValueError:
        return line
    return parsed if isinstance(parsed, dict) else line


def _opened(value: object) -> object:
    """A column that holds JSON, as agents have them, as what it holds."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
