# SPDX-License-Identifier: Apache-2.0
"""What became of the calls that the agent made: how many there were, what they were answered and whether to the end.

Of the answers themselves only the sizes are compared: what an agent made of them shows in all that it did.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from ..report.results import Finding
from .evidence import Attempt

ASPECT = "attempts"


def findings(off: Sequence[Attempt], on: Sequence[Attempt]) -> Iterator[Finding]:
    """Attempts of the same label are compared with each other, those that are equal first."""
    for label in dict.fromkeys(attempt.label for attempt in [*off, *on]):
        old, new = ([attempt for attempt in attempts if attempt.label == label] for attempts in (off, on))
        ends = [Counter(replace(attempt, size=None) for attempt in attempts) for attempts in (old, new)]
        lost, more = list((ends[0] - ends[1]).elements()), list((ends[1] - ends[0]).elements())
        for one, other in zip_longest(lost, more):
            yield _finding(label, one, other)
        if not lost and not more:
            yield from _sizes(label, old, new)


def _sizes(label: str, off: Sequence[Attempt], on: Sequence[Attempt]) -> Iterator[Finding]:
    """In no order, as some may be at the same time; and not where one answer of them was not seen whole."""
    old, new = (sorted(attempt.size for attempt in seen if attempt.size is not None) for seen in (off, on))
    if len(old) == len(new) == len(off) and old != new:
        told = [", ".join(map(str, sizes)) for sizes in (old, new)]
        shown = f"-{told[0]}\n+{told[1]}"
        yield Finding(ASPECT, "answer-changed", f"{label}: answers of {told[0]} bytes, now {told[1]}", shown)


def _finding(label: str, off: Attempt | None, on: Attempt | None) -> Finding:
    name = _name(off, on)
    shown = f"-{_told(off)}\n+{_told(on)}"
    return Finding(ASPECT, name, f"{label}: {_told(off)} with the transport off, {_told(on)} with it on", shown)


def _name(off: Attempt | None, on: Attempt | None) -> str:
    if on is None:
        return "attempt-missing"
    if off is None:
        return "attempt-added"
    if off.status != on.status:
        return "status-changed"
    return "cut-ended" if on.complete else "end-cut"


def _told(attempt: Attempt | None) -> str:
    if attempt is None:
        return "no attempt"
    if attempt.status is None:
        return "no response"
    return f"{attempt.status}, {'complete' if attempt.complete else 'cut'}"
