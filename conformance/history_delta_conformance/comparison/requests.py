# SPDX-License-Identifier: Apache-2.0
"""What differs between two requests that should be the same, and what kind of fault that is.

A kind has a name, so that a seeded fault can be told by it; the diff is for a person.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from ..report.results import Finding
from .message import kind_of_change
from .pairing import Pairing
from .pieces import Pieces
from .text import diff, preview

ASPECT, CALLS = "requests", "calls"
Pair = tuple[Pieces, Pieces]


def findings(pairing: Pairing) -> Iterator[Finding]:
    """All differences of a run's requests, the number of calls included."""
    swapped = list(_swapped(pairing.different))
    for one, other in swapped:
        yield _swap(one, other)
    exchanged = {pair[0].number for both in swapped for pair in both}
    for off, on in pairing.different:
        if off.number not in exchanged:
            yield from difference(off, on)
    for request in pairing.repeated:
        yield Finding(CALLS, "call-repeated", f"{request.label}: the same request reached the model once more")
    for request in pairing.missing:
        yield Finding(CALLS, "call-missing", f"{request.label}: {request.line} did not reach the model", request.line)
    for request in pairing.added:
        yield Finding(CALLS, "call-added", f"{request.label}: {request.line} reached the model as well", request.line)


def difference(off: Pieces, on: Pieces) -> Iterator[Finding]:
    """What differs between two requests; never nothing if their texts differ."""
    shown = diff(off.text, on.text)
    found = list(dict.fromkeys([*_head(off, on), *_body(off, on)]))
    for name, what in found:
        yield Finding(ASPECT, name, f"{off.label}: {what}", shown)


def _head(off: Pieces, on: Pieces) -> Iterator[tuple[str, str]]:
    if off.line != on.line:
        yield "request-line-changed", f"{off.line} became {on.line}"
    lost = list((Counter(off.headers) - Counter(on.headers)).elements())
    new = list((Counter(on.headers) - Counter(off.headers)).elements())
    for header in lost:
        counterpart = next((other for other in new if _name(other) == _name(header)), None)
        if counterpart is None:
            yield "header-missing", f"the header {preview(header)} is missing"
        else:
            new.remove(counterpart)
            yield "header-changed", f"the header {preview(header)} became {preview(counterpart)}"
    for header in new:
        yield "header-added", f"the header {preview(header)} was added"
    if Counter(off.headers) == Counter(on.headers) and off.headers != on.headers:
        yield "headers-reordered", "the headers are in another order"


def _name(header: str) -> str:
    return header.partition(":")[0].lower()


def _body(off: Pieces, on: Pieces) -> Iterator[tuple[str, str]]:
    if off.body == on.body:
        return
    if off.parts is None or on.parts is None:
        yield "body-changed", "the body is another, and no model call's that can be taken apart"
        return
    found = [*_envelope(off.parts.members, on.parts.members), *_history(off.parts.messages, on.parts.messages)]
    yield from found or [("body-re-serialised", "the body is the same JSON in another text")]


def _envelope(off: frozenset[str], on: frozenset[str]) -> Iterator[tuple[str, str]]:
    lost, new = ("{" + ",".join(sorted(members)) + "}" for members in (off - on, on - off))
    if lost != new:
        name = kind_of_change(lost, new, "envelope-changed")
        yield name, f"outside the history, {preview(lost)} became {preview(new)}"


def _history(off: Sequence[str], on: Sequence[str]) -> Iterator[tuple[str, str]]:
    if off != on and Counter(off) == Counter(on):
        yield "messages-reordered", "the messages are in another order"
        return
    for kind, start, end, other_start, other_end in SequenceMatcher(None, off, on, autojunk=False).get_opcodes():
        if kind != "equal":
            yield from _changed(off, on, range(start, end), range(other_start, other_end))


def _changed(off: Sequence[str], on: Sequence[str], old: range, new: range) -> Iterator[tuple[str, str]]:
    for place, other in zip(old, new, strict=False):
        name = kind_of_change(off[place], on[other], "message-changed")
        yield name, f"message {place + 1} of {len(off)} became {preview(on[other])}"
    for place in old[len(new) :]:
        yield "message-missing", f"message {place + 1} of {len(off)} is missing: {preview(off[place])}"
    for place in new[len(old) :]:
        yield "message-added", f"message {place + 1} of {len(on)} was added: {preview(on[place])}"


def _swapped(different: Sequence[Pair]) -> Iterator[tuple[Pair, Pair]]:
    """Pairs of which each got what the other lost."""
    waiting: dict[tuple[frozenset[tuple[str, int]], ...], list[Pair]] = {}
    for off, on in different:
        lost, new = (frozenset(count.items()) for count in (off.count - on.count, on.count - off.count))
        if lost and (counterparts := waiting.get((new, lost))):
            yield counterparts.pop(0), (off, on)
        else:
            waiting.setdefault((lost, new), []).append((off, on))


def _swap(one: Pair, other: Pair) -> Finding:
    labels = f"{one[0].label} and {other[0].label}"
    return Finding(
        ASPECT, "conversations-swapped", f"{labels} got what belongs to each other", diff(one[0].text, one[1].text)
    )
