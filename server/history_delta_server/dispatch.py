# SPDX-License-Identifier: Apache-2.0
"""Sends a request to a model server and lets its response run into a Call.

The one place that writes upstream: it chooses the server, joins the base path, puts in the operator's credential and
refuses to send a frame. Nothing is sent twice: another server is tried only where no connection came about.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from . import headers
from .call import Call, Framing
from .headers import Header
from .model_connection import ModelConnection
from .pool import ConnectionPool, Unreachable
from .upstreams import Upstream, Upstreams


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request for a model server. ``target`` is below the server's base path; ``headers`` are end-to-end ones.

    ``body`` is whole, or comes piece by piece: then its length, if it is known, is what ``headers`` say.
    """

    method: str
    target: str
    headers: list[Header]
    body: bytes | AsyncIterator[bytes]
    framing: Framing
    rollout: str | None


class FrameRefused(Exception):
    """A frame was about to be sent to a model: a fault of ours, and worth a failed call."""


class Dispatcher:
    def __init__(self, upstreams: Upstreams, pool: ConnectionPool, api_key: str | None = None) -> None:
        self._upstreams = upstreams
        self._pool = pool
        self._api_key = api_key
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def calls_in_flight(self) -> int:
        return len(self._tasks)

    def send(self, outgoing: Outgoing, call: Call) -> None:
        """Start the call. Raises FrameRefused before anything has left."""
        if headers.names_frame(outgoing.headers):
            raise FrameRefused
        task = asyncio.get_running_loop().create_task(self._run(outgoing, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        call.cancel = task.cancel

    async def drain(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def close(self) -> None:
        """Give up what is under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.close()

    async def _run(self, outgoing: Outgoing, call: Call) -> None:
        try:
            upstream, connection = await self._connect(outgoing.rollout, call)
        except Unreachable as error:
            call.fail_unsent(str(error))
            return
        except asyncio.CancelledError:
            call.fail_unsent("the agent left before a model server was reached")
            raise
        upstream.calls_in_flight += 1
        try:
            await _exchange(connection, outgoing, self._head(upstream, outgoing), call)
        except asyncio.CancelledError:
            call.fail("the agent left")
            raise
        finally:
            upstream.calls_in_flight -= 1
            call.fail("was called in a way that failed here")
            self._pool.release(upstream.url, connection)

    async def _connect(self, rollout: str | None, call: Call) -> tuple[Upstream, ModelConnection]:
        tried: dict[Upstream, str] = {}
        while (upstream := self._upstreams.choose(rollout, tried)) is not None:
            call.upstream = str(upstream)
            try:
                connection = await self._pool.acquire(upstream.url)
            except Unreachable as error:
                self._upstreams.unreachable(upstream)
                tried[upstream] = f"{upstream} ({error})"
            else:
                self._upstreams.reached(upstream)
                return upstream, connection
        raise Unreachable("no model server can be reached: tried " + ", ".join(tried.values()))

    def _head(self, upstream: Upstream, outgoing: Outgoing) -> bytes:
        target = upstream.url.base_path + outgoing.target
        start_line = f"{outgoing.method} {target} HTTP/1.1".encode("utf-8", "surrogateescape")
        sent = headers.replaced(outgoing.headers, b"Host", upstream.url.authority.encode("ascii"))
        sent = headers.with_credentials(sent, self._api_key, messages_dialect=_is_of_messages(outgoing.target))
        if outgoing.framing is Framing.CHUNKED:
            sent.append((b"Transfer-Encoding", b"chunked"))
        elif outgoing.framing is Framing.LENGTH and isinstance(outgoing.body, bytes):
            sent = headers.replaced(sent, b"Content-Length", b"%d" % len(outgoing.body))
        return headers.serialize(start_line, sent)


def _is_of_messages(target: str) -> bool:
    """Whether an API takes its key from x-api-key there: a call, or what counts the tokens of one."""
    return "messages" in target.partition("?")[0].split("/")


async def _exchange(connection: ModelConnection, outgoing: Outgoing, head: bytes, call: Call) -> None:
    """Send, and wait for the end of the response, which may come while a streamed body is still being sent."""
    connection.begin(call, outgoing.method)
    if isinstance(outgoing.body, bytes):
        connection.write_message(head, outgoing.body)
        await connection.ended.wait()
        return
    connection.write(head)
    sending = asyncio.get_running_loop().create_task(_stream(connection, outgoing, outgoing.body, call))
    try:
        await connection.ended.wait()
    finally:
        if not sending.done():
            # Half a request went out: nothing else may follow it.
            connection.abort()
            sending.cancel()


async def _stream(connection: ModelConnection, outgoing: Outgoing, body: AsyncIterator[bytes], call: Call) -> None:
    chunked = outgoing.framing is Framing.CHUNKED
    try:
        async for piece in body:
            connection.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await connection.drain()
    except Exception as error:
        # However reading from the agent failed, its request has no end, and must not get one here.
        call.fail(f"got no whole request: its body broke off ({type(error).__name__})")
        connection.abort()
        return
    if chunked:
        connection.write(b"0\r\n\r\n")
