# SPDX-License-Identifier: Apache-2.0
"""``serve`` as a process: how it starts, says that it is ready, and ends."""

import json
import os
import select
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from history_delta_shim import __version__, server
from support.endpoints import PATIENCE, connect
from support.http_text import END, answer, chunk, post, stream
from support.shim_server import environment, shim_command

UPSTREAM = ("--upstream", "http://127.0.0.1:9")


def serve(python, *options, env=None):
    """Run ``serve`` to its end, which must come by itself: (exit code, standard error)."""
    command = [*shim_command(python), "serve", *options]
    ran = subprocess.run(command, env=environment(**(env or {})), capture_output=True, text=True, timeout=PATIENCE)
    return ran.returncode, ran.stderr


def wait_until_it_accepts_no_more(shim):
    """It has seen the signal then."""
    try:
        while True:
            connect(shim.port).close()
    except ConnectionError:
        pass


def test_it_listens_on_loopback_at_a_free_port_and_says_so(start_shim, tmp_path):
    ready_file = tmp_path / "ready.json"
    shim = start_shim(*UPSTREAM, "--ready-file", str(ready_file))
    assert json.loads(ready_file.read_text()) == shim.ready
    assert shim.ready["url"].startswith("http://127.0.0.1:")
    assert shim.ready["pid"] == shim.process.pid
    assert shim.ready["version"] == "0.1.0"
    assert shim.agent()
    assert [path.name for path in tmp_path.glob("ready*")] == ["ready.json"]


def test_the_version_is_the_projects():
    pyproject = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'\nversion = "{__version__}"\n' in pyproject


def test_a_ready_file_of_before_does_not_stay(python, tmp_path):
    ready_file = tmp_path / "ready.json"
    ready_file.write_text("{}")
    code, _ = serve(python, *UPSTREAM, "--ready-file", str(ready_file), "--log-file", str(tmp_path / "none" / "log"))
    assert code == 2
    assert not ready_file.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it(start_shim, number):
    shim = start_shim(*UPSTREAM)
    idle = shim.agent()
    shim.process.send_signal(number)
    assert shim.process.wait(PATIENCE) == 0
    assert idle.is_ended()
    with pytest.raises(ConnectionError):
        connect(shim.port)


def test_a_signal_that_comes_as_soon_as_it_is_caught_is_not_lost(monkeypatch):
    install = signal.signal

    def at_once(number, handler):
        replaced = install(number, handler)
        if number == signal.SIGTERM:
            signal.raise_signal(number)
        return replaced

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with monkeypatch.context() as patch:
            patch.setattr(signal, "signal", at_once)
            with server._stop_requests() as wake:
                assert select.select([wake], [], [], 0)[0] == [wake]
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def test_a_call_in_flight_is_finished_before_it_ends(start_shim, upstream):
    shim = start_shim("--upstream", upstream.origin)
    agent = shim.agent()
    agent.send(post(b"{}"))
    peer = upstream.accept()
    peer.read_request()
    peer.send(stream() + chunk(b"one"))
    agent.read_response_head("POST")
    assert agent.next_data() == b"one"
    shim.process.terminate()
    wait_until_it_accepts_no_more(shim)
    peer.send(chunk(b"two") + END)
    assert agent.next_data() == b"two"
    assert agent.next_data() is None
    assert agent.receive() == b""
    assert shim.process.wait(PATIENCE) == 0


def test_a_second_signal_ends_it_at_once(start_shim, upstream):
    shim = start_shim("--upstream", upstream.origin)
    agent = shim.agent()
    agent.send(post(b"{}"))
    upstream.accept().read_request()
    shim.process.terminate()
    wait_until_it_accepts_no_more(shim)
    shim.process.terminate()
    assert shim.process.wait(PATIENCE) == 128 + signal.SIGTERM


