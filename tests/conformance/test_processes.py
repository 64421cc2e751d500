# SPDX-License-Identifier: Apache-2.0
"""Processes under test: ready when they say so, stopped when left, and why they did not start."""

import shlex
import socket
import sys

import pytest
from history_delta_conformance.processes import BadCommand, CommandProcess, ReadyProcess, StartError, hold_port

SERVE = (
    "import json, os, sys, time\n"
    "file = sys.argv[sys.argv.index('--ready-file') + 1]\n"
    "proxies = ['http_proxy', 'HTTPS_PROXY', 'ALL_PROXY']\n"
    "told = [name for name in os.environ if name.startswith('HISTORY_DELTA_') or name in proxies]\n"
    "print(told, file=sys.stderr, flush=True)\n"
    "open(file + '.new', 'w').write(json.dumps({'url': 'http://127.0.0.1:9'}))\n"
    "os.rename(file + '.new', file)\n"
    "time.sleep(600)"
)


async def test_ready_with_its_url_and_only_our_own_settings(tmp_path, monkeypatch):
    for name in ("HISTORY_DELTA_UPSTREAM", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://somewhere.invalid")
    command = [sys.executable, "-c", SERVE]
    async with ReadyProcess("it", command, tmp_path, {"HISTORY_DELTA_ENABLED": "1"}) as process:
        assert (process.url, process.port) == ("http://127.0.0.1:9", 9)
        assert process.stderr.read_text() == "['HISTORY_DELTA_ENABLED']\n"
        assert process.is_running
    assert not process.is_running


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('hello'); sys.exit('--listen: taken')", r"--listen: taken \(it ended with 1\)"),
        ("print('no luck'); sys.exit(3)", r"no luck \(it ended with 3\)"),
        ("pass", r"it said nothing \(it ended with 0\)"),
    ],
)
async def test_a_process_that_ends_at_once_is_an_error_with_what_it_said(tmp_path, code, words):
    command = [sys.executable, "-c", f"import sys; {code}"]
    with pytest.raises(StartError, match=f"it did not start: {words}"):
        async with ReadyProcess("it", command, tmp_path, {}):
            pass


LISTEN = (
    "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1].split(':')[1]))); "
    "s.accept(); s.accept()"
)


async def test_a_user_s_command_is_ready_once_it_takes_connections_and_its_children_end_with_it(tmp_path, is_gone):
    command = f"sh -c '{sys.executable} -c \"$0\" $1 & echo $! >pid; wait' {shlex.quote(LISTEN)} {{listen}}"
    async with CommandProcess("it", f"env -C {tmp_path} {command}", {}, tmp_path, {}) as process:
        child = int((tmp_path / "pid").read_text())
        assert process.url.startswith("http://127.0.0.1:")
    assert is_gone(child)


async def test_a_process_can_be_killed_and_another_take_its_place(tmp_path):
    command = f"{sys.executable} -c {shlex.quote(LISTEN)} {{listen}} {{model}}"
    async with CommandProcess("it", command, {"{model}": "x"}, tmp_path, {}) as first:
        listen = first.url.removeprefix("http://")
        await first.kill()
        assert not first.is_running
        async with CommandProcess("it", command, {"{model}": "x"}, tmp_path, {}, listen) as second:
            assert second.url == first.url


@pytest.mark.parametrize(
    ("command", "reason"),
    [("serve --listen {listen}", "expected {model}"), ("serve", "expected {listen}"), ("serve '", "No closing")],
)
def test_a_command_that_cannot_be_used_says_why(command, reason, tmp_path):
    with pytest.raises(BadCommand, match=reason):
        CommandProcess("it", command, {"{model}": "x"}, tmp_path, {})


async def test_a_command_that_is_not_there_says_so(tmp_path):
    with pytest.raises(StartError, match=r"no-such-program: No such file"):
        async with CommandProcess("it", "no-such-program {listen}", {}, tmp_path, {}):
            pass


def test_a_port_that_is_held_is_free_to_listen_on_and_given_to_nobody_else(monkeypatch):
    with hold_port() as first, hold_port() as second:
        addresses = [held.getsockname() for held in (first, second)]
    monkeypatch.setattr("history_delta_conformance.processes._PORTS", [port for _, port in addresses])
    with hold_port() as first, hold_port() as second:
        assert sorted(held.getsockname() for held in (first, second)) == sorted(addresses)
        with pytest.raises(OSError, match="no free port from"):
            hold_port()
        socket.create_server(first.getsockname()).close()
    with socket.create_server(addresses[0]), hold_port() as held:
        assert held.getsockname() == addresses[1]


async def test_a_port_is_held_as_long_as_its_process_runs(tmp_path):
    async with CommandProcess("it", f"{sys.executable} -c {shlex.quote(LISTEN)} {{listen}}", {}, tmp_path, {}) as it:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", it.port))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", it.port))
