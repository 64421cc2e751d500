# SPDX-License-Identifier: Apache-2.0
"""The cases for servers: this project's own passes them all, and servers that spoil one thing each fail by number."""

import asyncio
import json
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from history_delta_conformance.cases import load, wire
from history_delta_conformance.cases.registry import SERVER
from history_delta_conformance.cases.server.command import main as server_main
from history_delta_conformance.cases.server.ground import EXAMPLE
from history_delta_conformance.processes import SERVER_COMMAND, ReadyProcess, hold_port

load("server")

HERE = Path(__file__).parent
# The published example, whether or not its command is on the path.
OURS = shlex.join(SERVER_COMMAND) + EXAMPLE.removeprefix("history-delta serve")
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The command's exit code, and its results as JSON under their numbers."""

    def run(*argv: str) -> tuple[int, dict[str, Any]]:
        file = tmp_path / "cases.json"
        code = server_main([*argv, "--json", str(file)])
        results = json.loads(file.read_text()) if file.exists() else {"cases": []}
        return code, {case["number"]: case for case in results["cases"]}

    return run


@pytest.mark.timeout(300)
@pytest.mark.parametrize("group", SERVER.groups)
def test_our_server_passes_every_case(run, group: int) -> None:
    code, cases = run("--command", OURS, "--case", f"{group}.*")
    wrong = {number: (case.get("expected"), case.get("got"), case.get("reason")) for number, case in cases.items()}
    slow = {case.number for case in SERVER if case.order[0] == group and case.slow}
    assert {number: wrong[number] for number, case in cases.items() if case["outcome"] != "passed"} == dict.fromkeys(
        slow, (None, None, "it takes long, and is run with --slow alone")
    )
    assert code == 0
    assert list(cases) == [case.number for case in SERVER if case.order[0] == group]


def test_several_cases_at_once_disturb_each_other_not(run) -> None:
    code, cases = run("--command", OURS, "--jobs", "8", "--case", "1?.*", "--case", "[24589].*")
    assert {number: case for number, case in cases.items() if case["outcome"] not in ("passed", "not-run")} == {}
    assert code == 0


# Which cases find which fault; a faithful relay passes all of these.
FOUND_BY = {
    "buffers": ["12.1", "12.2"],
    "ends-what-broke": ["13.1", "13.2", "13.3", "13.6"],
    "resets-what-broke": ["13.1"],
    "forwards-hop-local": ["8.1", "8.2"],
    "lets-forgeries-through": ["8.3"],
    "answers-mismatch-with-400": ["5.5", "5.6"],
    "forgets-deliveries": ["11.1", "11.2", "11.4", "11.8"],
    "shares-rollouts": ["10.6", "10.7"],
    "refuses-without-version": ["2.8", "2.9"],
    "writes-bodies-anew": ["2.1", "3.8"],
    "forwards-reserved-paths": ["15.6"],
    "forwards-stray-frames": ["9.2"],
    "follows-the-target": ["15.1"],
    "retries": ["11.14"],
}


def command(fault: str) -> str:
    words = [sys.executable, str(HERE / "broken_server.py"), fault, "--listen", "{listen}", "--model", "{model}"]
    return shlex.join(words)


@pytest.mark.parametrize("fault", FOUND_BY)
def test_a_fault_is_found_by_number(run, fault: str, monkeypatch) -> None:
    monkeypatch.setattr(wire, "PATIENCE", 4.0)  # what such a server never does need not be waited for as long
    wanted = FOUND_BY[fault]
    chosen = [word for number in wanted for word in ("--case", number)]
    # What does not come is waited for, in all of them at once.
    code, cases = run("--command", command(fault), "--jobs", str(len(wanted)), *chosen)
    assert {number: case["outcome"] for number, case in cases.items()} == dict.fromkeys(wanted, "failed")
    assert code == 1
    for case in cases.values():
        assert case["expected"]
        assert case["got"]
        assert any("sent" in line for line in case["exchange"])


def test_it_is_the_fault_that_is_found_and_not_the_relay(run) -> None:
    numbers = sorted({number for numbers in FOUND_BY.values() for number in numbers})
    code, cases = run("--command", command("faithful"), *(word for number in numbers for word in ("--case", number)))
    assert {number: case for number, case in cases.items() if case["outcome"] != "passed"} == {}
    assert code == 0


def test_nothing_is_left_of_a_server_that_was_put_to_the_test(run, tmp_path, is_gone) -> None:
    """It has a server of its own within, which is a session of its own."""
    within = tmp_path / "within"
    within.mkdir()
    words = ["env", f"TMPDIR={within}", *shlex.split(command("faithful"))]
    code, _ = run("--command", f"sh -c 'echo $$ > {tmp_path}/pid; exec \"$@\"' sh {shlex.join(words)}", "--case", "1.1")
    assert code == 0
    assert is_gone(int((tmp_path / "pid").read_text()))
    assert list(within.iterdir()) == []  # its folder goes when the server within has ended


