# SPDX-License-Identifier: Apache-2.0
"""What the shim adds to a call, by history size, and its memory with the store full.

Timed is first request byte handed over by the agent -> first byte at the server, plus last response byte written by the
server -> last byte read by the agent. The agent's write of its whole body over loopback is in that; what it takes by
itself is timed in the same run, call by call, with a bare reader in the shim's place, and taken off: the rest is the
shim's overhead. Agent, shim and server are processes of their own, timed by the one monotonic clock of the machine. The
server answers at once, with the real rebuild and the real acknowledgement.

    python benchmarks/shim_overhead.py [--calls 200] [--json benchmarks/results/shim_overhead.json]
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from history_delta_protocol import encoding, wire
from history_delta_protocol.dialect import CHAT
from history_delta_server.history import HistoryStore
from history_delta_server.rebuild import Rebuilt, rebuild_frame, receive_full

ROOT = Path(__file__).resolve().parent.parent
SHIM = [sys.executable, "-I", "-S", str(ROOT / "dist" / "history_delta_shim.pyz")]
TARGET = "/ng-rollout/bench/v1/chat/completions"
BARE = "/bare"
_WARM_UP = 5
ANSWER = b'{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"ok"}}]}'


class Seen(NamedTuple):
    """What the server saw of a call: three times, the request body's size on the wire, the rebuilt body's hash."""

    first_byte: float
    whole: float
    last_byte: float
    received_bytes: int
    sha256: str


class Server:
    """Rebuilds, acknowledges and answers at once, and reports on ``seen``."""

    def __init__(self, port: Connection, seen: Connection) -> None:
        self._store = HistoryStore()
        self._seen = seen
        self._listener = socket.create_server(("127.0.0.1", 0))
        port.send(self._listener.getsockname()[1])
        self._accept()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        while True:
            data = connection.recv(1 << 20)
            first_byte = time.perf_counter()
            if not data:
                return
            while b"\r\n\r\n" not in data:
                data += connection.recv(1 << 20)
            head, _, body = data.partition(b"\r\n\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in _lines(head))}
            parts, missing = [body], int(headers.get("content-length", 0)) - len(body)
            while missing > 0:
                parts.append(connection.recv(min(missing, 1 << 20)))
                missing -= len(parts[-1])
            self._answer(connection, head, headers, b"".join(parts), (first_byte, time.perf_counter()))

    def _answer(
        self,
        connection: socket.socket,
        head: bytes,
        headers: dict[str, str],
        body: bytes,
        times: tuple[float, float],
    ) -> None:
        if head.startswith(b"GET"):
            document = json.dumps({"version": 1, "encodings": ["gzip"], "limits": {}}).encode()
            connection.sendall(_response(document))
            return
        if BARE.encode() in head:
            connection.sendall(_response(ANSWER))
            self._seen.send(Seen(*times, time.perf_counter(), len(body), ""))
            return
        rebuilt = self._rebuild(headers, body)
        own = f"{wire.VERSION_HEADER}: 1\r\n{wire.HELD_HEADER}: {rebuilt.held_header}\r\n"
        connection.sendall(_response(ANSWER, own))
        last_byte = time.perf_counter()
        self._seen.send(Seen(*times, last_byte, len(body), hashlib.sha256(rebuilt.body).hexdigest()))

    def _rebuild(self, headers: dict[str, str], body: bytes) -> Rebuilt:
        with self._store.in_flight("bench") as rollout:
            if headers.get("content-type") != wire.FRAME_MEDIA_TYPE:
                return receive_full(rollout, CHAT, body)
            if headers.get("content-encoding") == "gzip":
                body = encoding.gunzip(body, wire.MAX_BODY_BYTES)
            return rebuild_frame(rollout, CHAT, body)


def _lines(head: bytes) -> list[str]:
    return head.decode("latin-1").split("\r\n")[1:]


def _response(body: bytes, own: str = "") -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{own}Content-Length: {len(body)}\r\n\r\n".encode() + body
    )


class Agent:
    """One keep-alive connection that sends whole bodies."""

    def __init__(self, port: int, target: str = TARGET) -> None:
        self._target = target
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, body: bytes) -> tuple[float, float]:
        """When the first request byte was handed over, and when the last response byte had come."""
        head = f"POST {self._target} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
        begun = time.perf_counter()
        self.connection.sendall(request)
        data = b""
        while not data.endswith(ANSWER):
            data += self.connection.recv(65536)
        return begun, time.perf_counter()


class Conversation:
    """A chat history of messages of about 3 kB, escapes and non-ASCII included, that grows by 500 bytes a call: slowly,
    so that a run stays near its size."""

    def __init__(self, size: int) -> None:
        self._random = random.Random(size)
        self._history = [self._message(430) for _ in range(max(1, size // 3200))]

    def _message(self, words_count: int) -> str:
        words = ["def", "return", '"value"', "\n    ", "naïve", "path/to/file.py", "0x1f", "🙂", "assert", "\\d+"]
        text = " ".join(self._random.choice(words) for _ in range(words_count))
        return json.dumps({"role": "user", "content": text}, ensure_ascii=False, separators=(",", ":"))

    def next_body(self) -> bytes:
        self._history.append(self._message(60))
        tools = json.dumps([{"name": f"tool{i}", "description": "d " * 150} for i in range(40)])
        return f'{{"model":"m","messages":[{",".join(self._history)}],"tools":{tools},"stream":true}}'.encode()


@contextmanager
def chain() -> Iterator[tuple[Agent, Agent, Connection, int]]:
    """An agent behind shim and server; one at the server's bare reader; what the server saw; the shim's pid."""
    spawn = multiprocessing.get_context("spawn")
    seen, seen_by_server = spawn.Pipe(duplex=False)
    server = spawn.Process(target=Server, args=(seen_by_server, seen_by_server), daemon=True)
    server.start()
    port = seen.recv()
    command = [*SHIM, "serve", "--upstream", f"http://127.0.0.1:{port}", "--listen", "127.0.0.1:0"]
    environment = {**os.environ, "HISTORY_DELTA_ENABLED": "1"}
    shim = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert shim.stdout is not None
        ready = json.loads(shim.stdout.readline())
        yield Agent(int(ready["url"].rpartition(":")[2])), Agent(port, BARE), seen, shim.pid
    finally:
        shim.terminate()
        shim.wait(10)
        server.terminate()
        server.join(10)


def measure(size: int, calls: int) -> dict[str, object]:
    with_shim: list[float] = []
    bare: list[float] = []
    sent_bytes: list[int] = []
    conversation = Conversation(size)
    with chain() as (agent, bare_agent, seen, shim_pid):
        for _ in range(calls + _WARM_UP):
            body = conversation.next_body()
            begun, received = agent.call(body)
            server: Seen = seen.recv()
            assert server.sha256 == hashlib.sha256(body).hexdigest()
            with_shim.append((server.first_byte - begun) + (received - server.last_byte))
            sent_bytes.append(server.received_bytes)
            begun, _ = bare_agent.call(body)
            bare.append(seen.recv().whole - begun)
        overheads = [one - other for one, other in zip(with_shim, bare, strict=True)]
        return {
            "history_bytes": len(body),
            "calls": calls,
            "uplink_bytes_p50": statistics.median(sent_bytes[_WARM_UP:]),
            "with_shim_ms": _percentiles(with_shim[_WARM_UP:]),
            "bare_reader_ms": _percentiles(bare[_WARM_UP:]),
            "overhead_ms": _percentiles(overheads[_WARM_UP:]),
            "shim_rss_mb": _rss_mb(shim_pid),
        }


def fill(conversations: int, size: int) -> dict[str, object]:
    """Distinct conversations until the shim's store is full several times over."""
    with chain() as (agent, _, seen, shim_pid):
        empty = _rss_mb(shim_pid)
        for index in range(conversations):
            agent.call(Conversation(size + index).next_body())
            seen.recv()
        return {"rss_empty_mb": empty, "rss_full_mb": _rss_mb(shim_pid), "sent_mb": conversations * size / 1e6}


def _percentiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "p50": round(1e3 * ordered[len(ordered) // 2], 3),
        "p90": round(1e3 * ordered[len(ordered) * 9 // 10], 3),
    }


def _rss_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return round(int(status.partition("VmHWM:")[2].split()[0]) / 1024, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--calls", type=int, default=200, help="timed calls for each size (default 200)")
    parser.add_argument("--json", type=Path, help="write the result there as well")
    arguments = parser.parse_args()
    sizes = [100_000, 1_000_000, 10_000_000]
    result = {
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "by_history": [measure(size, arguments.calls if size < 5_000_000 else arguments.calls // 4) for size in sizes],
        "memory": fill(300, 1_000_000),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
