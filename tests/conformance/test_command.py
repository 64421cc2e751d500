# SPDX-License-Identifier: Apache-2.0
"""``history-delta conformance`` as a user runs it: what it prints, what it leaves and with which code it ends."""

import asyncio
import json
import signal
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

COMMAND = (sys.executable, "-m", "history_delta_conformance.cli", "conformance")
WITHIN = 90


def conformance(*arguments, environment=None, folder=None):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=WITHIN, env=environment, cwd=folder
    )


def report_in(folder):
    return json.loads((folder / "report.json").read_text())


def test_a_run_without_a_difference_leaves_four_reports_and_nothing_else(tmp_path):
    output = tmp_path / "out"
    done = conformance("--agents", "builtin", "--scenarios", "short-task,dropped-before", "--output", str(output))
    assert done.returncode == 0, done.stderr
    assert "Proved" in done.stderr
    assert sorted(path.name for path in output.iterdir()) == ["junit.xml", "report.html", "report.json", "report.md"]
    report = report_in(output)
    assert [(cell["scenario"], cell["verdict"]) for cell in report["cells"] if cell["dialect"] == "chat"] == [
        ("short-task", "passed"),
        ("dropped-before", "passed"),
    ]
    assert report["agents"] == [{"name": "builtin", "version": "2", "tested_version": "2", "problem": ""}]
    assert {"history-delta", "Python"} <= set(report["versions"])
    suites = ElementTree.parse(output / "junit.xml").getroot()
    assert len(suites.findall(".//testcase")) == len(report["cells"])


def test_a_difference_is_exit_code_1_and_keeps_what_was_written(tmp_path):
    mutant = (
        f"{sys.executable} -m history_delta_conformance.mutants drop-message --upstream {{model}} --listen {{listen}}"
    )
    options = ("--agents", "builtin", "--scenarios", "short-task", "--output", str(tmp_path / "out"))
    done = conformance(*options, "--server-command", mutant + " --upstream {model} --listen {listen}")
    assert done.returncode == 1, done.stderr
    assert "message-missing" in (tmp_path / "out" / "report.md").read_text()
    cell = next(cell for cell in report_in(tmp_path / "out")["cells"] if cell["verdict"] == "failed")
    for folder in cell["folder"].split(", "):
        assert (tmp_path / "out" / folder / "agent" / "stdout.txt").is_file()
        assert not Path(folder).is_absolute()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\necho codex 9.9.9\n", "version 9.9.9 is untested; tested is"),
        ("no script", "is no executable file"),
    ],
    ids=["untested", "not-there"],
)
def test_an_agent_that_is_not_run_is_said_not_passed_and_exit_code_3(tmp_path, script, reason):
    executable = tmp_path / "codex"
    if script.startswith("#!"):
        executable.write_text(script)
        executable.chmod(0o755)
    options = ("--agents", "codex,builtin", "--scenarios", "hello", "--output", str(tmp_path / "out"))
    done = conformance(*options, "--agent-executable", f"codex={executable}")
    assert done.returncode == 3, done.stderr
    assert reason in done.stderr
    verdicts = {cell["agent"]: (cell["verdict"], cell["reason"]) for cell in report_in(tmp_path / "out")["cells"][:1]}
    assert verdicts["codex"][0] == "not-run"
    assert reason in verdicts["codex"][1]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--agents", "emacs"], "--agents: no driver for 'emacs'; there are builtin, opencode"),
        (["--scenarios", "no-such"], "no scenario 'no-such'"),
        (["--jobs", "0"], "--jobs: expected 1 or more, got 0"),
        (["--agent-executable", "codex"], "--agent-executable: expected NAME=PATH"),
        (["--server-command", "serve"], "--server-command: expected {listen} in it"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2_and_says_what_was_expected(arguments, expected, tmp_path):
    done = conformance("--output", str(tmp_path / "out"), "--agents", "builtin", *arguments)
    assert done.returncode == 2
    assert expected in done.stderr


def test_a_mistake_in_a_scenario_file_names_file_line_and_what_was_expected(tmp_path):
    scenario = tmp_path / "mine.toml"
    scenario.write_text('name = "mine"\nprompt = "Go."\n\n[[turns]]\ntext = "One."\n\n[[turns]]\ntext = 2\n')
    done = conformance("--agents", "builtin", "--scenarios", str(scenario), "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    assert f"{scenario}:8: turns[1].text" in done.stderr
    assert "expected" in done.stderr.lower()


def test_a_scenario_of_one_s_own_is_called_by_its_file_s_name(tmp_path):
    scenario = tmp_path / "mine.toml"
    scenario.write_text('extends = "hello"\ndescription = "my own"\n')
    output = tmp_path / "out"
    assert conformance("--agents", "builtin", "--scenarios", str(scenario), "--output", str(output)).returncode == 0
    report = report_in(output)
    assert {cell["scenario"] for cell in report["cells"]} == {"mine"}
    assert report["scenarios"] == [{"name": "mine", "description": "my own"}]


def test_the_runs_of_an_earlier_report_are_not_overwritten(tmp_path):
    (tmp_path / "out" / "runs").mkdir(parents=True)
    done = conformance("--agents", "builtin", "--scenarios", "hello", "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    assert "holds the runs of an earlier report" in done.stderr


def test_what_there_is_can_be_listed():
    done = conformance("--list")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("opencode", "hermes-library", "tool-use", "model-500", "dropped-after"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_interrupted_it_stops_what_it_started_and_reports_what_there_is(tmp_path, number, is_gone):
    output = tmp_path / "out"
    options = ("--agents", "builtin", "--scenarios", "model-stall", "--output", str(output))
    process = await asyncio.create_subprocess_exec(*COMMAND, *options, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(WITHIN):
        while not (ready := sorted(output.glob("runs/*/server.ready"))):  # noqa: ASYNC110 - a file is the sign
            await asyncio.sleep(0)
        servers = [json.loads(file.read_text())["pid"] for file in ready]
        process.send_signal(number)
        await process.communicate()
    assert process.returncode == 130
    assert all(is_gone(pid) for pid in servers)
    reasons = {(cell["verdict"], cell["reason"]) for cell in report_in(output)["cells"] if cell["dialect"] == "chat"}
    assert reasons == {("not-run", "interrupted")}
