# SPDX-License-Identifier: Apache-2.0
"""Reading the records that agents keep of their sessions, as text that two runs can be compared by.

Nothing is normalised here. Where an agent keeps several sessions, as it does for sub-agents, each becomes a text of its
own, so that it does not matter how they were interleaved.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
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
    return numbered(file.read_text(encoding="utf-8", errors="replace") for file in files)


def numbered(texts: Iterable[str]) -> dict[str, str]:
    return {f"session-{number}": text for number, text in enumerate(texts, start=1)}


def json_objects(path: Path) -> Iterator[dict[str, Any]]:
    """Every line that is a JSON object; all else is skipped."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.startswith("{"):
            continue
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict):
            yield parsed


def _opened(value: object) -> object:
    """A column that holds JSON, as agents have them, as what it holds."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
