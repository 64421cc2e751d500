# SPDX-License-Identifier: Apache-2.0
"""A model server in a test's own hands: real sockets, one thread a connection, every request kept as it came.

A call is answered by ``behave``, on its connection's thread, or, where there is none, by the test, step by step, which
gets it from ``next_call``: so order is shown by order and never by sleeping. The bytes of an answer are the test's.
"""

import contextlib
import queue
import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Self

from .endpoints import PATIENCE

Header = tuple[str, str]


@dataclass(frozen=True)
class Request:
    """What stood on the wire; ``body`` is without transfer coding."""

    method: str
    target: str
    headers: list[Header]
    body: bytes

    def value(self, name: str) -> str | None:
        """The one value of that name, None without."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(values) < 2, values
        return values[0] if values else None


class ModelCall:
    """One request and the means to answer it. After ``over`` its connection takes the next."""

    def __init__(self, request: Request, sock: socket.socket) -> None:
        self.request = request
        self.is_over = threading.Event()
        self._socket = sock

    @property
    def body(self) -> bytes:
        return self.request.body

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def can_send(self, seconds: float = 0.5) -> bool:
        """Whether the other side takes more, waiting so long for it."""
        return bool(select.select([], [self._socket], [], seconds)[1])

    def respond(self, body: bytes, *headers: str, status: str = "200 OK") -> None:
        """A whole answer with its length."""
        self.send(head(f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}") + body)
        self.over()

    def stream(self, *headers: str, status: str = "200 OK") -> None:
        """The head of a chunked answer; ``chunk`` and ``end`` follow."""
        self.send(head(f"HTTP/1.1 {status}", *headers, "Transfer-Encoding: chunked"))

    def chunk(self, data: bytes) -> None:
        self.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        self.send(b"0\r\n\r\n")
        self.over()

    def over(self) -> None:
        self.is_over.set()

    def close(self) -> None:
        """Close in good order, whatever of the answer is missing."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self.over()

    def reset(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        # The connection's thread still reads from it: its descriptor goes only with the last one who has it open.
        self._socket.shutdown(socket.SHUT_RD)
        self.over()

    def wait_until_given_up(self) -> None:
        """Until the other side has closed this connection; fails where it goes on."""
        assert select.select([self._socket], [], [], PATIENCE)[0], "the call was not given up"
        with contextlib.suppress(ConnectionResetError):
            assert self._socket.recv(1, socket.MSG_PEEK) == b""


class ModelServer:
    """Use as a context manager. ``calls`` are all POST requests, in the order in which they were complete."""

    def __init__(self, behave: Callable[[ModelCall], object] | None = None, port: int = 0) -> None:
        self.behave = behave
        self.calls: list[ModelCall] = []
        self.others: list[Request] = []
        self._waiting: queue.Queue[ModelCall] = queue.Queue()
        self._sockets: set[socket.socket] = set()
        self._listening = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port = self._listening.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Nobody listens on its port any more, and all connections are closed."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for sock in list(self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for call in self.calls:
            call.over()

    @property
    def bodies(self) -> list[bytes]:
        return [call.body for call in self.calls]

    def next_call(self) -> ModelCall:
        """The next call that no ``behave`` has answered, waiting for it."""
        try:
            return self._waiting.get(timeout=PATIENCE)
        except queue.Empty:
            raise AssertionError("no call reached the model") from None

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._sockets.add(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as source:
            try:
                while (request := read_request(source)) is not None:
                    self._answer(request, sock)
            except OSError:
                pass  # the other side is gone, which is for the test to notice
            finally:
                self._sockets.discard(sock)

    def _answer(self, request: Request, sock: socket.socket) -> None:
        if request.method != "POST":
            self.others.append(request)
            sock.sendall(head("HTTP/1.1 404 Not Found", "Content-Length: 0"))
            return
        call = ModelCall(request, sock)
        self.calls.append(call)
        if self.behave is None:
            self._waiting.put(call)
            call.is_over.wait()
        else:
            self.behave(call)


def head(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("latin-1")


def read_request(source: BinaryIO) -> Request | None:
    """A whole request; None where the input ends before that."""
    lines = []
    while (line := source.readline()) != b"\r\n":
        if not line.endswith(b"\r\n"):
            return None
        lines.append(line.decode("latin-1").removesuffix("\r\n"))
    method, target, _ = lines[0].split(" ")
    headers = [(line.partition(": ")[0], line.partition(": ")[2]) for line in lines[1:]]
    request = Request(method, target, headers, b"")
    if request.value("Transfer-Encoding") is not None:
        body = b"".join(_chunks(source))
    else:
        length = int(request.value("Content-Length") or 0)
        body = source.read(length)
        if len(body) < length:
            return None
    return Request(method, target, headers, body)


def _chunks(source: BinaryIO) -> list[bytes]:
    chunks = []
    while size := int(source.readline(), 16):
        chunks.append(source.read(size))
        source.readline()
    source.readline()
    return chunks
