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
from typing import Any

Row = dict[str, Any]


def rows(database: Path, query: str, *values: object) -> list[Row]:
    """The rows of a query, without writing to the database; none where there is no such file."""
    if not database.is_file():
        return []
    with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(zip(row.keys(), map(_opened, row), strict=True)) for row in connection.execute(query, values)]


def json_lines_text(entries: Iterable[object]) -> str:
    """One entry a line, keys in the agent's order."""
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def texts_by_session(folder: Path, pattern: str) -> dict[str, str]:
    """The files of a folder, one session each, under names that do not depend on theirs, which hold ids and times."""
    files = sorted(folder.glob(pattern))
    return numbered(map(text_of, files))


def numbered(texts: Iterable[str]) -> dict[str, str]:
    return {f"session-{number}": text for number, text in enumerate(texts, start=1)}


def text_of(path: Path) -> str:
    """A file's text, its line ends as they are."""
    return path.read_bytes().decode("utf-8", errors="replace")


def json_objects(path: Path) -> list[Row]:
    """Every line that is a JSON object; all else is skipped."""
    return [entry for entry in _lines(path) if isinstance(entry, dict)]


def printed_text(
    path: Path, *, number: Callable[[Row], str | None], is_progress: Callable[[Row], bool] = lambda event: False
) -> str:
    """An agent's events, one a line, without what depends on chance.

    That is progress, whose pieces are as the agent happened to read them, and the order in which tools end that run at
    the same time: events that have a ``number`` and follow upon each other are sorted by it.
    """
    entries = [entry for entry in _lines(path) if isinstance(entry, str) or not is_progress(entry)]
    numbers = [number(entry) if isinstance(entry, dict) else None for entry in entries]
    ordered: list[Row | str] = []
    for _, group in groupby(zip(numbers, entries, strict=True), lambda pair: pair[0] is not None):
        ordered += [entry for _, entry in sorted(group, key=lambda pair: pair[0] or "")]
    return json_lines_text(ordered)


def _lines(path: Path) -> list[Row | str]:
    """The lines of a file, those that are JSON objects as such. A line ends at a line feed, nowhere else."""
    return [_object_or_text(line) for line in text_of(path).split("\n") if line]


def _object_or_text(line: str) -> Row | str:
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
