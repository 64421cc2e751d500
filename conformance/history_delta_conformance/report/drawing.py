# SPDX-License-Identifier: Apache-2.0
"""Draws a run's board for a terminal: the grid, the cells that run, progress and time. It keeps no state."""

from collections.abc import Iterable
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.text import Text

from .board import Board, Phase
from .layout import Layout, layout_for
from .results import Verdict
from .text import duration, one_line

_STYLES: dict[Verdict, str] = {
    "passed": "green",
    "failed": "bold red",
    "not-run": "bold yellow",
    "not-applicable": "dim",
}
_FRAMES_A_SECOND = 8
_RUNNING_SHOWN = 3
_GAP = "  "
_TIGHT = " "
_BAR = 16


@dataclass(frozen=True)
class Marks:
    """What an output can show. ``spinner`` and ``bar`` are one character each a frame or a state."""

    of: dict[Verdict, str]
    spinner: str
    bar: str
    arrow: str
    waiting: str


_MARKS = Marks({"passed": "✓", "failed": "✗", "not-run": "!", "not-applicable": "-"}, "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "━─", "→", "·")
_ASCII = Marks({"passed": "+", "failed": "X", "not-run": "!", "not-applicable": "-"}, "|/-\\", "#.", "->", ".")


def marks_for(encoding: str | None) -> Marks:
    try:
        (_MARKS.of["passed"] + _MARKS.of["failed"] + _MARKS.spinner + _MARKS.bar + _MARKS.arrow).encode(
            encoding or "ascii"
        )
    except (UnicodeEncodeError, LookupError):
        return _ASCII
    return _MARKS


def draw(board: Board, marks: Marks, width: int, height: int, now: float) -> RenderableType:
    """Everything, in no more than ``height`` lines."""
    layout = layout_for(board.rows, board.scenarios, width, height)
    frame = marks.spinner[int(now * _FRAMES_A_SECOND) % len(marks.spinner)]
    grid = _grid(board, layout, marks, frame) if layout else []
    lines = [*grid, *_running(board.running, frame), _progress(board, marks)]
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return Group(*lines[-height:])


def _grid(board: Board, layout: Layout, marks: Marks, frame: str) -> list[Text]:
    gap = _GAP if max(map(len, layout.heads[0]), default=0) > 1 else _TIGHT
    first = max(map(len, layout.lines), default=0)
    widths = [max(map(len, head)) for head in layout.heads]
    lines = [
        Text(" " * first + "".join(gap + part.ljust(width) for part, width in zip(parts, widths, strict=True)), "bold")
        for parts in zip(*layout.heads, strict=True)
    ]
    for line in layout.lines:
        text = Text(line.ljust(first))
        for column, width in zip(layout.columns, widths, strict=True):
            scenario, row = (line, column) if layout.by_scenario else (column, line)
            mark, style = _mark(board, f"{scenario}/{row}", marks, frame)
            text.append(gap).append(mark, style).append(" " * (width - 1))
        lines.append(text)
    return lines + [Text(line, "dim") for line in layout.legend]


def _mark(board: Board, name: str, marks: Marks, frame: str) -> tuple[str, str]:
    if name in board.running:
        return frame, "cyan"
    cell = board.ended.get(name)
    return (marks.of[cell.verdict], _STYLES[cell.verdict]) if cell else (marks.waiting, "dim")


def _running(running: dict[str, Phase], frame: str) -> Iterable[Text]:
    cells = list(running.items())
    for name, phase in cells[:_RUNNING_SHOWN]:
        doing = "comparing" if phase == "compare" else f"transport {phase}"
        yield Text(f"{frame} {one_line(name)}: {doing}", "cyan")
    if len(cells) > _RUNNING_SHOWN:
        yield Text(f"  and {len(cells) - _RUNNING_SHOWN} more", "cyan")


def _progress(board: Board, marks: Marks) -> Text:
    done, total = board.done, board.total
    full = round(_BAR * done / total) if total else 0
    bar = marks.bar[0] * full + marks.bar[1] * (_BAR - full)
    failed, left_out = board.count("failed"), board.count("not-run")
    text = Text(f"{bar} {done}/{total}")
    if failed:
        text.append(f"  {failed} failed", _STYLES["failed"])
    if left_out:
        text.append(f"  {left_out} not run", _STYLES["not-run"])
    text.append(f"  {duration(board.elapsed)}")
    if board.remaining is not None and done < total:
        text.append(f", {duration(board.remaining)} left", "dim")
    return text
