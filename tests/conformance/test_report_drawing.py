# SPDX-License-Identifier: Apache-2.0
import io

import pytest
from history_delta_conformance.report import figures
from history_delta_conformance.report.board import Board
from history_delta_conformance.report.drawing import draw, marks_for
from rich.console import Console
from support.sample_report import HOSTILE, cell, sample_report

UTF8, ASCII = marks_for("utf-8"), marks_for("ascii")


def board_of_sample() -> Board:
    made = sample_report()
    board = Board()
    board.planned(figures.rows(made), figures.scenarios(made), 149)
    for done in made.cells[:100]:
        board.finished(done)
    for running in made.cells[100:105]:
        board.started(running.name, "on")
    return board


def lines_of(board: Board, width: int = 80, height: int = 24, now: float = 0.0, marks: object = UTF8) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(draw(board, marks, width, height, now))  # type: ignore[arg-type]
    return captured.get().splitlines()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200, 400])
@pytest.mark.parametrize("height", [4, 10, 16, 24, 40, 60])
def test_it_never_needs_more_than_the_terminal_has(width: int, height: int) -> None:
    lines = lines_of(board_of_sample(), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_80_by_24_shows_every_cell_its_mark_and_who_runs() -> None:
    lines = lines_of(board_of_sample())
    grid = {line[:22].rstrip(): line[22:].split() for line in lines[2:9]}
    assert grid["codex responses"][:15] == ["✓"] * 10 + ["✗"] + ["✓"] * 3 + ["⠋"]
    assert grid["codex responses"][15:] == ["·"] * 10
    assert grid["opencode messages"][:14] == ["✓"] * 2 + ["-"] * 12
    assert "⠋ status-429/codex responses: transport on" in lines
    assert lines[-1].startswith("━━━━━━━━━─────── 84/149  1 failed  ")


def test_the_last_line_has_the_figures() -> None:
    last = lines_of(board_of_sample(), 120)[-1]
    assert "84/149" in last
    assert "1 failed" in last
    assert "left" in last


def test_what_runs_is_animated() -> None:
    board = board_of_sample()
    assert lines_of(board, now=0.0) != lines_of(board, now=0.125)
    assert lines_of(board, now=0.0) == lines_of(board, now=10 / 8)


def test_a_turned_table_has_the_same_marks() -> None:
    lines = lines_of(board_of_sample(), 110, 40)
    line = next(line for line in lines if line.startswith("drop-during"))
    assert line.split() == ["drop-during", "✓", "-", "✗", "✓", "✓", "✓", "✓"]


def test_an_output_that_can_only_do_ascii_gets_ascii() -> None:
    "\n".join(lines_of(board_of_sample(), marks=ASCII)).encode("ascii")
    assert marks_for("latin-1") == ASCII
    assert marks_for(None) == ASCII
    assert marks_for("no-such-encoding") == ASCII


def test_hostile_names_do_not_move_the_cursor() -> None:
    board = Board()
    board.planned([HOSTILE], [HOSTILE], 1)
    board.started(HOSTILE, "off")
    board.finished(cell(scenario=HOSTILE, reason=HOSTILE, verdict="failed"))
    for size in ((80, 24), (4000, 50)):
        assert not [
            c for line in lines_of(board, *size) for c in line if c < " " or "\x7f" <= c <= "\x9f" or c == "\u202e"
        ]
