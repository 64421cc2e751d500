# SPDX-License-Identifier: Apache-2.0
"""Which fault befalls an answer, and what becomes of the answer then. It is decided here and done by ``sending``."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple

from .scenario import Fault
from .sse import Event, Mark

# A slow answer is cut into no more pieces than this.
_DRIPS = 200
_CHARACTER_BEGINS = re.compile(rb"[\xc0-\xff]")

# The marks that an event may have behind which the fault comes; the whole of something may be a token as well.
_MARKS: dict[str, set[Mark]] = {
    "first-token": {"token", "text", "tool-call"},
    "text": {"text"},
    "tool-call": {"tool-call"},
}

Ending = Literal["complete", "cut", "reset"]


class Piece(NamedTuple):
    """Bytes for one write, and for how many seconds there is silence after them."""

    data: bytes
    silence: float = 0.0


@dataclass(frozen=True)
class Course:
    """How an answer is sent: ``length`` is what Content-Length announces, None where the answer comes in chunks."""

    pieces: tuple[Piece, ...]
    ending: Ending = "complete"
    length: int | None = None


class Befallen:
    """How many requests there were for each step that has faults: the only state that a scripted model keeps.

    It must, since an agent that tries again sends what it sent before.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._faults = faults
        self._requests: Counter[tuple[str, int]] = Counter()

    def next(self, conversation: str, step: int) -> Fault | None:
        """The fault for this request, which is counted; ``conversation`` is empty for the main one."""
        of_step = [fault for fault in self._faults if (fault.conversation, fault.step) == (conversation, step)]
        if not of_step:
            return None
        self._requests[conversation, step] += 1
        return fault_of(of_step, self._requests[conversation, step])


def fault_of(faults: Sequence[Fault], request: int) -> Fault | None:
    """The fault for the ``request``-th request for a step (from 1): one fault after the other, each ``times``."""
    last_of_each = accumulate(fault.times for fault in faults)
    return next((fault for fault, last in zip(faults, last_of_each, strict=True) if request <= last), None)


def course(events: Sequence[Event], fault: Fault | None = None) -> Course:
    """How these events are sent under a fault that lets an answer begin."""
    if fault is None:
        return Course(_pieces(events))
    place = _place(events, fault.after)
    match fault.kind:
        case "cut" | "reset":
            return Course(_with_silence(events[:place], fault.lasting), fault.kind)
        case "short-length":
            return Course(_with_silence(events[:place], fault.lasting), "cut", len(_joined(events)))
        case "no-final-event":
            return Course(_pieces([event for event in events if event.mark != "final"]))
        case "stall":
            return Course((*_with_silence(events[:place], fault.lasting), *_pieces(events[place:])))
        case "drip":
            return Course(_drips(_joined(events), fault.lasting))
        case _:
            raise ValueError(f"{fault.kind} leaves no answer")


def halves(document: bytes) -> list[Event]:
    """An answer that is no stream, as two events, so that it can break in the middle as well."""
    middle = len(document) // 2
    return [Event(document[:middle], "token"), Event(document[middle:], "final")]


def _place(events: Sequence[Event], after: str) -> int:
    """Where in the list the fault is: behind what it names or, where that is not said, before the final events."""
    places = [index for index, event in enumerate(events) if event.mark in _MARKS[after]]
    final = next(index for index, event in enumerate(events) if event.mark == "final")
    return places[0] + 1 if places else final


def _pieces(events: Sequence[Event]) -> tuple[Piece, ...]:
    return tuple(Piece(data) for event in events for data in split_in_character(event.data))


def _with_silence(events: Sequence[Event], seconds: float) -> tuple[Piece, ...]:
    """Then silence. Before a break it gives what was sent the time to arrive, and the agent to act on it."""
    *before, last = _pieces(events)
    return (*before, Piece(last.data, seconds))


def split_in_character(data: bytes) -> list[bytes]:
    """In two, in the middle of the first character of several bytes; whole where there is none."""
    found = _CHARACTER_BEGINS.search(data)
    return [data[: found.end()], data[found.end() :]] if found else [data]


def _drips(data: bytes, seconds: float) -> tuple[Piece, ...]:
    size = max(1, -(-len(data) // _DRIPS))
    starts = range(0, len(data), size)
    return tuple(Piece(data[start : start + size], seconds / len(starts)) for start in starts)


def _joined(events: Sequence[Event]) -> bytes:
    return b"".join(event.data for event in events)
