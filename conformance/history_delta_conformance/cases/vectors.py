# SPDX-License-Identifier: Apache-2.0
"""The published vectors of protocol/vectors, for cases that put them on the wire.

They stand beside the protocol's package in a checkout; elsewhere HISTORY_DELTA_VECTORS names their folder.
"""

import base64
import functools
import json
import os
from pathlib import Path
from typing import Any

import history_delta_protocol

from .base import NotRun

FOLDER_VARIABLE = "HISTORY_DELTA_VECTORS"
_FORMAT = "history-delta-vectors/1"

Vector = dict[str, Any]


def folder() -> Path:
    """Raises NotRun where the vectors are not to be found."""
    named = os.environ.get(FOLDER_VARIABLE)
    found = Path(named) if named else Path(history_delta_protocol.__file__).parents[1] / "vectors"
    if not (found / "split.json").is_file():
        raise NotRun(f"no vectors in {found}: {FOLDER_VARIABLE} names their folder")
    return found


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
