# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from history_delta_shim import shim_process as module
from history_delta_shim.shim_process import ShimFailed, ShimProcess
from support.endpoints import connect
from support.http_text import answer, get
from support.running_agent import is_alive, wait_until

# A child that becomes ready and no longer can be asked to end.
STUBBORN = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[sys.argv.index("--ready-file") + 1], "w").close()
signal.pause()
"""
# A parent of a shim, which says who it is and can be killed.
PARENT = """
import os, signal, sys
from history_delta_shim.shim_process import ShimProcess
process = ShimProcess(sys.argv[1], sys.argv[2:], os.getpid)
process.start()
process.wait_until_ready()
print(process.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def new(tmp_path, upstream):
    """Makes a shim for the upstream; all are stopped at the end."""
    made = []

    def new(*options, before_exec=os.getpid):
        made.append(ShimProcess(str(tmp_path), ["--upstream", upstream.origin, *options], before_exec))
        return made[-1]

    yield new
    for process in made:
        process.stop()


@pytest.fixture
def running(new):
    process = new()
    process.start()
    process.wait_until_ready()
    return process


@pytest.fixture
def stand_in(monkeypatch):
    """Has something else started in the shim's place."""
    return lambda *command: monkeypatch.setattr(module, "serve_command", lambda: list(command))


@pytest.fixture
def clock(monkeypatch):
    """The module's clock, which stands still unless it is set."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now, sleep=time.sleep)
    monkeypatch.setattr(module, "time", clock)
    return clock


def call(process):
    """An agent's connection, with a request on it."""
    agent = connect(urlsplit(process.origin).port)
    agent.send(get("/v1/models"))
    return agent


def see_end(process):
    """Wait for the child's end and tell of it, as whoever waits for children does."""
    _, status = os.waitpid(process.pid, 0)
    process.died(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def answered(agent, upstream):
    peer = upstream.accept()
    peer.read_request()
    peer.send(answer(b"models"))
    return agent.read_response().body == b"models"


class TestTheChild:
    def test_serves_at_the_origin_of_its_parents_socket(self, running, upstream):
        assert answered(call(running), upstream)

    def test_is_out_of_the_terminals_reach(self, running):
        assert os.getsid(running.pid) == running.pid

    def test_runs_what_is_to_be_done_before(self, new):
        reader, writer = os.pipe()
        process = new(before_exec=lambda: os.write(writer, b"%d" % os.getpid()))
        process.start()
        assert os.read(reader, 100) == b"%d" % process.pid
        os.close(reader)
        os.close(writer)

    def test_goes_with_a_parent_that_was_killed(self, tmp_path, upstream):
        command = [sys.executable, "-c", PARENT, str(tmp_path), "--upstream", upstream.origin]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
            child = int(parent.stdout.readline())
            assert is_alive(child)
            parent.kill()
        wait_until(lambda: not is_alive(child), "the shim has ended")

    def test_is_stopped(self, tmp_path, upstream):
        process = ShimProcess(str(tmp_path), ["--upstream", upstream.origin], os.getpid)
        process.start()
        process.wait_until_ready()
        child = process.pid
        process.stop()
        assert not is_alive(child)
        assert process.pid is None

    def test_is_killed_where_it_does_not_stop(self, tmp_path, stand_in, monkeypatch):
        stand_in(sys.executable, "-c", STUBBORN)
        monkeypatch.setattr(module, "_STOP_SECONDS", 0.01)
        process = ShimProcess(str(tmp_path), [], os.getpid)
        process.start()
        process.wait_until_ready()
        child = process.pid
        process.stop()
        assert not is_alive(child)


class TestAChildThatDoesNotStart:
    def test_is_told_with_its_own_last_words(self, new):
        process = new("--log-file", "/absent/folder/log")
        process.start()
        with pytest.raises(ShimFailed, match=r"^--log-file: .*/absent/folder/log"):
            process.wait_until_ready()

    def test_is_told_with_its_status_where_it_said_nothing(self, new, stand_in):
        stand_in(sys.executable, "-c", "raise SystemExit(3)")
        process = new()
        process.start()
        with pytest.raises(ShimFailed, match=r"^it ended with status 3$"):
            process.wait_until_ready()

    def test_is_not_waited_for_without_end(self, new, stand_in, clock):
        stand_in(sys.executable, "-c", "import signal; signal.pause()")
        process = new()
        process.start()
        clock.now += 10.1
        with pytest.raises(ShimFailed, match=r"^it is not ready after 10 s$"):
            process.wait_until_ready()

    def test_is_an_error_where_there_is_no_such_program(self, new, stand_in):
        stand_in("/absent/program")
        with pytest.raises(FileNotFoundError):
            new().start()


class TestADeadChild:
    def test_is_replaced_on_the_same_socket_where_agents_wait(self, running, upstream):
        origin, first = running.origin, running.pid
        os.kill(first, signal.SIGKILL)
        see_end(running)
        assert running.pid is None
        agent = call(running)  # while there is none
        running.start_again()
        assert running.due is None
        assert running.pid not in (None, first)
        assert running.origin == origin
        assert answered(agent, upstream)

    def test_is_due_later_each_time_and_never_given_up(self, new, stand_in, clock):
        stand_in(sys.executable, "-S", "-c", "")
        process = new()
        delays = []
        for _ in range(9):
            process.start_again()
            see_end(process)
            delays.append(process.due - clock.now)
        assert delays == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0, 2.0])

    def test_that_lived_for_long_is_due_soon(self, new, stand_in, clock):
        stand_in(sys.executable, "-S", "-c", "")
        process = new()
        for lived, delay in ((0, 0.05), (10.0, 0.1), (10.1, 0.05), (0, 0.1)):
            process.start_again()
            clock.now += lived
            see_end(process)
            assert process.due - clock.now == pytest.approx(delay)

    def test_is_due_again_where_no_process_is_to_be_had(self, new, stand_in, clock):
        stand_in("/absent/program")
        process = new()
        for delay in (0.05, 0.1):
            process.start_again()
            assert process.pid is None
            assert process.due - clock.now == pytest.approx(delay)


class TestTheCommand:
    def test_takes_nothing_from_the_folder_or_the_python_path(self, tmp_path):
        for name in ("json.py", "socket.py", "argparse.py", "history_delta_shim.py"):
            (tmp_path / name).write_text("raise SystemExit('shadowed')")
        command = [*module.serve_command(), "--help"]
        done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        assert "--upstream" in done.stdout

    def test_needs_an_interpreter_that_knows_itself(self, monkeypatch):
        monkeypatch.setattr(sys, "executable", "")
        with pytest.raises(ShimFailed, match="does not know its own executable"):
            module.serve_command()
