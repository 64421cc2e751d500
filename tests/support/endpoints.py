# SPDX-License-Identifier: Apache-2.0
"""Both ends of an HTTP connection in a test's own hands: bytes go out as they are given, what comes in is read by h11.

The test says step by step what an agent and an upstream do, so that order is shown by order and never by sleeping.
"""

import socket
import ssl
import struct
from dataclasses import dataclass, field

import h11

PATIENCE = 10.0  # seconds: how long a test waits for what must come


@dataclass
class Message:
    """A request (``line`` is its method and target) or a response (``line`` is its status and reason)."""

    line: tuple
    version: str
    headers: list[tuple[str, str]]
    body: bytes = b""
    trailers: list[tuple[str, str]] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def names(self) -> set[str]:
        return {name.lower() for name, _ in self.headers}


class Endpoint:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        sock.settimeout(PATIENCE)
        self.socket = sock
        self._received = b""
        self._parser: h11.Connection | None = None

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """Whatever comes next, b"" at the end; what had been received already first."""
        data, self._received = self._received, b""
        return data or self.socket.recv(65536)

    def receive_until(self, marker: bytes) -> bytes:
        """All bytes up to and with the marker."""
        data = b""
        while marker not in data:
            piece = self.receive()
            assert piece, f"the connection ended after {data!r}"
            data += piece
        end = data.index(marker) + len(marker)
        self._received = data[end:]
        return data[:end]

    def receive_all(self) -> tuple[bytes, bool]:
        """All bytes to the end, and whether that was a reset."""
        data = b""
        try:
            while piece := self.receive():
                data += piece
        except ConnectionResetError:
            return data, True
        return data, False

    def read_request(self) -> Message:
        return self._read(h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20))

    def read_request_head(self) -> Message:
        """A request without waiting for its body."""
        self._parser = h11.Connection(h11.SERVER)
        return _message(self._next_event(self._parser))

    def read_response(self, method: str = "GET") -> Message:
        """The next final response; raises h11.RemoteProtocolError where it is cut."""
        return self._read(self._client(method))

    def read_response_head(self, method: str = "GET") -> Message:
        """A response without waiting for its body, of which ``next_data`` gives the pieces."""
        self._parser = self._client(method)
        return _message(self._next_event(self._parser))

    def next_data(self) -> bytes | None:
        """The next piece of the body, None at its end; raises h11.RemoteProtocolError where it is cut."""
        assert self._parser is not None
        event = self._next_event(self._parser)
        if isinstance(event, h11.Data):
            return bytes(event.data)
        self._received += self._parser.trailing_data[0]
        return None

    def _client(self, method: str) -> h11.Connection:
        parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
        parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        parser.send(h11.EndOfMessage())
        return parser

    def _read(self, parser: h11.Connection) -> Message:
        event = self._next_event(parser)
        while isinstance(event, h11.InformationalResponse):
            event = self._next_event(parser)
        message = _message(event)
        while not isinstance(event := self._next_event(parser), h11.EndOfMessage):
            message.body += event.data
        message.trailers = _text(event.headers)
        self._received += parser.trailing_data[0]
        return message

    def _next_event(self, parser: h11.Connection):
        while (event := parser.next_event()) is h11.NEED_DATA:
            parser.receive_data(self.receive())
        assert not isinstance(event, h11.ConnectionClosed), "the connection ended before a message"
        return event

    def end(self) -> None:
        """Close the sending side alone."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def is_ended(self) -> bool:
        """Wait for the other side's end, in whatever way, and say whether it came without a byte before it."""
        data, _ = self.receive_all()
        return data == b""


class ListeningEndpoint:
    """A listening socket of which the test accepts one connection after another."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._socket.settimeout(PATIENCE)
        self._tls = tls
        self._accepted: list[Endpoint] = []
        self.port = self._socket.getsockname()[1]
        self.origin = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def accept(self) -> Endpoint:
        sock, _ = self._socket.accept()
        endpoint = Endpoint(self._tls.wrap_socket(sock, server_side=True) if self._tls else sock)
        self._accepted.append(endpoint)
        return endpoint

    def has_caller(self) -> bool:
        """Whether a connection waits to be accepted."""
        self._socket.settimeout(0)
        try:
            sock, _ = self._socket.accept()
        except BlockingIOError:
            return False
        finally:
            self._socket.settimeout(PATIENCE)
        sock.close()
        return True

    def close(self) -> None:
        for endpoint in self._accepted:
            endpoint.close()
        self._socket.close()


def connect(port: int) -> Endpoint:
    return Endpoint(socket.create_connection(("127.0.0.1", port)))


def _message(event) -> Message:
    version = event.http_version.decode()
    if isinstance(event, h11.Request):
        line = (event.method.decode(), event.target.decode("latin-1"))
    else:
        line = (event.status_code, event.reason.decode("latin-1"))
    return Message(line, version, _text(event.headers.raw_items()))


def _text(headers) -> list[tuple[str, str]]:
    return [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in headers]
