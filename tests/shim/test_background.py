# SPDX-License-Identifier: Apache-2.0
"""``--detach``: whoever started it goes on at once, also where it waits for every inherited pipe to close."""

import json
import os
import signal
import subprocess
import time

import pytest
from support.endpoints import PATIENCE, connect
from support.http_text import answer, post
from support.shim_server import environment, shim_command


def detach(python, *options, **popen):
    command = [*shim_command(python), "serve", "--detach", *options]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, **popen
    )  # returns once both pipes have been closed by everybody


def end(pid):
    """Stop a process that is no child of ours, and wait for its end."""
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and is_running(pid):
        time.sleep(0.005)
    assert not is_running(pid)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_it_returns_with_the_pipes_closed_and_the_shim_serving(python, upstream, tmp_path):
    ready_file, log = tmp_path / "ready.json", tmp_path / "log"
    extra_reader, extra_writer = os.pipe()  # as an exec API may leave open besides the usual three
    ran = detach(
        python,
        *("--upstream", upstream.origin, "--ready-file", str(ready_file), "--log-file", str(log)),
        pass_fds=[extra_writer],
    )
    os.close(extra_writer)
    assert (ran.returncode, ran.stderr) == (0, "")
    ready = json.loads(ready_file.read_text())
    try:
        assert json.loads(ran.stdout) == ready
        assert os.read(extra_reader, 1) == b""
        assert os.getsid(ready["pid"]) not in (os.getsid(0), ready["pid"])  # no terminal, nor ever one
        agent = connect(int(ready["url"].rpartition(":")[2]))
        agent.send(post(b"{}"))
        peer = upstream.accept()
        peer.read_request()
        peer.send(answer(b"r"))
        assert agent.read_response().body == b"r"
    finally:
        end(ready["pid"])
    os.close(extra_reader)
    assert [json.loads(line)["event"] for line in log.read_text().splitlines()] == ["ready", "call", "stopped"]


def test_it_holds_nothing_that_was_open(python, upstream, tmp_path):
    with (tmp_path / "other").open("w") as other:
        ran = detach(python, "--upstream", upstream.origin, pass_fds=[other.fileno()])
    pid = json.loads(ran.stdout)["pid"]
    try:
        held = {os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")}
    finally:
        end(pid)
    assert {link.partition(":")[0] for link in held} <= {os.devnull, "socket", "pipe", "anon_inode"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--upstream", "nonsense"], "--upstream: expected"),
        (["--upstream", "http://h", "--ready-file", "/nowhere/ready"], "--ready-file: cannot write"),
    ],
)
def test_what_is_wrong_is_still_told(python, options, told):
    ran = detach(python, *options)
    assert ran.returncode == 2
    assert told in ran.stderr
    assert ran.stdout == ""


def test_a_shim_that_dies_before_it_is_ready_is_told(python):
    dying = "import history_delta_shim.server as s, os; s._serve_on = lambda *a: os._exit(9); "
    command = [*shim_command(python, before=dying), "serve", "--detach", "--upstream", "http://h"]
    ran = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 2
    assert "ended before it was ready" in ran.stderr
