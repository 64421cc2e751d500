# SPDX-License-Identifier: Apache-2.0
"""The published vectors of protocol/vectors, for cases that put them on the wire.

They stand beside the protocol's package in a checkout, and under share/ where the package was installed.
HISTORY_DELTA_VECTORS names another folder.
"""

import base64
import contextlib
import functools
import json
import os
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import history_delta_protocol

from .base import NotRun

FOLDER_VARIABLE = "HISTORY_DELTA_VECTORS"
_FORMAT = "history-delta-vectors/1"
_INSTALLED = "share/history-delta/vectors"

Vector = dict[str, Any]


def folder() -> Path:
    """Raises NotRun where the vectors are not to be found."""
    named = os.environ.get(FOLDER_VARIABLE)
    places = [Path(named)] if named else [*_places()]
    for place in places:
        if (place / "split.json").is_file():
            return place
    raise NotRun(f"no vectors in {' or '.join(map(str, places))}: {FOLDER_VARIABLE} names their folder")


def _places() -> Iterator[Path]:
    yield Path(history_delta_protocol.__file__).parents[1] / "vectors"
    with contextlib.suppress(metadata.PackageNotFoundError):
        installed = metadata.files("history-delta") or []
        yield from {Path(str(file.locate())).resolve().parent for file in installed if _INSTALLED in str(file.parent)}


@functools.cache
def read(name: str) -> Vector:
    """One of the files, such as ``split``."""
    document: Vector = json.loads((folder() / f"{name}.json").read_text(encoding="ascii"))
    if document["format"] != _FORMAT:
        raise NotRun(f"{name}.json: expected the format {_FORMAT}, got {document['format']!r}")
    return document


def octets(described: Vector) -> bytes:
    """The octets that a description stands for."""
    return _segments(described["segments"])


def _segments(segments: list[Vector]) -> bytes:
    return b"".join(map(_segment, segments))


def _segment(segment: Vector) -> bytes:
    if "text" in segment:
        return str(segment["text"]).encode()
    if "base64" in segment:
        return base64.b64decode(segment["base64"])
    return _segments(segment["repeat"]) * int(segment["times"])
