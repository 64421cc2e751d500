# SPDX-License-Identifier: Apache-2.0
"""What the shim adds to a call, by history size, and its memory with the store full.

Shim overhead is last request byte handed over by the agent -> first byte at the server, plus last response byte
written by the server -> last byte read by the agent: two loopback hops and the kernel's copies are in it. The shim is a
process of its own; agent and server stand in this one, so that one clock times both. The server answers at once, with
the real rebuild and the real acknowledgement.

    python benchmarks/shim_overhead.py [--calls 200] [--json benchmarks/results/shim_overhead.json]
"""

import argparse
import json
import os
import platform
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

from history_delta_protocol import encoding, wire
from history_delta_protocol.dialect import CHAT
from history_delta_server.history import HistoryStore
from history_delta_server.rebuild import Rebuilt, rebuild_frame, receive_full

ROOT = Path(__file__).resolve().parent.parent
SHIM = [sys.executable, "-I", "-S", str(ROOT / "dist" / "history_delta_shim.pyz")]
TARGET = "/ng-rollout/bench/v1/chat/completions"
_WARM_UP = 5
ANSWER = b'{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"ok"}}]}'


class Server:
    """Rebuilds, acknowledges and answers at once. ``first_byte`` and ``last_byte`` are of the latest model call."""

    def __init__(self) -> None:
        self.store = HistoryStore()
        self.first_byte = self.last_byte = 0.0
        self.received_bytes = 0
        self.body = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return self.listener.getsockname()[1]

    def _accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
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
            self._answer(connection, head, headers, b"".join(parts), first_byte)

    def _answer(
        self, connection: socket.socket, head: bytes, headers: dict[str, str], body: bytes, first_byte: float
    ) -> None:
        if head.startswith(b"GET"):
            document = json.dumps({"version": 1, "encodings": ["gzip"], "limits": {}}).encode()
            connection.sendall(_response(document))
            return
        self.first_byte, self.received_bytes = first_byte, len(body)
        rebuilt = self._rebuild(headers, body)
        self.body = rebuilt.body
        own = f"{wire.VERSION_HEADER}: 1\r\n{wire.HELD_HEADER}: {rebuilt.held_header}\r\n"
        connection.sendall(_response(ANSWER, own))
        self.last_byte = time.perf_counter()

    def _rebuild(self, headers: dict[str, str], body: bytes) -> Rebuilt:
        with self.store.in_flight("bench") as rollout:
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

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def call(self, body: bytes) -> tuple[float, float]:
        """When the last request byte was handed over, and when the last response byte had come."""
        head = f"POST {TARGET} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self.connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        sent = time.perf_counter()
        data = b""
        while not data.endswith(ANSWER):
            data += self.connection.recv(65536)
        return sent, time.perf_counter()


class Conversation:
    """A chat history that grows by a message of about 3 kB a call, escapes and non-ASCII included."""

    def __init__(self, size: int) -> None:
        self._random = random.Random(size)
        self._history = [self._message() for _ in range(max(1, size // 3200))]

    def _message(self) -> str:
        words = ["def", "return", '"value"', "\n    ", "naïve", "path/to/file.py", "0x1f", "🙂", "assert", "\\d+"]
        text = " ".join(self._random.choice(words) for _ in range(430))
        return json.dumps({"role": "user", "content": text}, ensure_ascii=False, separators=(",", ":"))

    def next_body(self) -> bytes:
        self._history.append(self._message())
        tools = json.dumps([{"name": f"tool{i}", "description": "d " * 150} for i in range(40)])
        return f'{{"model":"m","messages":[{",".join(self._history)}],"tools":{tools},"stream":true}}'.encode()


def start_shim(port: int) -> tuple[subprocess.Popen[bytes], int]:
    environment = {**os.environ, "HISTORY_DELTA_ENABLED": "1"}
    command = [*SHIM, "serve", "--upstream", f"http://127.0.0.1:{port}", "--listen", "127.0.0.1:0"]
    shim = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert shim.stdout is not None
    return shim, int(json.loads(shim.stdout.readline())["url"].rpartition(":")[2])


def measure(size: int, calls: int) -> dict[str, object]:
    server = Server()
    shim, shim_port = start_shim(server.port)
    try:
        agent = Agent(shim_port)
        overheads: list[float] = []
        sent_bytes: list[int] = []
        conversation = Conversation(size)
        for index in range(calls + _WARM_UP):
            body = conversation.next_body()
            sent, received = agent.call(body)
            assert server.body == body
            if index >= _WARM_UP:
                overheads.append((server.first_byte - sent) + (received - server.last_byte))
                sent_bytes.append(server.received_bytes)
        return {
            "history_bytes": len(body),
            "calls": calls,
            "uplink_bytes_p50": statistics.median(sent_bytes),
            "overhead_ms": _percentiles(overheads),
            "shim_rss_mb": _rss_mb(shim.pid),
        }
    finally:
        shim.terminate()
        shim.wait(10)


def fill(conversations: int, size: int) -> dict[str, object]:
    """Distinct conversations until the shim's store is full several times over."""
    server = Server()
    shim, shim_port = start_shim(server.port)
    try:
        empty = _rss_mb(shim.pid)
        agent = Agent(shim_port)
        for index in range(conversations):
            agent.call(Conversation(size + index).next_body())
        return {"rss_empty_mb": empty, "rss_full_mb": _rss_mb(shim.pid), "sent_mb": conversations * size / 1e6}
    finally:
        shim.terminate()
        shim.wait(10)


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
