# SPDX-License-Identifier: Apache-2.0
"""Reads a request's body from the agent's connection: a frame whole and unpacked, a full body whole or as a stream.

Bounded while it reads; what the bytes mean is rebuild.py's business.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from aiohttp import web
from history_delta_protocol import encoding, wire
from history_delta_protocol.frame import Malformed, TooLarge

from . import headers
from .admission import Ticket
from .call import Framing

# What has grown beyond this is unpacked beside the event loop.
_UNPACK_ASIDE = 256 * wire.KIB


@dataclass(frozen=True, slots=True)
class Body:
    """A body, ``whole`` or else the ``start`` of one whose rest is still to come."""

    start: bytes
    rest: AsyncIterator[bytes] | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        if self.start:
            yield self.start
        if self.rest is not None:
            async for piece in self.rest:
                yield piece


def framing_of(request: web.BaseRequest) -> Framing:
    """How the agent said where its body ends."""
    if headers.values(request.raw_headers, b"transfer-encoding"):
        return Framing.CHUNKED
    return Framing.LENGTH if headers.values(request.raw_headers, b"content-length") else Framing.NO_BODY


async def pieces(request: web.BaseRequest, pause: float) -> AsyncIterator[bytes]:
    """Raises TimeoutError where nothing comes for ``pause`` seconds while it is waited for."""
    while True:
        async with asyncio.timeout(pause):
            piece = await request.content.readany()
        if not piece:
            return
        yield piece


async def begun_body(request: web.BaseRequest, pause: float) -> Body:
    """A body as a stream, once its first piece or its end is there. Raises TimeoutError."""
    rest = pieces(request, pause)
    return Body(await anext(rest, b""), rest)


async def read_body(request: web.BaseRequest, ticket: Ticket, limit: int, pause: float) -> Body:
    """A full body, whole up to ``limit`` bytes, as a stream beyond.

    Raises Busy, and TimeoutError where nothing comes for ``pause`` seconds.
    """
    length = request.content_length
    if length is not None and length > limit:
        return await begun_body(request, pause)
    rest = pieces(request, pause)
    start = await _read(rest, ticket, limit)
    if len(start) <= limit:
        return Body(start)
    # From here on it is in flight upstream, not in memory.
    ticket.resize(0)
    return Body(start, rest)


async def read_frame(request: web.BaseRequest, ticket: Ticket, limit: int, pause: float) -> bytes:
    """A frame as it was sent. Raises TooLarge, Busy, and TimeoutError as ``read_body`` does."""
    sent = await _read(pieces(request, pause), ticket, limit)
    if len(sent) > limit:
        raise TooLarge("the frame", limit, "max_body_bytes")
    return sent


async def unpacked(request: web.BaseRequest, sent: bytes, ticket: Ticket, limit: int) -> bytes:
    """The frame without its content coding, counted as it grows. Raises Malformed, TooLarge and Busy."""
    codings = headers.tokens(request.raw_headers, b"content-encoding") - {b"identity"}
    if codings - {b"gzip"}:
        raise Malformed("Content-Encoding", "expected gzip or none")
    if not codings:
        return sent
    pieces = encoding.gunzip_pieces(sent, limit)
    read: list[bytes] = []
    size = len(sent)
    while (piece := await _next(pieces, aside=size > _UNPACK_ASIDE)) is not None:
        read.append(piece)
        size += len(piece)
        ticket.resize(size)
    return read[0] if len(read) == 1 else b"".join(read)


async def _next(pieces: Iterator[bytes], *, aside: bool) -> bytes | None:
    return await asyncio.to_thread(next, pieces, None) if aside else next(pieces, None)


async def _read(source: AsyncIterator[bytes], ticket: Ticket, limit: int) -> bytes:
    """All of it, or a little more than ``limit``."""
    read: list[bytes] = []
    size = 0
    async for piece in source:
        read.append(piece)
        size += len(piece)
        ticket.resize(size)
        if size > limit:
            break
    return read[0] if len(read) == 1 else b"".join(read)
