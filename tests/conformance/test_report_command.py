# SPDX-License-Identifier: Apache-2.0
"""The command that renders a report again, as a process."""

import subprocess
import sys
from pathlib import Path

import pytest
from history_delta_conformance.report import figures
from history_delta_conformance.report.write import write_report
from support.sample_report import good_report, sample_report

FORMS = ["junit.xml", "report.html", "report.json", "report.md"]


def render(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "history_delta_conformance.report", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("by", ["file", "folder"])
def test_every_form_is_made_again_and_the_same(by: str, tmp_path: Path) -> None:
    first = tmp_path / "first"
    write_report(sample_report(), first)
    done = render(first / "report.json" if by == "file" else first, "--output", tmp_path / "second")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == figures.verdict(sample_report())
    for name in FORMS:
        assert (tmp_path / "second" / name).read_bytes() == (first / name).read_bytes()


def test_it_writes_beside_the_report_where_no_other_folder_is_named(tmp_path: Path) -> None:
    for path in write_report(good_report(), tmp_path):
        if path.name != "report.json":
            path.unlink()
    assert render(tmp_path / "report.json").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == FORMS


@pytest.mark.parametrize(
    ("content", "told"),
    [("{}", "not a report: Object missing required field `schema`"), ("", "not a report: "), (None, "No such file")],
)
def test_what_is_no_report_is_refused_in_one_line(content: str | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    done = render(path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"history-delta conformance report: {path}: ")
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "report.html").exists()
