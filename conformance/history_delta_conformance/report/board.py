# SPDX-License-Identifier: Apache-2.0
"""Where a conformance run stands: which cells are running, which ended how, and for how long it will go on.

It holds and computes; ``table`` shows it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal

from .results import Cell, Verdict
from .text import one_line

Phase = Literal["off", "on", "compare"]


class Board:
    """``total`` is the number of cells that are to be run; those that do not apply are not among them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self.rows: tuple[str, ...] = ()
        self.scenarios: tuple[str, ...] = ()
        self.total = 0
        self.running: dict[str, Phase] = {}
        self.ended: dict[str, Cell] = {}

    def planned(self, rows: Sequence[str], scenarios: Sequence[str], total: int) -> None:
        self.rows, self.scenarios = tuple(map(one_line, rows)), tuple(map(one_line, scenarios))
        self.total = total
        self._began = self._clock()

    def started(self, cell_name: str, phase: Phase) -> None:
        # A new dict each time: the thread that draws the table goes over the old one.
        self.running = {**self.running, cell_name: phase}

    def finished(self, cell: Cell) -> None:
        self.running = {name: phase for name, phase in self.running.items() if name != cell.name}
        self.ended = {**self.ended, cell.name: cell}

    @property
    def done(self) -> int:
        return len(self.ended) - self.count("not-applicable")

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    @property
    def remaining(self) -> float | None:
        """Seconds that the rest will take if it goes on as so far; None while nothing is known. Cells that were not
        run took no time, and say nothing about the others."""
        ran = self.count("passed") + self.count("failed")
        return self.elapsed / ran * max(0, self.total - self.done) if ran else None

    def count(self, verdict: Verdict) -> int:
        return sum(cell.verdict == verdict for cell in self.ended.values())
