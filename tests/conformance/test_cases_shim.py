# SPDX-License-Identifier: Apache-2.0
"""The published cases for shims: our own passes all of them, and shims with a fault fail those that are for it."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from history_delta_conformance.cases import load, wire
from history_delta_conformance.cases.base import CaseResult
from history_delta_conformance.cases.registry import SHIM
from history_delta_conformance.cases.runner import Runner
from history_delta_conformance.cases.shim import command
from history_delta_conformance.cases.shim.process import EXAMPLE, Command
from history_delta_conformance.processes import SHIM_COMMAND
from support.broken_shims import BROKEN
from support.shim_archive import build_shim

load("shim")

# The published example, whether or not its command is on the path.
OURS = shlex.join(SHIM_COMMAND) + EXAMPLE.removeprefix("history-delta shim serve")
# What may depend on the form that it ships in: a rollout as an option, and one case each of what loads another module.
OF_THE_ARCHIVE = ("1.1", "2.2", "3.1", "3.6", "4.4", "4.6", "7.1", "10.7", "11.10", "12.1", "13.2", "13.11", "14.1")
_AT_ONCE = 4


@pytest.fixture(scope="session")
def archive(tmp_path_factory) -> str:
    """Our own shim as it ships; it is told its rollout."""
    built = build_shim(tmp_path_factory.mktemp("dist"))
    return f"{sys.executable} -I -S {built} serve --upstream {{upstream}} --listen {{listen}} --rollout {{rollout}}"


async def run(numbers: Sequence[str], text: str, jobs: int = _AT_ONCE) -> list[CaseResult]:
    return await Runner(command.opener(Command(text)), jobs=jobs).run(SHIM.select(numbers))


def not_passed(results: list[CaseResult]) -> list[CaseResult]:
    return [result for result in results if result.outcome != "passed"]


@pytest.mark.parametrize("group", SHIM.groups)
async def test_our_own_shim_passes(group):
    results = await run([f"{group}.*"], OURS)
    left_out = [case.number for case in SHIM if case.order[0] == group and (case.slow or case.number == "2.2")]
    assert [result.case.number for result in not_passed(results)] == left_out, not_passed(results)
    assert {result.outcome for result in not_passed(results)} <= {"not-run"}


async def test_our_own_shim_passes_as_it_ships(archive):
    assert not_passed(await run(OF_THE_ARCHIVE, archive)) == []


@pytest.mark.parametrize("fault", BROKEN, ids=lambda fault: fault.replace(" ", "-"))
async def test_a_shim_with_a_fault_fails(fault, monkeypatch):
    monkeypatch.setattr(wire, "PATIENCE", 4.0)  # what such a shim never does need not be waited for as long
    numbers = BROKEN[fault].cases
    results = await run(numbers, BROKEN[fault].command, jobs=len(numbers))  # what does not come is waited for
    assert {result.case.number: result.outcome for result in results} == dict.fromkeys(numbers, "failed"), results
    assert all(result.expected and result.got for result in results)


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
        ("no-such-shim {upstream} {listen}", "shim did not start: no-such-shim: No such file"),
        (f"{sys.executable} -c 'raise SystemExit(\"no luck\")' {{upstream}} {{listen}}", "no luck (it ended with 1)"),
        (f"{sys.executable} -c 'print(\"no luck\")' {{upstream}} {{listen}}", "no luck (it ended with 0)"),
        (f"{sys.executable} -c pass {{upstream}} {{listen}}", "it said nothing (it ended with 0)"),
    ],
)
def test_a_shim_that_never_takes_a_connection_is_told_of_once(capsys, text, wanted):
    assert run_command("--command", text) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert wanted in line


def test_a_shim_that_takes_long_is_given_up(capsys, monkeypatch):
    monkeypatch.setattr("history_delta_conformance.processes._START_WITHIN", 0.2)
    sleeps = f"{sys.executable} -c 'import time; time.sleep(60)' {{upstream}} {{listen}}"
    assert run_command("--command", sleeps) == 2
    assert "was not ready within 0.2 s" in capsys.readouterr().err


def test_a_run_over_a_few_cases(archive, capsys, tmp_path: Path):
    report = tmp_path / "cases.json"
    assert run_command("--command", archive, "--case", "2.[12]", "--json", str(report)) == 0
    assert "1 passed, 1 not-run" in capsys.readouterr().out
    assert report.exists()


def test_a_failing_case_is_shown_with_its_requirement(capsys):
    broken = BROKEN["puts the media type at the end"]
    assert run_command("--command", broken.command, "--case", "4.7") == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "shim 4.7" in said
    assert "C-9 (protocol/SPEC.md section 3.5)" in said
