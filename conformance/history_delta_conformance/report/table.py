# SPDX-License-Identifier: Apache-2.0
"""What a conformance run shows while it runs: a live grid of agents and scenarios in a terminal, a line per finished
cell elsewhere, and at its end what failed, what was not run and where the report is."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console, RenderableType
from rich.live import Live

from . import figures
from .board import Board, Phase
from .drawing import Marks, draw, marks_for
from .results import Cell, Report
from .text import counted, duration, exact, one_line, size, visible


def view_for(stream: TextIO) -> "View":
    """The view that suits the stream: plain lines unless it is a terminal that can draw."""
    marks = marks_for(stream.encoding)
    plain = any(os.environ.get(name) for name in ("NO_COLOR", "CI")) or os.environ.get("TERM") == "dumb"
    if plain or not stream.isatty():
        return PlainView(stream, marks)
    return LiveView(Console(file=stream, highlight=False), marks)


class View(ABC):
    """What a run tells as it goes. Cells are named as ``Cell.name`` does."""

    def __init__(self, marks: Marks, board: Board | None = None) -> None:
        self.board = board or Board()
        self._marks = marks

    def planned(self, rows: Sequence[str], scenarios: Sequence[str], total: int) -> None:
        """What will be run: heads and names as in the cells, and the number of cells that apply."""
        self.board.planned(rows, scenarios, total)

    def started(self, cell_name: str, phase: Phase) -> None:
        self.board.started(cell_name, phase)

    def finished(self, cell: Cell) -> None:
        self.board.finished(cell)

    @abstractmethod
    def note(self, text: str) -> None: ...

    @abstractmethod
    def close(self, report: Report | None = None, folder: Path | None = None) -> None:
        """The end; without a report when the run broke off."""

    def line_of(self, cell: Cell) -> str:
        """A finished cell on one line."""
        done = f"[{self.board.done:>{len(str(self.board.total))}}/{self.board.total}]"
        mark = self._marks.of[cell.verdict]
        head = f"{done} {mark} {figures.label_of(cell):<7} {one_line(cell.scenario)}, {one_line(cell.row)}"
        if cell.verdict != "passed":
            return f"{head}: {figures.why(cell)}"
        sums = figures.volume([cell])
        return (
            f"{head}: {exact(cell.equal)} of {counted(cell.requests, 'request')} equal,"
            f" {size(sums.off)} {self._marks.arrow} {size(sums.on)} ({sums.ratio}), {duration(cell.on_seconds)}"
        )

    def summary(self, report: Report, folder: Path | None) -> list[str]:
        """The last lines: what failed with its first finding, what was not run and why, the verdict, the report."""
        told = [
            f"{self._marks.of[cell.verdict]} {figures.VERDICT_TEXT[cell.verdict]}: {one_line(cell.scenario)},"
            f" {one_line(cell.row)}: {_reasons(cell)}"
            for verdict in ("failed", "not-run")
            for cell in report.cells
            if cell.verdict == verdict
        ]
        place = [] if folder is None else [f"Report: {folder / 'report.html'} (and report.md, report.json, junit.xml)"]
        return [*told, figures.verdict(report), *place]


class PlainView(View):
    """A line per finished cell."""

    def __init__(self, stream: TextIO, marks: Marks) -> None:
        super().__init__(marks)
        self._stream = stream

    def planned(self, rows: Sequence[str], scenarios: Sequence[str], total: int) -> None:
        super().planned(rows, scenarios, total)
        self.note(f"{counted(len(rows), 'agent row')}, {counted(len(scenarios), 'scenario')}: {counted(total, 'cell')}")

    def finished(self, cell: Cell) -> None:
        super().finished(cell)
        if cell.verdict != "not-applicable":
            self.note(self.line_of(cell))

    def close(self, report: Report | None = None, folder: Path | None = None) -> None:
        for line in self.summary(figures.ordered(report), folder) if report else []:
            self.note(line)

    def note(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        shown = visible(text).encode(encoding, "backslashreplace").decode(encoding)
        print(shown, file=self._stream, flush=True)


class LiveView(View):
    """The grid, redrawn some times a second; notes and failed cells scroll by above it."""

    def __init__(self, console: Console, marks: Marks) -> None:
        super().__init__(marks)
        self._console = console
        self._live = Live(console=console, get_renderable=self._draw, refresh_per_second=8)

    def planned(self, rows: Sequence[str], scenarios: Sequence[str], total: int) -> None:
        super().planned(rows, scenarios, total)
        self._live.start()

    def finished(self, cell: Cell) -> None:
        super().finished(cell)
        if cell.verdict in ("failed", "not-run"):
            self.note(self.line_of(cell))

    def note(self, text: str) -> None:
        self._console.print(visible(text), markup=False, style="dim", soft_wrap=True)

    def close(self, report: Report | None = None, folder: Path | None = None) -> None:
        self._live.stop()
        for line in self.summary(figures.ordered(report), folder) if report else []:
            self._console.print(line, markup=False, soft_wrap=True)

    def _draw(self) -> RenderableType:
        return draw(self.board, self._marks, self._console.width, self._console.height, time.monotonic())


def _reasons(cell: Cell) -> str:
    """The reason, and the first finding where the reason does not tell it already."""
    first = cell.findings[0] if cell.findings else None
    reason = figures.why(cell)
    if first is None or not cell.reason or one_line(first.summary) in reason:
        return reason
    return f"{reason}; first {one_line(first.name)}: {one_line(first.summary)}"
