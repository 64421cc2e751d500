# SPDX-License-Identifier: Apache-2.0
"""Which request of one run is the counterpart of which of the other.

Concurrent conversations arrive in any order, so the order of arrival counts only within what the model labels the same.
A fault can change the label itself: what is left over is paired by what it has in common.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .evidence import ModelRequest
from .pieces import Pieces, split_label

_ENOUGH_IN_COMMON = 0.5


@dataclass(frozen=True)
class Pairing:
    """``same`` are equal pairs, ``different`` the others; a ``repeated`` one of the second run equals one that has a
    counterpart."""

    same: list[tuple[Pieces, Pieces]]
    different: list[tuple[Pieces, Pieces]]
    missing: list[Pieces]
    added: list[Pieces]
    repeated: list[Pieces]


def pair(off: Sequence[Pieces], on: Sequence[Pieces]) -> Pairing:
    same, off_left, on_left = _pair_equal(off, on)
    known = {request.text for _, request in same}
    repeated = [request for request in on_left if request.text in known]
    on_left = [request for request in on_left if request.text not in known]
    different, off_left, on_left = _pair_by_label(off_left, on_left)
    more, off_left, on_left = _pair_by_content(off_left, on_left)
    return Pairing(same, sorted(different + more, key=lambda pair: pair[0].number), off_left, on_left, repeated)


def _pair_equal(
    off: Iterable[Pieces], on: Sequence[Pieces]
) -> tuple[list[tuple[Pieces, Pieces]], list[Pieces], list[Pieces]]:
    by_text: dict[tuple[str, str], list[Pieces]] = defaultdict(list)
    for request in reversed(on):
        by_text[request.label, request.text].append(request)
    same, off_left = [], []
    for request in off:
        if equals := by_text[request.label, request.text]:
            same.append((request, equals.pop()))
        else:
            off_left.append(request)
    taken = {other.number for _, other in same}
    return same, off_left, [request for request in on if request.number not in taken]


def _pair_by_label(
    off: list[Pieces], on: list[Pieces]
) -> tuple[list[tuple[Pieces, Pieces]], list[Pieces], list[Pieces]]:
    """In order, where as many are left on both sides; else the label says too little."""
    off_count, on_count = (Counter(request.label for request in requests) for requests in (off, on))
    paired = {label for label in off_count if off_count[label] == on_count[label]}
    pairs = [
        pair
        for label in paired
        for pair in zip(
            [request for request in off if request.label == label],
            [request for request in on if request.label == label],
            strict=True,
        )
    ]
    off_left, on_left = ([each for each in requests if each.label not in paired] for requests in (off, on))
    return pairs, off_left, on_left


def _pair_by_content(
    off: list[Pieces], on: list[Pieces]
) -> tuple[list[tuple[Pieces, Pieces]], list[Pieces], list[Pieces]]:
    """The most alike first."""
    alike = ((_likeness(one, other), one, other) for one in off for other in on)
    pairs: list[tuple[Pieces, Pieces]] = []
    off_left, on_left = {each.number: each for each in off}, {each.number: each for each in on}
    for likeness, one, other in sorted(alike, key=lambda found: (-found[0], found[1].number, found[2].number)):
        if likeness >= _ENOUGH_IN_COMMON and one.number in off_left and other.number in on_left:
            pairs.append((off_left.pop(one.number), on_left.pop(other.number)))
    return pairs, list(off_left.values()), list(on_left.values())


def _likeness(one: Pieces, other: Pieces) -> float:
    """What part of their pieces they share; more for the same conversation."""
    shared = (one.count & other.count).total() / max((one.count | other.count).total(), 1)
    return shared + (split_label(one.label)[0] == split_label(other.label)[0]) / 100


def in_order(requests: Sequence[ModelRequest], masked: Callable[[ModelRequest], str]) -> list[ModelRequest]:
    """An order that does not depend on how concurrent conversations came to arrive.

    The main conversation, which is the first to come, goes first, since it names what its sub-agents are; then the
    others by name. Of the same label the order is that of the content without generated ids, then of arrival.
    """
    conversations = [split_label(request.label) for request in requests]
    main = next((name for name, step in conversations if step), None)
    several = {label for label, count in Counter(request.label for request in requests).items() if count > 1}

    def place(request: ModelRequest) -> tuple[bool, bool, str, int, str]:
        name, step = split_label(request.label)
        return name != main, not step, name, step, masked(request) if request.label in several else ""

    return sorted(requests, key=place)
