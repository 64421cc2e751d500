# SPDX-License-Identifier: Apache-2.0
"""Where the messages of a body stand, so that one can be taken out, doubled or moved without touching the rest."""

from ..budget import parts_of

Span = tuple[int, int]
_ENOUGH = 7


def spans(body: bytes) -> list[Span]:
    """Start and end of each message; none where the history is shorter than what a mutant needs."""
    for path, key in (("/v1/chat/completions", b'"messages"'), ("/v1/responses", b'"input"')):
        parts = parts_of(path, body)
        if parts is not None and len(parts.messages) >= _ENOUGH:
            return _located(body, body.index(key), parts.messages)
    return []


def _located(body: bytes, position: int, messages: tuple[str, ...]) -> list[Span]:
    found = []
    for message in messages:
        raw = message.encode()
        start = body.index(raw, position)
        position = start + len(raw)
        found.append((start, position))
    return found
