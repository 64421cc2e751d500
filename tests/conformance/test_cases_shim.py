# SPDX-License-Identifier: Apache-2.0
"""The published cases for shims: our own passes all of them, and shims with a fault fail those that are for it."""

import shlex
import sys
from pathlib import Path

import pytest
from history_delta_conformance.cases import load
from history_delta_conformance.cases.base import Case, CaseResult
from history_delta_conformance.cases.registry import SHIM
from history_delta_conformance.cases.runner import Runner
from history_delta_conformance.cases.shim import command
from history_delta_conformance.cases.shim.process import Command
from history_delta_conformance.processes import SHIM_COMMAND
from support.broken_shims import BROKEN
from support.shim_archive import build_shim

load("shim")

_ADDRESSES = "--upstream {upstream} --listen {listen}"


@pytest.fixture(scope="session")
def commands(tmp_path_factory) -> dict[str, str]:
    """Our own shim, as it is installed and as it ships; the second is told its rollout."""
    archive = build_shim(tmp_path_factory.mktemp("dist"))
    return {
        "package": f"{shlex.join(SHIM_COMMAND)} {_ADDRESSES}",
        "archive": f"{sys.executable} -I -S {archive} serve {_ADDRESSES} --rollout {{rollout}}",
    }


async def run(case: Case, text: str) -> CaseResult:
    [result] = await Runner(command.opener(Command(text))).run([case])
    return result


@pytest.mark.parametrize("form", ["package", "archive"])
@pytest.mark.parametrize("case", list(SHIM), ids=lambda case: case.number)
async def test_our_own_shim_passes(commands, form, case):
    result = await run(case, commands[form])
    not_put = {"package": "2.2", "archive": "2.1"}[form]
    if case.slow or case.number == not_put:
        assert result.outcome == "not-run", result
    else:
        assert result.outcome == "passed", (result.expected, result.got, result.reason, result.exchange)


@pytest.mark.parametrize(
    ("number", "fault"),
    [(number, fault) for fault, broken in BROKEN.items() for number in broken.cases],
    ids=lambda part: part.replace(" ", "-"),
)
async def test_a_shim_with_a_fault_fails(number, fault):
    [case] = SHIM.select([number])
    result = await run(case, BROKEN[fault].command)
    assert result.outcome == "failed", result
    assert result.expected
    assert result.got


def test_every_requirement_of_a_shim_has_a_case():
    shown = {requirement for case in SHIM for requirement in case.requirements}
    assert {f"C-{number}" for number in range(1, 22)} <= shown


def run_command(*arguments: str) -> int:
    return command.main(list(arguments))


def test_the_command_says_what_it_needs(capsys):
    assert run_command() == 2
    assert "expected --command" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("my-shim --listen {listen}", "expected {upstream} in it"),
        ("my-shim --upstream {upstream}", "expected {listen} in it"),
        ('my-shim "{upstream} {listen}', "No closing quotation"),
    ],
)
def test_a_command_that_cannot_be_used_is_told_of(capsys, text, wanted):
    assert run_command("--command", text) == 2
    assert wanted in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("no-such-shim {upstream} {listen}", "cannot start the shim"),
        (f"{sys.executable} -c 'raise SystemExit(\"no luck\")' {{upstream}} {{listen}}", "ended with 1: no luck"),
        (f"{sys.executable} -c pass {{upstream}} {{listen}}", "ended with 0: it said nothing"),
    ],
)
def test_a_shim_that_never_takes_a_connection_is_told_of_once(capsys, text, wanted):
    assert run_command("--command", text) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert wanted in line


def test_a_shim_that_takes_long_is_given_up(capsys, monkeypatch):
    monkeypatch.setattr("history_delta_conformance.cases.shim.process._START_SECONDS", 0.2)
    sleeps = f"{sys.executable} -c 'import time; time.sleep(60)' {{upstream}} {{listen}}"
    assert run_command("--command", sleeps) == 2
    assert "took no connection within 0.2 s" in capsys.readouterr().err


def test_a_run_over_a_few_cases(commands, capsys, tmp_path: Path):
    report = tmp_path / "cases.json"
    assert run_command("--command", commands["archive"], "--case", "2.[12]", "--json", str(report)) == 0
    assert "1 passed, 1 not-run" in capsys.readouterr().out
    assert report.exists()


def test_a_failing_case_is_shown_with_its_requirement(capsys):
    broken = BROKEN["puts the media type at the end"]
    assert run_command("--command", broken.command, "--case", "4.7") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "shim 4.7" in said
    assert "C-9 (protocol/SPEC.md section 3.5)" in said
