# SPDX-License-Identifier: Apache-2.0
from history_delta_conformance.report.board import Board
from support.sample_report import FAILED, NOT_RUN, cell


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_cells_run_and_end() -> None:
    board = Board()
    board.planned(["codex responses"], ["tool-use", "title"], 2)
    board.started(FAILED.name, "off")
    board.started(FAILED.name, "on")
    board.started("title/codex responses", "off")
    assert board.running == {"tool-use/codex responses": "on", "title/codex responses": "off"}
    board.finished(FAILED)
    assert board.running == {"title/codex responses": "off"}
    assert (board.done, board.count("failed"), board.count("passed")) == (1, 1, 0)


def test_what_does_not_apply_is_not_counted() -> None:
    board = Board()
    board.planned(["codex responses"], ["tool-use"], 1)
    board.finished(cell(scenario="title", verdict="not-applicable"))
    board.finished(cell())
    assert (board.done, board.count("not-applicable")) == (1, 1)


def test_the_rest_takes_as_long_as_what_ran_so_far() -> None:
    clock = Clock()
    board = Board(clock)
    clock.now += 1_000
    board.planned(["codex responses"], [str(n) for n in range(10)], 10)
    assert (board.elapsed, board.remaining) == (0, None)
    clock.now += 60
    board.finished(cell(scenario="1", verdict="not-run"))
    assert board.remaining is None
    board.finished(cell(scenario="2"))
    board.finished(cell(scenario="3", verdict="failed"))
    assert (board.elapsed, board.remaining) == (60, 30 * 7)
    for number in range(20):
        board.finished(cell(scenario=str(number)))
    assert board.remaining == 0


def test_a_cell_that_is_told_twice_counts_once() -> None:
    board = Board()
    board.finished(NOT_RUN)
    board.finished(NOT_RUN)
    assert board.done == 1
