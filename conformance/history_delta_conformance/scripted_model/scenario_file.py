# SPDX-License-Identifier: Apache-2.0
"""Reads scenarios from TOML files, and says of a faulty one in which file and line what was expected in place of what.

A file may build on another (``extends``): what it does not set itself it has from there, all but the name.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from .scenario import Scenario
from .scenario_checks import Mistake, mistakes_in, type_mistake
from .toml_lines import Place, line_of, lines_of

SCENARIOS = Path(__file__).parent.parent / "scenarios"


class ScenarioError(ValueError):
    """A scenario that is not there or not valid; the message is ``FILE:LINE: field: expected …, found …``."""


def scenario_names() -> list[str]:
    """The scenarios that come with the package."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def load_scenario(name_or_file: str | Path) -> Scenario:
    """Read a scenario by its name in the package or from a file. Raises ScenarioError."""
    path = SCENARIOS / f"{name_or_file}.toml"
    if not path.is_file():
        path = Path(name_or_file)
    if not path.is_file():
        raise ScenarioError(
            f"no scenario {str(name_or_file)!r}: give a TOML file or one of {', '.join(scenario_names())}"
        )
    source = _Source.read(path)
    scenario = _typed(source)
    for mistake in _mistakes(source, scenario):
        raise source.error(mistake)
    return scenario


@dataclass(frozen=True)
class _Source:
    """What stands in a file, and in the files that it builds on: ``owners`` says which fields come from another."""

    path: Path
    lines: Mapping[Place, int]
    values: Mapping[str, Any]
    owners: Mapping[str, Self] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, building: tuple[Path, ...] = ()) -> Self:
        text = _text(path)
        try:
            values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ScenarioError(_syntax_error(path, text, str(error))) from error
        values.setdefault("name", path.stem)
        own = cls(path, lines_of(text), values)
        return own._extended((*building, path.resolve())) if "extends" in values else own

    def _extended(self, building: tuple[Path, ...]) -> Self:
        base = self.neighbour("extends")
        if base.resolve() in building:
            chain = " → ".join(path.stem for path in (*building, base))
            raise self.error(Mistake(("extends",), "a scenario that does not build on this one", chain))
        origin = self.read(base, building)
        own = {name: value for name, value in self.values.items() if name != "extends"}
        inherited = {name: origin.owners.get(name, origin) for name in origin.values if name not in own}
        return type(self)(self.path, self.lines, {**origin.values, **own}, inherited)

    def neighbour(self, name: str) -> Path:
        """The file of the scenario that a field names: one in the same folder, or else one of the package's."""
        wanted = self.values[name]
        if isinstance(wanted, str):
            for path in (self.path.parent / f"{wanted}.toml", SCENARIOS / f"{wanted}.toml"):
                if path.is_file():
                    return path
        raise self.error(Mistake((name,), "the name of a scenario beside this one or in the package", repr(wanted)))

    def error(self, mistake: Mistake) -> ScenarioError:
        top = mistake.place[0] if mistake.place else None
        owner = self.owners.get(str(top), self)
        line = line_of(dict(owner.lines), mistake.place)
        return ScenarioError(f"{owner.path}:{line}: {mistake}")


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        return data.decode()
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(f"{path}:{line}: expected UTF-8, found byte 0x{data[error.start]:02x}") from error


def _typed(source: _Source) -> Scenario:
    try:
        return msgspec.convert(dict(source.values), Scenario)
    except msgspec.ValidationError as error:
        raise source.error(type_mistake(str(error), source.values)) from error


def _mistakes(source: _Source, scenario: Scenario) -> Iterator[Mistake]:
    yield from mistakes_in(scenario)
    if scenario.same_off_as:
        other = _typed(_Source.read(source.neighbour("same_off_as")))
        differing = [name for name in _SAME if getattr(other, name) != getattr(scenario, name)]
        if differing or other.same_off_as:
            expected = f"a scenario that is the same in {', '.join(_SAME)} and is run with the transport off itself"
            found = f"{other.name!r}, which differs in {', '.join(differing) or 'that'}"
            yield Mistake(("same_off_as",), expected, found)


# What agent and model see of a scenario.
_SAME = ("prompt", "follow_ups", "window", "title", "summary", "turns", "conversations", "faults")


def _syntax_error(path: Path, text: str, message: str) -> str:
    """The parser's message ends in ``(at line 3, column 5)`` or ``(at end of document)``."""
    what, _, where = message.rpartition(" (at ")
    line, _, column = where.rstrip(")").removeprefix("line ").partition(", ")
    if not line.isdigit():
        line, column = str(len(text.splitlines())), "the end of the document"
    return f"{path}:{line}: expected TOML, found at {column}: {what}"
