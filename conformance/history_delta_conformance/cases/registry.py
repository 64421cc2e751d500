# SPDX-License-Identifier: Apache-2.0
"""The published cases of either kind, by number. A number once given is never given to another case.

What no case can show from outside is listed here as well, with the reason.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from .base import Case, Check, Level
from .requirements import REQUIREMENTS

_NUMBER = re.compile(r"[1-9][0-9]*\.[1-9][0-9]*")


class Registry:
    """The cases of one kind, and the titles of the groups that they stand in."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.groups: dict[int, str] = {}
        self._cases: dict[str, Case] = {}

    def __iter__(self) -> Iterator[Case]:
        return iter(sorted(self._cases.values(), key=lambda case: case.order))

    def __len__(self) -> int:
        return len(self._cases)

    def group(self, number: int, title: str) -> None:
        """Name a group of cases. Raises ValueError where the number is taken."""
        if number in self.groups:
            raise ValueError(f"{self.kind} group {number} stands twice")
        self.groups[number] = title

    def case(
        self,
        number: str,
        title: str,
        *requirements: str,
        level: Level = "MUST",
        alone: bool = False,
        slow: bool = False,
        timeout: float | None = None,
    ) -> Callable[[Check], Check]:
        """Decorate a case's function. Raises ValueError for a number that is taken, and for an id that is none."""

        def add(check: Check) -> Check:
            self.add(Case(self.kind, number, title, requirements, check, level, alone, slow, timeout))
            return check

        return add

    def add(self, case: Case) -> None:
        """Raises ValueError as ``case`` does."""
        if not _NUMBER.fullmatch(case.number):
            raise ValueError(f"{case.name}: expected a number such as 3.12")
        if case.number in self._cases:
            raise ValueError(f"{case.name} stands twice")
        if case.order[0] not in self.groups:
            raise ValueError(f"{case.name}: its group has no title")
        unknown = [name for name in case.requirements if name not in REQUIREMENTS]
        if unknown or not case.requirements:
            raise ValueError(f"{case.name}: expected ids of SPEC.md, got {', '.join(unknown) or 'none'}")
        self._cases[case.number] = case

    def select(self, patterns: Sequence[str]) -> list[Case]:
        """Those whose number matches one of the patterns (``3.1``, ``4.*``), all without one.

        Raises ValueError for a pattern that matches none.
        """
        cases = list(self)
        for pattern in patterns:
            if not any(fnmatchcase(case.number, pattern) for case in cases):
                raise ValueError(f"expected the number of a {self.kind} case, such as 3.1 or 4.*, got {pattern!r}")
        return [
            case for case in cases if not patterns or any(fnmatchcase(case.number, pattern) for pattern in patterns)
        ]


SERVER = Registry("server")
SHIM = Registry("shim")

# What nothing outside of an implementation can observe, and why; a test allows no other requirement to lack a case.
UNOBSERVABLE: dict[tuple[str, Level], str] = {
    (
        "S-8",
        "SHOULD",
    ): "a second check inside of a server, which never acts as long as the first does (9.1 to 9.9, 16.3)",
}
