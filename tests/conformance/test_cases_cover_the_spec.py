# SPDX-License-Identifier: Apache-2.0
"""The published cases and SPEC.md, held together: each requirement has a case, and each case's requirements exist."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from history_delta_conformance.cases import load
from history_delta_conformance.cases.registry import SERVER, SHIM, UNOBSERVABLE
from history_delta_conformance.cases.requirements import REQUIREMENTS

SPEC = Path(__file__).parents[2] / "protocol" / "SPEC.md"
_MARK = re.compile(r"\*\*([FCS]-[0-9]+)\*\* ")
_SECTION = re.compile(r"#+ ([0-9]+(?:\.[0-9]+)?)\.? ")
# A new item, heading, table or paragraph ends the text of a requirement.
_ENDS = re.compile(r"- |#|\||\s*$")


class Stated(NamedTuple):
    section: str
    text: str


def stated() -> dict[str, Stated]:
    """Every requirement of SPEC.md: where it stands, and its words."""
    found: dict[str, Stated] = {}
    section, name = "", None
    for line in SPEC.read_text(encoding="utf-8").splitlines():
        if heading := _SECTION.match(line):
            section = heading[1]
        if _ENDS.match(line):
            name = None
        before, *rest = _MARK.split(line)
        if name is not None:
            found[name] = Stated(found[name].section, f"{found[name].text} {before}")
        for name, text in zip(rest[::2], rest[1::2], strict=True):
            assert name not in found, f"{name} stands twice"
            found[name] = Stated(section, text)
    return found


STATED = stated()
load()
CASES = [*SERVER, *SHIM]


def test_every_requirement_that_is_named_anywhere_is_stated_once() -> None:
    text = SPEC.read_text(encoding="utf-8")
    assert len(STATED) > 70
    assert set(_MARK.findall(text)) == set(STATED)


def test_the_table_of_requirements_is_that_of_the_specification() -> None:
    table = {name: (each.section, each.must, each.should) for name, each in REQUIREMENTS.items()}
    assert table == {
        name: (section, re.search(r"\bMUST\b", text) is not None, re.search(r"\bSHOULD\b", text) is not None)
        for name, (section, text) in STATED.items()
    }


@pytest.mark.parametrize("name", STATED)
def test_a_requirement_has_a_case(name: str) -> None:
    levels = {case.level for case in CASES if name in case.requirements}
    wanted = {level for level in ("MUST", "SHOULD") if re.search(rf"\b{level}\b", STATED[name].text)} or {"MUST"}
    assert {level for level in wanted - levels if (name, level) not in UNOBSERVABLE} == set()


def test_what_is_said_to_be_unobservable_has_no_case_and_a_reason() -> None:
    for (name, level), reason in UNOBSERVABLE.items():
        assert name in STATED
        assert re.search(rf"\b{level}\b", STATED[name].text)
        assert not any(case.level == level for case in CASES if name in case.requirements)
        assert len(reason) > 20


def test_a_case_names_requirements_of_its_kind_alone() -> None:
    """C-7 has words for the server, too."""
    ours = {"server": "FS", "shim": "FC"}
    foreign = [(case.name, id) for case in CASES for id in case.requirements if id[0] not in ours[case.kind]]
    assert [found for found in foreign if found != ("server 2.10", "C-7")] == []


def test_both_ends_are_shown_what_binds_both() -> None:
    for kind in (SERVER, SHIM):
        seen = {name for case in kind for name in case.requirements}
        assert {"F-1", "F-2", "F-5", "F-6", "F-7", "F-8", "F-9", "F-10", "F-21", "F-23"} <= seen


@pytest.mark.parametrize("registry", [SERVER, SHIM], ids=lambda registry: registry.kind)
def test_no_group_is_empty(registry) -> None:
    assert set(registry.groups) == {case.order[0] for case in registry}
