# SPDX-License-Identifier: Apache-2.0
"""A server in a case's own hands: it keeps each request as it came, and answers octet by octet as told.

It plays the model behind a server, and the server behind a shim. What to answer is for its user to say.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Self

from .base import CaseFailed
from .wire import Header, in_time

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_MAX_LINE = 1024 * 1024


class NotHttp(Exception):
    """What came is no request of HTTP/1.1."""


@dataclass
class Request:
    """``head`` is verbatim, ``body`` without transfer coding."""

    method: str
    target: str
    headers: list[Header]
    head: bytes
    body: bytes = b""

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: str) -> str | None:
        """The first value of that name."""
        return next(iter(self.values(name)), None)

    def names(self) -> set[str]:
        return {name.lower() for name, _ in self.headers}


@dataclass(eq=False)
class Call:
    """One request and the means to answer it. After ``over`` its connection takes the next."""

    request: Request
    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    async def send(self, data: bytes) -> None:
        """What comes after the other side has gone is dropped; asyncio would complain of it on stderr."""
        if self._writer.is_closing():
            return
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def respond(self, body: bytes = b"{}", *headers: Header, status: int = 200, reason: str = "OK") -> None:
        """A whole answer with its length."""
        await self.send(response_head(status, reason, *headers, ("Content-Length", str(len(body)))) + body)
        self.over()

    async def start(self, *headers: Header, status: int = 200, reason: str = "OK") -> None:
        """The head of a chunked answer; ``chunk`` and ``end`` follow."""
        await self.send(response_head(status, reason, *headers, ("Transfer-Encoding", "chunked")))

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.send(b"0\r\n\r\n")
        self.over()

    def over(self) -> None:
        self.is_over.set()

    def close(self) -> None:
        """Close in good order, whatever of the answer is missing."""
        self._writer.close()
        self.over()

    def reset(self) -> None:
        sock = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._writer.transport.abort()
        self.over()

    async def wait_until_given_up(self, expected: str, seconds: float | None = None) -> None:
        """Until the other side has closed this connection; fails the case where it goes on."""
        async with in_time(expected, seconds):
            try:
                data = await self._reader.read(1)
            except ConnectionError:
                return
        if data:
            raise CaseFailed(expected, f"another octet: {data!r}")


Behaviour = Callable[[Call], Awaitable[None]]


class Endpoint:
    """Use as an async context manager, or ``listen`` and ``stop_listening`` by turns, on the same port.

    ``behave`` is called for each request. Where it returns before the call is over, the connection waits for that.
    ``not_http`` are connections on which came what is no request.
    """

    def __init__(self, behave: Behaviour, host: str = "127.0.0.1", port: int = 0) -> None:
        self.behave = behave
        self.host, self.port = host, port
        self.connections = 0
        self.not_http: list[str] = []
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._open: set[Call] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop_listening()

    @property
    def origin(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def listen(self) -> None:
        """Raises OSError where the address is not to be had."""
        self._server = await asyncio.start_server(self._serve, self.host, self.port, limit=_MAX_LINE, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop_listening(self) -> None:
        """Nobody listens on the port any more, and all connections are closed."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        for call in list(self._open):
            call.over()
        await self._all_closed.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        self._all_closed.clear()
        try:
            while (request := await read_request(reader)) is not None:
                await self._answer(Call(request, reader, writer))
        except NotHttp as error:
            self.not_http.append(str(error))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other side is gone, which is for the case to notice
        finally:
            self._writers.discard(writer)
            if not self._writers:
                self._all_closed.set()
            writer.close()

    async def _answer(self, call: Call) -> None:
        self._open.add(call)
        try:
            await self.behave(call)
            await call.is_over.wait()
        finally:
            self._open.discard(call)


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """A whole request; None at the end of the connection. Raises NotHttp."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise NotHttp(f"a head that ends early: {error.partial[:500]!r}") from None
        return None
    except asyncio.LimitOverrunError:
        raise NotHttp("a head without an end") from None
    request = _parsed(head)
    if "transfer-encoding" in request.names():
        request.body = b"".join([chunk async for chunk in _chunks(reader)])
    elif length := request.value("Content-Length"):
        request.body = await reader.readexactly(int(length))
    return request


def _parsed(head: bytes) -> Request:
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    try:
        method, target, _ = first.split(" ")
    except ValueError:
        raise NotHttp(f"a first line that is none: {first[:500]!r}") from None
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip() or not name:
            raise NotHttp(f"a line that is no header: {line[:500]!r}")
        headers.append((name, value.strip(" \t")))
    return Request(method, target, headers, head)


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\r\n")
        try:
            size = int(line.partition(b";")[0].strip(), 16)
        except ValueError:
            raise NotHttp(f"a line that is no chunk's: {line[:500]!r}") from None
        if not size:
            break
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass


def response_head(status: int, reason: str, *headers: Header) -> bytes:
    """A response's head as octets, with nothing added."""
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")
