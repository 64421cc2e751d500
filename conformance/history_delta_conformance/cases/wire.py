# SPDX-License-Identifier: Apache-2.0
"""A client's connection in a case's own hands: octets go out as given, responses are read by h11.

Neither the shim's nor the server's code is used here: a case must be able to send what neither would, and to see a
broken response as it is.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import h11

from .base import CaseFailed
from .transcript import Transcript

# Seconds that anything which must come may take, where nothing else is said.
PATIENCE = 10.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_PIECE = 256 * 1024
_MAX_HEAD = 256 * 1024

Header = tuple[str, str]
Ending = Literal["complete", "cut", "reset"]


@dataclass
class Response:
    """``ending`` says whether its end was there, missing, or destroyed; ``framing`` how it said where that is."""

    status: int
    reason: str
    headers: list[Header]
    framing: Literal["length", "chunked", "close"]
    body: bytes = b""
    ending: Ending = "complete"
    trailers: list[Header] = field(default_factory=list)

    def values(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def value(self, name: str) -> str | None:
        """The first value of that name."""
        return next(iter(self.values(name)), None)


@contextlib.asynccontextmanager
async def in_time(expected: str, seconds: float | None = None) -> AsyncIterator[None]:
    """What does not come in time fails the case."""
    seconds = PATIENCE if seconds is None else seconds
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise CaseFailed(expected, f"nothing within {seconds:g} s") from None


class Connection:
    """One connection to the target; what crosses it is noted in the transcript under ``name``."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, transcript: Transcript, name: str
    ) -> None:
        self._reader, self._writer = reader, writer
        self._transcript, self._name = transcript, name
        self._received = b""
        self._parser: h11.Connection | None = None
        self.was_reset = False

    @classmethod
    async def open(cls, host: str, port: int, transcript: Transcript, name: str) -> Self:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), PATIENCE)
        return cls(reader, writer, transcript, name)

    async def send(self, data: bytes) -> None:
        """A target that closes while it is written to has said what it thinks: what it answered can still be read."""
        self._transcript.note(self._name, "sent", data)
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def receive(self) -> bytes:
        """Whatever comes next, b"" at the end, of which ``was_reset`` says more."""
        data, self._received = self._received, b""
        if data:
            return data
        try:
            data = await self._reader.read(_PIECE)
        except ConnectionError:
            self.was_reset = True
        self._transcript.note(self._name, "received" if data else "reset" if self.was_reset else "ended", data)
        return data

    async def receive_all(self) -> bytes:
        """Everything to the end of the connection."""
        parts = []
        async with in_time("the end of the connection"):
            while piece := await self.receive():
                parts.append(piece)
        return b"".join(parts)

    async def read_response(self, method: str = "POST", seconds: float | None = None) -> Response:
        """The next final response, whole or as far as it goes. Fails the case where none begins."""
        response = await self.read_head(method, seconds)
        parts = []
        while (piece := await self.next_data(response, seconds)) is not None:
            parts.append(piece)
        response.body = b"".join(parts)
        return response

    async def response_or_none(self, method: str = "POST") -> Response | None:
        """The next final response; None where the connection ends, in whatever way, before one begins."""
        data = await self.receive_in_time()
        if not data:
            return None
        self._received = data
        return await self.read_response(method)

    async def receive_in_time(self, expected: str = "a response, or the end of the connection") -> bytes:
        async with in_time(expected):
            return await self.receive()

    async def read_head(self, method: str = "POST", seconds: float | None = None) -> Response:
        """A final response without waiting for its body, of which ``next_data`` gives the pieces."""
        self._parser = _parser(method)
        async with in_time("a response", seconds):
            event = await self._next_event()
            while isinstance(event, h11.InformationalResponse):
                event = await self._next_event()
        if not isinstance(event, h11.Response):
            raise CaseFailed("a response", "a reset" if self.was_reset else f"the end of the connection ({event})")
        headers = _text(event.headers.raw_items())
        return Response(event.status_code, bytes(event.reason).decode("latin-1"), headers, _framing(headers))

    async def next_data(self, response: Response, seconds: float | None = None) -> bytes | None:
        """The next piece of the body; None at its end, of which ``response.ending`` says more."""
        assert self._parser is not None
        async with in_time("more of the response, or its end", seconds):
            event = await self._next_event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.EndOfMessage):
            response.trailers = _text(event.headers.raw_items())
            self._received += self._parser.trailing_data[0]
            # The end of the connection is the end of such a response; a reset is none.
            response.ending = "reset" if self.was_reset else "complete"
        else:
            response.ending = "reset" if self.was_reset else "cut"
        return None

    async def is_ended(self, seconds: float | None = None) -> bool:
        """Whether the other side closes, in whatever way, without a further octet."""
        async with in_time("the end of the connection", seconds):
            return await self.receive() == b""

    def end(self) -> None:
        """Close the sending side alone."""
        self._writer.write_eof()

    def reset(self) -> None:
        sock = self._writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _next_event(self) -> Any:
        """h11's next event; None where the connection ended before it, an error where what came makes no sense."""
        assert self._parser is not None
        try:
            while (event := self._parser.next_event()) is h11.NEED_DATA:
                self._parser.receive_data(await self.receive())
        except h11.RemoteProtocolError as error:
            return error
        return None if isinstance(event, h11.ConnectionClosed) else event


def _parser(method: str) -> h11.Connection:
    parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
    parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
    parser.send(h11.EndOfMessage())
    return parser


def _framing(headers: list[Header]) -> Literal["length", "chunked", "close"]:
    names = {name.lower() for name, _ in headers}
    return "chunked" if "transfer-encoding" in names else "length" if "content-length" in names else "close"


def _text(headers: Iterable[tuple[Any, Any]]) -> list[Header]:
    return [(bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in headers]


def request_head(method: str, target: str, headers: Iterable[Header], version: str = "1.1") -> bytes:
    """A request's head as octets, with nothing added, and nothing refused."""
    lines = [f"{method} {target} HTTP/{version}", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def chunked(*pieces: bytes) -> bytes:
    """A body in chunks, with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
