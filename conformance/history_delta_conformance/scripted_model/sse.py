# SPDX-License-Identifier: Apache-2.0
"""Server-sent events as bytes."""

import json
from typing import Any

DONE = b"data: [DONE]\n\n"


def event(data: dict[str, Any], name: str | None = None) -> bytes:
    """One event with JSON data; with a name where the dialect names its events."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()
