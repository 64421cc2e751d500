# SPDX-License-Identifier: Apache-2.0
"""A response to an agent, written to its connection byte by byte as told.

Stands where aiohttp expects one of its own responses, which would add headers, write a terminal chunk after an
upstream's failure, and drop header bytes that are not UTF-8. Knows nothing of models and deliveries.
"""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections.abc import Sequence
from http import HTTPStatus

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from . import headers
from .call import Framing, Head
from .errors import Answer
from .headers import Header

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_RESET_WITHIN_SECONDS = 5.0
_REASONS = {status.value: status.phrase.encode("ascii") for status in HTTPStatus}


class AgentResponse(web.StreamResponse):
    """Call ``answer``, or ``start``, ``feed``… and then ``end`` or ``cut``."""

    def __init__(self, request: web.BaseRequest) -> None:
        super().__init__()
        self._request = request
        self._keep = request.keep_alive and not _asks_for_upgrade(request)
        self._framing = Framing.NO_BODY
        self.started = False

    # What aiohttp asks for once the handler has returned: everything has been written by then.

    @property
    def keep_alive(self) -> bool:
        return self._keep

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None

    # What this server does.

    def go_on(self) -> None:
        """100 Continue, for a client that waits for it before it sends its body."""
        if self._request.version >= (1, 1) and b"100-continue" in headers.tokens(self._request.raw_headers, b"expect"):
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")

    async def answer(self, answer: Answer, own: Sequence[Header]) -> None:
        """A whole response of ours."""
        head = Head(
            answer.status,
            _REASONS.get(answer.status, b""),
            [
                (b"Content-Type", b"application/json"),
                (b"Content-Length", b"%d" % len(answer.body)),
                *answer.headers,
                *own,
            ],
            Framing.NO_BODY if self._request.method == "HEAD" else Framing.LENGTH,
        )
        if answer.closes or not self._request.content.is_eof():
            # What is left of the body may never come, where the client waits for a 100 Continue.
            self._keep = False
        self.start(head, [], answer.body if head.framing is Framing.LENGTH else b"")
        await self._request.writer.drain()

    def start(self, head: Head, own: Sequence[Header], data: bytes = b"") -> None:
        """The head, with ``own`` headers behind the model's, and the body bytes that are there already."""
        self._framing = self._framing_for(head.framing)
        lines = [*head.headers, *own]
        if self._framing is Framing.CHUNKED:
            lines.append((b"Transfer-Encoding", b"chunked"))
        minor = 1 if self._request.version >= (1, 1) else 0
        if self._framing is Framing.CLOSE or not self._keep:
            self._keep = False
            lines.append((b"Connection", b"close"))
        elif minor == 0:
            lines.append((b"Connection", b"keep-alive"))
        start_line = b"HTTP/1.%d %d %b" % (minor, head.status, head.reason)
        self._send(headers.serialize(start_line, lines) + self._framed(data))
        self.started = True

    async def feed(self, data: bytes) -> None:
        """Body bytes; waits while the agent is slow."""
        self._send(self._framed(data))
        await self._request.writer.drain()

    def end(self) -> None:
        """The response is complete."""
        if self._framing is Framing.CHUNKED:
            self._send(b"0\r\n\r\n")

    async def cut(self) -> None:
        """The response is not complete, and the agent must see that: flush what there is, write no end, close."""
        self._keep = False
        transport = self._request.transport
        if transport is None:
            return
        if self.started and self._framing is not Framing.CLOSE:
            transport.close()
        else:
            # Closing would look like an end here; a reset that overtakes data would destroy it.
            await _sent(transport)
            _reset(transport)

    def _framing_for(self, framing: Framing) -> Framing:
        """HTTP/1.1 gets a length or chunks, so that a cut shows; HTTP/1.0 knows no chunks."""
        if framing in (Framing.CHUNKED, Framing.CLOSE):
            return Framing.CHUNKED if self._request.version >= (1, 1) else Framing.CLOSE
        return framing

    def _framed(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if data and self._framing is Framing.CHUNKED else data

    def _send(self, data: bytes) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the agent has closed its connection")
        transport.write(data)


def _asks_for_upgrade(request: web.BaseRequest) -> bool:
    """None is made here; but the parser takes what follows such a request for another protocol's, and loses it."""
    named = b"upgrade" in headers.tokens(request.raw_headers, b"connection")
    return request.method == "CONNECT" or (named and bool(headers.values(request.raw_headers, b"upgrade")))


async def _sent(transport: asyncio.Transport) -> None:
    """Until the peer has acknowledged all that was written, or for some seconds."""
    sock = transport.get_extra_info("socket")
    deadline = asyncio.get_running_loop().time() + _RESET_WITHIN_SECONDS
    while asyncio.get_running_loop().time() < deadline and not transport.is_closing():
        if not transport.get_write_buffer_size() and not _unacknowledged(sock):
            return
        await asyncio.sleep(0.005)


def _unacknowledged(sock: socket.socket) -> int:
    try:
        return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4), "little")
    except OSError:
        return 0


def _reset(transport: asyncio.Transport) -> None:
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    transport.abort()
