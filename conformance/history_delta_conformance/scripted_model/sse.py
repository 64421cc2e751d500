# SPDX-License-Identifier: Apache-2.0
"""Server-sent events as bytes, and what each of them means for whoever wants to stop at a certain place."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

# What an event carries or completes: a piece of the answer, the whole text, a whole tool call, the answer as such.
Mark = Literal["", "token", "text", "tool-call", "final"]

_PING_EVERY = 16


class Event(NamedTuple):
    """One event. In a dialect where nothing but the last piece says so, that piece is what completes a part."""

    data: bytes
    mark: Mark = ""


DONE = Event(b"data: [DONE]\n\n", "final")
# A comment, which every reader of a stream skips.
PING = Event(b": ping\n\n")


def event(data: dict[str, Any], name: str | None = None, mark: Mark = "") -> Event:
    """One event with JSON data; with a name where the dialect names its events."""
    head = f"event: {name}\n" if name else ""
    return Event(f"{head}data: {json.dumps(data, ensure_ascii=False, separators=(',', ':'))}\n\n".encode(), mark)


def marked(pieces: Iterable[str], whole: Mark) -> Iterator[tuple[str, Mark]]:
    """Each piece as a token, and the last as what makes the part whole."""
    held: str | None = None
    for piece in pieces:
        if held is not None:
            yield held, "token"
        held = piece
    if held is not None:
        yield held, whole


def with_pings(events: Iterable[Event], ping: Event) -> list[Event]:
    """The events with a ping after the first and then every so often, as real models keep a connection awake."""
    listed: list[Event] = []
    for number, event_of_answer in enumerate(events):
        listed += [event_of_answer] if number % _PING_EVERY else [event_of_answer, ping]
    return listed