def test_a_parser_that_takes_what_is_ambiguous_is_found_by_number(run) -> None:
    """The relay itself has one."""
    code, cases = run("--command", command("faithful"), "--case", "14.1", "--case", "14.2", "--case", "14.4")
    assert {number: case["outcome"] for number, case in cases.items()} == dict.fromkeys(
        ["14.1", "14.2", "14.4"], "failed"
    )
    assert code == 1


@pytest.fixture
def port() -> Iterator[int]:
    """For the model of the cases to listen on."""
    with hold_port() as held:
        yield held.getsockname()[1]


def _start(folder: Path, upstream_port: int, enabled: str = "1") -> ReadyProcess:
    options = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    upstream = ["--upstream", f"http://127.0.0.1:{upstream_port}"]
    return ReadyProcess("server", [*SERVER_COMMAND, *options, *upstream], folder, {"HISTORY_DELTA_ENABLED": enabled})


async def in_thread(run, *argv: str) -> tuple[int, dict[str, Any]]:
    return await asyncio.to_thread(run, *argv)


async def test_a_server_that_runs_already_is_taken_as_it_is(run, tmp_path, port) -> None:
    async with _start(tmp_path, port) as server:
        listen = f"127.0.0.1:{port}"
        argv = ("--url", server.url, "--model-listen", listen, "--case", "2.1", "--case", "16.1", "--case", "11.13")
        code, cases = await in_thread(run, *argv)
    assert {number: case["outcome"] for number, case in cases.items()} == {
        "2.1": "passed",
        "11.13": "passed",
        "16.1": "not-run",
    }
    assert "--command" in cases["16.1"]["reason"]
    assert code == 0


async def test_a_server_with_another_model_behind_it_is_told_what_to_do(run, tmp_path, port, capsys) -> None:
    async with _start(tmp_path, 9) as server:
        code, cases = await in_thread(run, "--url", server.url, "--model-listen", f"127.0.0.1:{port}")
    assert (code, cases) == (2, {})
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"start the server with http://127.0.0.1:{port} as its only upstream" in said


async def test_a_server_that_is_switched_off_is_told_so(run, tmp_path, port, capsys) -> None:
    async with _start(tmp_path, port, enabled="0") as server:
        code, _ = await in_thread(run, "--url", server.url, "--model-listen", f"127.0.0.1:{port}")
    assert code == 2
    assert "switched off" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--url", "http://127.0.0.1:1"], "no server at 127.0.0.1:1"),
        (["--url", "https://x"], "--url: expected http://HOST:PORT"),
        (["--url", "http://127.0.0.1:1/v1"], "--url: expected http://HOST:PORT"),
        (["--url", "http://127.0.0.1:99999"], "--url: expected http://HOST:PORT"),
        (
            ["--command", "no-such-program {listen} {model}"],
            "--command: server did not start: no-such-program: No such file",
        ),
        (["--command", "true {listen}"], "--command: expected {model} in it"),
        (["--command", "true {listen} {model}"], "--command: server did not start: it said nothing (it ended with 0)"),
        (["--command", "sh -c 'echo this went wrong; exit 3' {listen} {model}"], "this went wrong"),
        (["--command", "'"], "--command: No closing quotation"),
        (["--command", OURS, "--case", "77.1"], "--case: expected the number of a server case"),
    ],
)
def test_what_cannot_be_run_is_said_in_one_line(argv: list[str], words: str, port, capsys) -> None:
    assert server_main([*argv, "--model-listen", f"127.0.0.1:{port}"]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_an_address_that_is_taken_is_said_in_one_line(capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        taken = f"127.0.0.1:{sock.getsockname()[1]}"
        assert server_main(["--url", "http://127.0.0.1:1", "--model-listen", taken]) == 2
    assert f"--model-listen: cannot listen on {taken}" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["--timeout", "0"], ["--jobs", "x"], ["--url", "a", "--command", "b"], ["--no"]])
def test_a_command_line_that_makes_no_sense_is_a_2(argv: list[str], capsys) -> None:
    assert server_main(argv) == 2
    assert "usage:" in "".join(capsys.readouterr())


def test_the_list_needs_no_server(capsys) -> None:
    assert server_main(["--list", "--case", "1.*"]) == 0
    said = capsys.readouterr().out
    assert "server 1.1" in said
    assert "server 2.1" not in said


def test_what_was_started_is_stopped(run, tmp_path, is_gone) -> None:
    noted = tmp_path / "pid"
    script = f'echo $$ > {noted}; exec "$@"'
    code, _ = run("--command", shlex.join(["sh", "-c", script, "sh"]) + " " + OURS, "--case", "1.1")
    assert code == 0
    assert is_gone(int(noted.read_text()))
