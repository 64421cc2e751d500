# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with a scenario: told from msgspec's errors, and what no type says, from the scenario itself."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import msgspec

from .scenario import Call, Conversation, Disturbance, ExpectedFile, Fault, Scenario, Turn
from .toml_lines import Place

_NOTHING = "nothing"
# Faults that act at a place in the answer, which must be there.
_PLACED = ("cut", "reset", "short-length", "stall")

_STRUCTS: dict[str, type[msgspec.Struct]] = {
    "": Scenario,
    "turns": Turn,
    "conversations": Conversation,
    "conversations.turns": Turn,
    "faults": Fault,
    "disturbances": Disturbance,
    "files": ExpectedFile,
}
_CALLS = {str(call.__struct_config__.tag): call for call in get_args(Call)}


class Mistake(NamedTuple):
    """What is wrong at a place in a scenario file."""

    place: Place
    expected: str
    found: str

    def __str__(self) -> str:
        where = f"{named(self.place)}: " if self.place else ""
        return f"{where}expected {self.expected}, found {self.found}"


def named(place: Place) -> str:
    """``turns[3].calls[0].tool``"""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).removeprefix(".")


def type_mistake(message: str, values: Mapping[str, Any]) -> Mistake:
    """What msgspec's message says, such as ``Expected `str`, got `int` - at `$.turns[0].text```."""
    what, _, at = message.partition(" - at `$")
    place = _place(at.rstrip("`"))
    if missing := re.search(r"missing required field `(.+)`", what):
        return Mistake((*place, missing[1]), "this field", _NOTHING)
    if unknown := re.search(r"unknown field `(.+)`", what):
        return Mistake((*place, unknown[1]), f"one of {', '.join(_fields(place, values))}", "this field")
    found = _shown(_value(place, values))
    if what.startswith("Invalid"):
        return Mistake(place, f"one of {', '.join(_choices(place))}", found)
    return Mistake(place, what.removeprefix("Expected ").partition(", got")[0].replace("`", ""), found)


def mistakes_in(scenario: Scenario) -> Iterator[Mistake]:
    """What no type says."""
    turns: dict[str, Sequence[Turn]] = {"": scenario.turns}
    for number, conversation in enumerate(scenario.conversations):
        if conversation.name in {*turns, scenario.name, scenario.marker}:
            place: Place = ("conversations", number, "name")
            yield Mistake(place, "a name that no other conversation has", repr(conversation.name))
        turns[conversation.name] = conversation.turns
    for number, fault in enumerate(scenario.faults):
        yield from _in_fault(("faults", number), fault, turns)
    for number, disturbance in enumerate(scenario.disturbances):
        yield from _in_step(("disturbances", number), disturbance.step, scenario.turns)


def _in_fault(place: Place, fault: Fault, turns: Mapping[str, Sequence[Turn]]) -> Iterator[Mistake]:
    if fault.conversation not in turns:
        names = ", ".join(name for name in turns if name) or "none at all, as there are no other conversations"
        yield Mistake((*place, "conversation"), f"one of {names}", repr(fault.conversation))
        return
    of_conversation = turns[fault.conversation]
    yield from _in_step(place, fault.step, of_conversation)
    in_range = fault.step <= len(of_conversation)
    if in_range and fault.after == "tool-call" and fault.kind in _PLACED and not of_conversation[fault.step - 1].calls:
        yield Mistake((*place, "after"), f"a place that step {fault.step} has", "'tool-call', but it calls no tool")


def _in_step(place: Place, step: int, turns: Sequence[Turn]) -> Iterator[Mistake]:
    if step > len(turns):
        yield Mistake((*place, "step"), f"a step from 1 to {len(turns)}", str(step))


def _place(path: str) -> Place:
    found = re.findall(r"\.([^.\[]+)|\[(\d+)\]", path)
    return tuple(name or int(number) for name, number in found)


def _value(place: Place, values: Any) -> Any:
    for part in place:
        values = values[part]
    return values


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


def _without_numbers(place: Place) -> str:
    return ".".join(part for part in place if isinstance(part, str))


def _fields(place: Place, values: Mapping[str, Any]) -> list[str]:
    if place[-2:-1] == ("calls",):
        tool = _value((*place, "tool"), values)
        return ["tool", *_CALLS[tool].__struct_fields__]
    fields = list(_STRUCTS[_without_numbers(place)].__struct_fields__)
    return fields if place else [*fields, "extends"]


def _choices(place: Place) -> list[str]:
    """The values of a field that has a fixed set of them."""
    *outer, name = [part for part in place if isinstance(part, str)]
    if name == "tool":
        return list(_CALLS)
    hint = next(kind.type for kind in msgspec.structs.fields(_STRUCTS[".".join(outer)]) if kind.name == name)
    arguments = get_args(hint)
    # A tuple of choices, or the choices.
    return [str(choice) for choice in (get_args(arguments[0]) or arguments)]
