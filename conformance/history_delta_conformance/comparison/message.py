# SPDX-License-Identifier: Apache-2.0
"""How two texts of a message differ: the same value in another text, only its tool arguments so, or another value."""

import json
import re
from typing import Any

# Where a tool's arguments stand: as JSON within a string (chat, responses), or as an object (messages).
_IN_STRING = re.compile(r'("arguments"\s*:\s*)("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_AS_OBJECT = re.compile(r'"input"\s*:\s*(?=\{)')
_DECODER = json.JSONDecoder(strict=False)


def kind_of_change(off: str, on: str, otherwise: str) -> str:
    """``arguments-rewritten`` and ``body-re-serialised`` are the same value in another text."""
    if _value(off) != _value(on):
        return otherwise
    return "arguments-rewritten" if _without_arguments(off) == _without_arguments(on) else "body-re-serialised"


def _value(text: str) -> object:
    """What the text means, tool arguments included; the text itself where it means nothing."""
    try:
        return _opened(_DECODER.decode(text))
    except ValueError:
        return text


def _opened(value: Any) -> Any:
    if isinstance(value, list):
        return [_opened(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _arguments(inner) if key == "arguments" else _opened(inner) for key, inner in value.items()}


def _arguments(value: Any) -> Any:
    try:
        return "arguments", _DECODER.decode(value)
    except (ValueError, TypeError):
        return value


def _without_arguments(text: str) -> str:
    text = _IN_STRING.sub(r"\1", text)
    while found := _AS_OBJECT.search(text):
        try:
            _, end = _DECODER.raw_decode(text, found.end())
        except ValueError:
            return text
        text = text[: found.start()] + text[end:]
    return text
