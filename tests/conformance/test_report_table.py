# SPDX-License-Identifier: Apache-2.0
import io
import os
import pty
import re
import select
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from history_delta_conformance.report import figures
from history_delta_conformance.report.table import LiveView, PlainView, view_for
from support.sample_report import FAILED, FINDING, HOSTILE, NOT_RUN, cell, good_report, hostile_report, report


class Screen:
    """A pseudo-terminal, and what was written to it."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.stream: TextIO = os.fdopen(slave, "w", encoding="utf-8")

    def text(self) -> str:
        self.stream.flush()
        found = b""
        while select.select([self._master], [], [], 0.1)[0]:
            found += os.read(self._master, 65536)
        return found.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self._master)


@pytest.fixture(autouse=True)
def _ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")


@pytest.fixture
def screen() -> Iterator[Screen]:
    screen = Screen()
    yield screen
    screen.close()


def plain(encoding: str = "utf-8") -> tuple[PlainView, io.TextIOWrapper]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    view = view_for(stream)
    assert isinstance(view, PlainView)
    return view, stream


def written(stream: io.TextIOWrapper) -> list[str]:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode(stream.encoding).splitlines()


def test_a_line_for_every_cell_that_ended() -> None:
    view, stream = plain()
    view.planned(["codex responses"], ["tool-use", "title"], 12)
    view.started(FAILED.name, "off")
    view.finished(cell())
    view.finished(cell(scenario="title", verdict="failed", findings=(FINDING,)))
    view.finished(cell(scenario="drip", verdict="not-run", reason="no network"))
    view.finished(cell(scenario="stall", verdict="not-applicable", reason="no"))
    assert written(stream) == [
        "1 agent row, 2 scenarios: 12 cells",
        "[ 1/12] ✓ passed  tool-use, codex responses: 13 of 13 requests equal, 624 kB → 30.2 kB (20.7x), 12.5 s",
        "[ 2/12] ✗ failed  title, codex responses: message-changed: request 7 (tool-use 7): message 14 differs",
        "[ 3/12] ! not run drip, codex responses: no network",
    ]


def test_the_end_tells_what_failed_what_was_not_run_and_where_the_report_is() -> None:
    view, stream = plain()
    made = report(cell(), FAILED, cell(scenario="title", verdict="not-run", reason="no network"))
    view.close(made, Path("out"))
    assert written(stream) == [
        "✗ failed: tool-use, codex responses: message-changed; first message-changed:"
        " request 7 (tool-use 7): message 14 differs",
        "! not run: title, codex responses: no network",
        figures.verdict(made),
        f"Report: {Path('out/report.html')} (and report.md, report.json, junit.xml)",
    ]


def test_a_run_that_broke_off_ends_without_a_verdict() -> None:
    view, stream = plain()
    view.close()
    assert written(stream) == []


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_hostile_text_is_written_in_any_encoding_and_moves_no_cursor(encoding: str) -> None:
    view, stream = plain(encoding)
    view.planned([HOSTILE], [HOSTILE], 1)
    view.note(HOSTILE)
    view.finished(hostile_report().cells[0])
    view.close(hostile_report(), Path("out"))
    lines = written(stream)
    assert len(lines) == 7
    assert not [character for line in lines for character in line if character < " " or character in "\u202e\u2066"]


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("CI", "true"), ("TERM", "dumb")])
def test_plain_lines_where_they_are_wanted(
    name: str, value: str, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    view = view_for(screen.stream)
    view.planned(["codex responses"], ["tool-use"], 1)
    view.finished(cell())
    view.close(report(cell()), None)
    assert isinstance(view, PlainView)
    assert "\x1b" not in screen.text()


def test_a_terminal_gets_the_grid_and_then_the_end(screen: Screen) -> None:
    view = view_for(screen.stream)
    assert isinstance(view, LiveView)
    view.note("installing codex")
    view.planned(["codex responses", "pi chat"], ["tool-use", "title"], 3)
    view.started("tool-use/codex responses", "off")
    view.finished(FAILED)
    view.finished(cell(scenario="title"))
    view.finished(NOT_RUN)
    made = report(FAILED, cell(scenario="title"), NOT_RUN)
    view.close(made, Path("out"))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.text()).replace("\r\n", "\n")
    lines = [line.rstrip() for line in text.splitlines()]
    assert "installing codex" in lines
    assert "codex responses  !         ✓" in lines
    assert "pi chat          ·         ·" in lines
    assert figures.verdict(made) in text.replace("\n", "")
    assert "Report: out/report.html" in text


def test_the_terminal_is_left_as_it_was(screen: Screen) -> None:
    view = view_for(screen.stream)
    view.planned(["codex responses"], ["tool-use"], 1)
    view.finished(cell())
    view.close(good_report(), None)
    text = screen.text()
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_a_terminal_that_was_never_drawn_on_is_closed_all_the_same(screen: Screen) -> None:
    view_for(screen.stream).close()
    assert "\x1b[?25l" not in screen.text()
