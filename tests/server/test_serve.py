# SPDX-License-Identifier: Apache-2.0
"""The server as a process."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ANY = "127.0.0.1:0"


class SlowModel(BaseHTTPRequestHandler):
    """Streams one event, and ends once it is let."""

    protocol_version = "HTTP/1.1"
    release = threading.Event()
    started = threading.Event()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"3\r\none\r\n")
        self.started.set()
        self.release.wait(30)
        self.wfile.write(b"3\r\ntwo\r\n0\r\n\r\n")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def model() -> Iterator[str]:
    SlowModel.release.clear()
    SlowModel.started.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), SlowModel)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    SlowModel.release.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def serve(*argv: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "history_delta_server", "serve", "--admin-listen", ANY, *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield serve
    for process in started:
        process.kill()
        process.communicate()


def wait_for(path: Path) -> dict[str, object]:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    document: dict[str, object] = json.loads(path.read_text())
    return document


def post(url: str, body: bytes = b"{}") -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    connection.request("POST", "/ng-rollout/r/v1/chat/completions", body)
    return connection.getresponse()


def test_one_line_and_the_ready_file_say_where_it_serves_and_sigterm_ends_it(serve, model, tmp_path) -> None:
    ready_file = tmp_path / "ready.json"
    SlowModel.release.set()
    process = serve("--upstream", model, "--listen", ANY, "--ready-file", str(ready_file), HISTORY_DELTA_ENABLED="1")
    ready = wait_for(ready_file)
    assert set(ready) == {"url", "admin_url", "pid", "version"}
    assert ready["pid"] == process.pid
    response = post(str(ready["url"]))
    assert (response.status, response.read()) == (200, b"onetwo")
    assert response.headers["History-Delta-Version"] == "1"
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out.count("\n") == 1
    assert str(ready["url"]) in out
    assert [json.loads(line)["event"] for line in err.splitlines()] == ["full-send", "call", "stopping"]
    assert not ready_file.exists()


def test_at_sigterm_calls_in_flight_come_to_their_end(serve, model, tmp_path) -> None:
    ready_file = tmp_path / "ready.json"
    process = serve("--upstream", model, "--listen", ANY, "--ready-file", str(ready_file))
    response = post(str(wait_for(ready_file)["url"]))
    assert response.read(3) == b"one"
    process.send_signal(signal.SIGTERM)
    line = process.stderr.readline()
    assert json.loads(line) == {**json.loads(line), "event": "stopping", "calls_in_flight": 1}
    SlowModel.release.set()
    assert response.read() == b"two"
    assert process.wait(20) == 0


def test_but_not_for_longer_than_allowed(serve, model, tmp_path) -> None:
    ready_file = tmp_path / "ready.json"
    process = serve("--upstream", model, "--listen", ANY, "--ready-file", str(ready_file), "--shutdown-seconds", "0.2")
    response = post(str(wait_for(ready_file)["url"]))
    assert response.read(3) == b"one"
    process.send_signal(signal.SIGTERM)
    with pytest.raises(http.client.IncompleteRead):
        response.read()
    assert process.wait(20) == 0


@pytest.mark.parametrize("flag", ["--listen", "--admin-listen"])
def test_a_port_that_is_taken_says_which_setting_to_change(serve, model, flag) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        process = serve("--upstream", model, "--listen", ANY, flag, address)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert (out, err.count("\n")) == ("", 1)
    assert f"{flag}: cannot listen on {address} (Address already in use)" in err


def test_a_second_start_leaves_the_first_ones_ready_file(serve, model, tmp_path) -> None:
    ready_file = tmp_path / "ready.json"
    serve("--upstream", model, "--listen", ANY, "--ready-file", str(ready_file))
    ready = wait_for(ready_file)
    address = str(ready["url"]).removeprefix("http://")
    second = serve("--upstream", model, "--listen", address, "--ready-file", str(ready_file))
    assert second.wait(20) == 2
    assert json.loads(ready_file.read_text()) == ready


def test_a_ready_file_that_cannot_be_written_is_one_line_too(serve, model) -> None:
    process = serve("--upstream", model, "--listen", ANY, "--ready-file", "/does/not/exist/ready.json")
    _, err = process.communicate(timeout=20)
    assert process.returncode == 2
    assert "--ready-file: cannot write" in err.splitlines()[-1]


def test_uvloop_is_used_where_it_can_be_had(serve, model, tmp_path) -> None:
    ready_file = tmp_path / "ready.json"
    process = serve("--upstream", model, "--listen", ANY, "--ready-file", str(ready_file))
    wait_for(ready_file)
    assert "uvloop" in Path(f"/proc/{process.pid}/maps").read_text()


@pytest.mark.parametrize("stderr", ["a pipe that nobody reads", "/dev/full"])
def test_a_log_that_takes_nothing_holds_no_request_up(stderr: str, tmp_path: Path, model) -> None:
    ready = tmp_path / "ready.json"
    readable, writable = os.pipe() if stderr != "/dev/full" else (None, os.open(stderr, os.O_WRONLY))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "history_delta_server", "serve", "--listen", ANY, "--admin-listen", ANY),
            *("--upstream", model, "--ready-file", str(ready)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=writable,
    )
    try:
        connection = http.client.HTTPConnection(str(wait_for(ready)["url"]).removeprefix("http://"), timeout=20)
        for _ in range(500):
            connection.request("GET", "/v1/.history-delta/" + "x" * 300)
            assert connection.getresponse().read()
        connection.close()
    finally:
        process.kill()
        process.wait()
        for descriptor in (readable, writable):
            if descriptor is not None:
                os.close(descriptor)


def test_a_usual_limit_on_descriptors_is_raised_as_far_as_it_goes() -> None:
    program = (
        "import resource; from history_delta_server import serve\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))\n"
        "serve._raise_descriptor_limit()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "True\n"