def test_a_listening_socket_can_be_inherited_and_outlives_its_shim(start_shim, upstream):
    with socket.create_server(("127.0.0.1", 0)) as listening:
        options = ("--upstream", upstream.origin, "--listen-fd", str(listening.fileno()))
        first = start_shim(*options, pass_fds=[listening.fileno()])
        assert first.port == listening.getsockname()[1]
        first.process.kill()
        first.process.wait()
        agent = connect(first.port)  # waits in the backlog for whoever comes
        agent.send(post(b"{}"))
        start_shim(*options, pass_fds=[listening.fileno()])
        peer = upstream.accept()
        peer.read_request()
        peer.send(answer(b"r"))
        assert agent.read_response().body == b"r"


def test_the_end_of_the_watched_pipe_stops_it(start_shim):
    reader, writer = os.pipe()
    shim = start_shim(*UPSTREAM, "--watch-fd", str(reader), pass_fds=[reader])
    os.close(reader)
    assert shim.agent()
    os.close(writer)
    assert shim.process.wait(PATIENCE) == 0


def test_a_port_that_is_taken_names_the_setting_to_change(python):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, told = serve(python, *UPSTREAM, "--listen", address)
    assert code == 2
    assert told == f"history-delta: --listen: {address} is taken, expected a free port (0: any free one)\n"


@pytest.mark.parametrize(
    ("options", "env", "told"),
    [
        ([], {}, "HISTORY_DELTA_UPSTREAM"),
        (["--upstream", "http://h/v1"], {}, "--upstream: expected an origin"),
        ([*UPSTREAM, "--listen", "0.0.0.0:0"], {}, "--allow-remote"),
        ([*UPSTREAM, "--listen", "192.0.2.1:0", "--allow-remote"], {}, "--listen: cannot listen on 192.0.2.1:0"),
        ([*UPSTREAM], {"HISTORY_DELTA_ENABLED": "perhaps"}, "HISTORY_DELTA_ENABLED: expected 1 or 0"),
        ([*UPSTREAM, "--listen-fd", "0"], {}, "--listen-fd: expected"),
        ([*UPSTREAM, "--listen-fd", "zero"], {}, "--listen-fd"),
        ([*UPSTREAM, "--watch-fd", "99"], {}, "--watch-fd: expected"),
        ([*UPSTREAM, "--ready-file", "/nowhere/ready"], {}, "--ready-file: cannot write /nowhere/ready"),
        ([*UPSTREAM, "--log-file", "/nowhere/log"], {}, "--log-file: cannot open /nowhere/log"),
        ([*UPSTREAM, "--no-such-flag"], {}, "--no-such-flag"),
        ([*UPSTREAM, "--detach", "--ready-file", "/nowhere/ready"], {}, "--ready-file: cannot write /nowhere/ready"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(python, options, env, told):
    code, error = serve(python, *options, env=env)
    assert code == 2
    assert told in error
    assert error.startswith("history-delta: ")
    assert error.count("\n") == 1


def test_another_machine_may_be_let_in(start_shim):
    shim = start_shim(*UPSTREAM, "--listen", "0.0.0.0:0", "--allow-remote")
    assert shim.ready["url"].startswith("http://127.0.0.1:")
    assert shim.agent()


def test_calls_are_logged_to_standard_error_where_nothing_else_is_said(python, upstream):
    command = [*shim_command(python), "serve", "--upstream", upstream.origin]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        ready = json.loads(process.stdout.readline())
        started = json.loads(process.stderr.readline())
        process.terminate()
    assert (started["event"], started["enabled"], started["upstream"]) == ("ready", False, upstream.origin)
    assert started["pid"] == ready["pid"] == process.pid


def test_only_what_it_needs_is_loaded(start_shim):
    """Starting is on the agent's time."""
    heavy = {"http.client", "email", "urllib.request", "logging", "ssl", "subprocess", "asyncio"}
    telling = "import atexit, json; atexit.register(lambda: print(json.dumps(list(sys.modules)))); "
    shim = start_shim(*UPSTREAM, before=telling)
    shim.process.terminate()
    loaded = set(json.loads(shim.process.communicate()[0]))
    assert "history_delta_shim.server" in loaded
    assert loaded & heavy == set()
