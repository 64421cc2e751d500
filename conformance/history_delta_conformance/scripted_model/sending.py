# SPDX-License-Identifier: Apache-2.0
"""Sends an answer as ``faults`` has it: piece by piece, with silences, to its end, a cut or a reset.

What it leaves behind on the connection is what a broken server would; the HTTP server is told by a closed transport.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable

from aiohttp import web

from .faults import Course

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


async def send(
    request: web.Request, content_type: str, course: Course, pause: Callable[[], Awaitable[None]]
) -> web.StreamResponse:
    """Answer with status 200; ``pause`` is awaited after each piece. A reader that leaves is no error."""
    response = web.StreamResponse(headers={"Content-Type": content_type, "Cache-Control": "no-cache"})
    response.content_length = course.length
    with contextlib.suppress(ConnectionResetError):
        await response.prepare(request)
        for piece in course.pieces:
            await response.write(piece.data)
            await pause()
            if piece.silence:
                await asyncio.sleep(piece.silence)
        await _end(request, response, course)
    return response


async def _end(request: web.Request, response: web.StreamResponse, course: Course) -> None:
    if course.ending == "complete":
        await response.write_eof()
    elif course.ending == "reset":
        reset(request)
    elif request.transport is not None:
        # What is buffered still leaves, and then the end of the stream; no terminal chunk can follow it.
        request.transport.close()


def reset(request: web.Request) -> web.Response:
    """Reset the connection; the response stands for none."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        request.transport.abort()
    return web.Response()
