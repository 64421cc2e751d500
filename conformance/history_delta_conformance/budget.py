# SPDX-License-Identifier: Apache-2.0
"""How many bytes a call may cost: the first body, and after that what was appended or rewritten.

Computed from the bodies alone, with the standard library's JSON decoder, so that it shares no code with what it judges.
A message or a member of the envelope counts as new unless an earlier body, answered by then, holds the same bytes.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from history_delta_protocol.dialect import dialect_of

from .observer import Exchange

SLACK_RATIO = 1.03
SLACK_BYTES_PER_CALL = 400

_DECODER = json.JSONDecoder(strict=False)
_BLANK = " \t\r\n"


@dataclass(frozen=True)
class Parts:
    """A body as its envelope's members and its history's messages, each as raw text."""

    members: frozenset[str]
    messages: tuple[str, ...]


def allowed(budget: int, calls: int) -> float:
    """The uplink that a run may have."""
    return budget * SLACK_RATIO + calls * SLACK_BYTES_PER_CALL


def budgets(calls: Sequence[Exchange]) -> list[int]:
    """For each call, in order, the bytes of its body that no earlier answered call had."""
    parts = [parts_of(call.target, call.body) for call in calls]
    return [_budget(calls, parts, number) for number in range(len(calls))]


def _budget(calls: Sequence[Exchange], parts: Sequence[Parts | None], number: int) -> int:
    call, new = calls[number], parts[number]
    cheapest = len(call.body)
    if new is None:
        return cheapest
    for earlier, old in zip(calls[:number], parts[:number], strict=True):
        # What is still in flight is nothing to build on.
        if old is not None and earlier.answered is not None and earlier.answered <= call.started:
            cheapest = min(cheapest, _new_bytes(new, old))
    return cheapest


def _new_bytes(new: Parts, old: Parts) -> int:
    members = sum(_size(member) for member in new.members - old.members)
    messages = Counter(new.messages) - Counter(old.messages)
    return members + sum(_size(message) * count for message, count in messages.items())


def parts_of(target: str, body: bytes) -> Parts | None:
    """None for what is no model call with a JSON object."""
    dialect = dialect_of(target)
    if dialect is None:
        return None
    try:
        return _split(body.decode(), dialect.history_key)
    except (ValueError, IndexError):
        return None


def _split(text: str, history_key: str) -> Parts:
    members: list[str] = []
    messages: list[str] = []
    position = _after(text, 0, "{")
    while text[position] != "}":
        start = position
        key, position = _DECODER.raw_decode(text, position)
        value = _after(text, position, ":")
        if key == history_key and text[value] == "[":
            messages, position = _elements(text, value)
        else:
            _, position = _DECODER.raw_decode(text, value)
            members.append(text[start:position])
        position = _skip(text, position, _BLANK + ",")
    if _skip(text + "\0", position + 1, _BLANK) != len(text):
        raise ValueError("more after the object")
    return Parts(frozenset(members), tuple(messages))


def _elements(text: str, position: int) -> tuple[list[str], int]:
    elements = []
    position = _after(text, position, "[")
    while text[position] != "]":
        start = position
        _, position = _DECODER.raw_decode(text, position)
        elements.append(text[start:position])
        position = _skip(text, position, _BLANK + ",")
    return elements, position + 1


def _after(text: str, position: int, mark: str) -> int:
    position = _skip(text, position, _BLANK)
    if text[position] != mark:
        raise ValueError(f"expected {mark} at {position}")
    return _skip(text, position + 1, _BLANK)


def _skip(text: str, position: int, characters: str) -> int:
    while text[position] in characters:
        position += 1
    return position


def _size(text: str) -> int:
    return len(text.encode())
