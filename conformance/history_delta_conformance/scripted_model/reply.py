# SPDX-License-Identifier: Apache-2.0
"""What the model answers, independent of the dialect: the same for a stream and for a document."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool that the agent offered; ``arguments`` is JSON text."""

    id: str
    name: str
    arguments: str
    namespace: str = ""


@dataclass(frozen=True)
class Usage:
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Reply:
    """One answer. ``id`` is derived from the request, so that the same request gets the same answer."""

    id: str
    model: str
    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]
    usage: Usage


@dataclass(frozen=True)
class Tool:
    """A tool as the request offers it; ``parameters`` is its JSON schema, ``namespace`` is where it stands in one."""

    name: str
    parameters: dict[str, Any]
    namespace: str = ""


_WORD = re.compile(r"\s*\S+\s*?|\s+")
_CHUNK = 48


def tokens(text: str) -> Iterator[str]:
    """Cut text into the pieces that a stream delivers: words, and long words in parts."""
    for word in _WORD.findall(text):
        for start in range(0, len(word), _CHUNK):
            yield word[start : start + _CHUNK]


def argument_pieces(arguments: str) -> Iterator[str]:
    """Cut JSON text into pieces anywhere, as models do, and inside its first escape if it has one."""
    inside_escape = arguments.find("\\") + 1
    cuts = sorted({*range(0, len(arguments), _CHUNK), inside_escape, len(arguments)})
    for start, end in pairwise(cuts):
        yield arguments[start:end]
