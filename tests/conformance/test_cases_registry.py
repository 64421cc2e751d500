# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_conformance.cases.registry import Registry


async def check(target: object) -> None:
    return None


@pytest.fixture
def registry() -> Registry:
    made = Registry("server")
    made.group(1, "one")
    made.group(10, "ten")
    for number in ("10.1", "1.10", "1.2"):
        made.case(number, f"title of {number}", "S-1", "F-1")(check)
    return made


def test_cases_stand_in_the_order_of_their_numbers(registry: Registry) -> None:
    assert [case.number for case in registry] == ["1.2", "1.10", "10.1"]
    assert len(registry) == 3
    first = next(iter(registry))
    assert (first.name, first.title, first.requirements, first.level) == (
        "server 1.2",
        "title of 1.2",
        ("S-1", "F-1"),
        "MUST",
    )


def test_a_decorated_function_is_left_as_it_is(registry: Registry) -> None:
    assert registry.case("1.3", "title", "S-1")(check) is check


@pytest.mark.parametrize(
    ("number", "requirements", "words"),
    [
        ("1.2", ["S-1"], "server 1.2 stands twice"),
        ("1.02", ["S-1"], "expected a number such as 3.12"),
        ("1", ["S-1"], "expected a number such as 3.12"),
        ("x.1", ["S-1"], "expected a number such as 3.12"),
        ("2.1", ["S-1"], "its group has no title"),
        ("1.3", ["S-1", "S-99"], "expected ids of SPEC.md, got S-99"),
        ("1.3", [], "expected ids of SPEC.md, got none"),
    ],
)
def test_a_case_that_cannot_be_is_refused(registry: Registry, number, requirements, words) -> None:
    with pytest.raises(ValueError, match=words):
        registry.case(number, "title", *requirements)(check)
    assert len(registry) == 3


def test_a_group_is_named_once(registry: Registry) -> None:
    with pytest.raises(ValueError, match="server group 1 stands twice"):
        registry.group(1, "again")


@pytest.mark.parametrize(
    ("patterns", "numbers"),
    [
        ([], ["1.2", "1.10", "10.1"]),
        (["1.*"], ["1.2", "1.10"]),
        (["10.1", "1.2"], ["1.2", "10.1"]),
        (["*"], ["1.2", "1.10", "10.1"]),
    ],
)
def test_cases_are_chosen_by_number(registry: Registry, patterns, numbers) -> None:
    assert [case.number for case in registry.select(patterns)] == numbers


@pytest.mark.parametrize("pattern", ["1.1", "2.*", "", "S-1"])
def test_a_choice_that_fits_nothing_is_a_mistake(registry: Registry, pattern: str) -> None:
    with pytest.raises(ValueError, match=r"such as 3\.1 or 4\.\*"):
        registry.select(["1.2", pattern])
