# SPDX-License-Identifier: Apache-2.0
"""What a case is and what can become of one. A case knows its target alone: how that is reached or started is not its
affair, nor is what is shown of it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Level = Literal["MUST", "SHOULD"]
Outcome = Literal["passed", "failed", "not-run", "error"]

# Takes the target of its kind; returns where that did what it should, and raises CaseFailed or NotRun otherwise.
Check = Callable[[Any], Awaitable[None]]


class CaseFailed(Exception):
    """The target did not do what the specification wants: what was expected, and what came instead."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}; got {got}")
        self.expected = expected
        self.got = got


class NotRun(Exception):
    """The case cannot be put to this target; the reason says what is missing, in one line."""


@dataclass(frozen=True)
class Case:
    """``number`` is ``group.number``, and stands for this case for ever. ``requirements`` are ids of SPEC.md.

    ``alone``: it disturbs what cases share, so that none runs beside it. ``slow``: it is run only where asked for.
    ``timeout`` replaces the run's own, in seconds.
    """

    kind: str
    number: str
    title: str
    requirements: tuple[str, ...]
    check: Check
    level: Level = "MUST"
    alone: bool = False
    slow: bool = False
    timeout: float | None = None

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number}"

    @property
    def order(self) -> tuple[int, ...]:
        return tuple(map(int, self.number.split(".")))


@dataclass(frozen=True)
class CaseResult:
    """``expected`` and ``got`` of a case that failed; ``reason`` of one that was not run or broke down.

    ``exchange`` is what crossed the wire, escaped, where that helps to understand a failure.
    """

    case: Case
    outcome: Outcome
    seconds: float = 0.0
    expected: str = ""
    got: str = ""
    reason: str = ""
    exchange: tuple[str, ...] = field(default=())
