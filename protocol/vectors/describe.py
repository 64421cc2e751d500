# SPDX-License-Identifier: Apache-2.0
"""Octets as the vector files tell them: readable where they are text, short where they repeat themselves."""

import base64
import hashlib
from typing import Any

Description = dict[str, Any]

# Long repetitions that a case has made, by what they come to.
_runs: dict[bytes, tuple[bytes, int]] = {}


def run(unit: bytes, times: int) -> bytes:
    """``unit * times``, remembered so that a description can say it that way."""
    data = unit * times
    if len(data) > 200:
        _runs[data] = (unit, times)
    return data


def describe(data: bytes) -> Description:
    """{"length", "sha256", "segments"}; README.md has the format."""
    return {"length": len(data), "sha256": hashlib.sha256(data).hexdigest(), "segments": _segments(data)}


def _segments(data: bytes) -> list[Description]:
    if not data:
        return []
    for known in sorted(_runs, key=len, reverse=True):
        before, found, after = data.partition(known)
        if found:
            unit, times = _runs[known]
            return [*_segments(before), {"repeat": _segments(unit), "times": times}, *_segments(after)]
    return [_plain(data)]


def _plain(data: bytes) -> Description:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}
