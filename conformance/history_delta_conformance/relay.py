# SPDX-License-Identifier: Apache-2.0
"""A recording TCP relay: what passes through reaches the target unchanged, and a copy goes to an observer.

Half-closes and resets are passed on as what they are. It knows nothing of HTTP itself and alters no byte; where it was
told to intervene in a request, it breaks, repeats or holds that one.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from .observer import ConnectionObserver, Exchange

_CHUNK = 256 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_EVENT_END = b"\n\n"
# A repeated request's connection is kept alive by the server: it is not waited for longer than this.
_REPEAT_SECONDS = 5.0


@dataclass(frozen=True)
class Intervention:
    """What befalls one request.

    ``meanwhile`` is awaited while the request is held, which then goes out on a new connection to the target.
    ``drop`` resets the client's connection instead of passing the request on. ``cut_after`` closes both ends behind
    that many server-sent events of the response, ``close_after`` behind its end; ``silence`` is for how many seconds
    nothing is passed on before that. ``repeat`` sends the request a second time, on a connection of its own, and reads
    that answer to its end for nobody.
    """

    meanwhile: Callable[[], Awaitable[None]] | None = None
    drop: bool = False
    cut_after: int | None = None
    silence: float = 0.0
    close_after: bool = False
    repeat: bool = False


Decide = Callable[[Exchange], Intervention | None]


class Relay:
    """Relays every connection on ``url`` to a target origin; use as an async context manager.

    ``exchanges`` holds what crossed it, in the order in which the requests began; ``failures`` what was no HTTP/1.1.
    ``decide``, if given, is asked once for each request, when it is complete and before any of it is passed on;
    ``struck`` are those in which it intervened, ``repeats`` the first lines of what repeated ones were answered.
    """

    def __init__(self, target: str, decide: Decide | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self.struck: list[Exchange] = []
        self.repeats: list[str] = []
        self._observers: list[ConnectionObserver] = []
        self.target = address_of(target)
        self.decide = decide
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        tasks = [self._accepting, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self._listener.getsockname())

    @property
    def failures(self) -> list[str]:
        return [observer.failure for observer in self._observers if observer.failure is not None]

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self._listener)
            observer = ConnectionObserver(len(self._observers), self.exchanges.append)
            self._observers.append(observer)
            task = asyncio.create_task(_Connection(client, self, observer).relay())
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)


class _Connection:
    """One connection of a client, and the one to the target that belongs to it."""

    def __init__(self, client: socket.socket, relay: Relay, observer: ConnectionObserver) -> None:
        self._client, self._relay, self._observer = client, relay, observer
        self._server = socket.socket()
        self._answers: asyncio.Task[None] | None = None
        self._present: Exchange | None = None
        self._intervention = Intervention()
        self._events, self._last_byte = 0, b""

    async def relay(self) -> None:
        _prepare(self._client)
        try:
            await self._connect()
            async with asyncio.TaskGroup() as both_ways:
                self._both_ways = both_ways
                self._answers = both_ways.create_task(self._copy_answers())
                both_ways.create_task(self._copy_requests())
        except* OSError:
            # One end was reset or could not be reached: let the other see the same.
            _reset_on_close(self._client)
            _reset_on_close(self._server)
        finally:
            self._client.close()
            self._server.close()

    async def _connect(self) -> None:
        self._server.close()
        self._server = socket.socket()
        _prepare(self._server)
        await asyncio.get_running_loop().sock_connect(self._server, self._relay.target)

    async def _receive(self) -> bytes:
        try:
            return await asyncio.get_running_loop().sock_recv(self._client, _CHUNK)
        except OSError:
            self._observer.from_client(b"")  # It was reset, which is a way to leave as well.
            raise

    async def _copy_requests(self) -> None:
        loop = asyncio.get_running_loop()
        held = b""
        while data := await self._receive():
            held += data
            complete = self._observer.from_client(data)
            if self._relay.decide is not None and not complete and self._observer.failure is None:
                continue
            for exchange in complete:
                await self._intervene(exchange, held)
            await loop.sock_sendall(self._server, held)
            held = b""
        self._observer.from_client(b"")
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_WR)

    async def _intervene(self, exchange: Exchange, request: bytes) -> None:
        intervention = self._relay.decide(exchange) if self._relay.decide is not None else None
        if intervention is None:
            return
        self._relay.struck.append(exchange)
        if intervention.drop:
            raise ConnectionResetError
        if intervention.repeat:
            self._both_ways.create_task(self._repeat(request))
        if intervention.meanwhile is not None:
            await self._reconnect(intervention.meanwhile)
        self._present, self._intervention, self._events = exchange, intervention, 0
        self._last_byte = b""

    async def _reconnect(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """The present target may go away: its end must not be taken for the answer."""
        if self._answers is not None:
            self._answers.cancel()
            await asyncio.wait([self._answers])
        await meanwhile()
        await self._connect()
        self._answers = self._both_ways.create_task(self._copy_answers())

    async def _copy_answers(self) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._server, _CHUNK):
            passed = self._until_cut(data)
            self._observer.from_server(passed)
            await loop.sock_sendall(self._client, passed)
            if self._is_over():
                await asyncio.sleep(self._intervention.silence)
                self._observer.from_server(b"")
                self._close_softly()
                return
        self._observer.from_server(b"")
        with contextlib.suppress(OSError):
            self._client.shutdown(socket.SHUT_WR)

    def _until_cut(self, data: bytes) -> bytes:
        """The bytes up to where the response is to be cut; all of them before that."""
        if self._intervention.cut_after is None:
            return data
        seen, end = self._last_byte + data, 0
        self._last_byte = data[-1:]
        while (found := seen.find(_EVENT_END, end)) >= 0:
            end = found + len(_EVENT_END)
            self._events += 1
            if self._events == self._intervention.cut_after:
                return data[: end - (len(seen) - len(data))]
        return data

    def _is_over(self) -> bool:
        if self._intervention.cut_after is not None and self._events >= self._intervention.cut_after:
            return True
        return self._intervention.close_after and self._present is not None and self._present.response_complete

    def _close_softly(self) -> None:
        """Both ends see a close, and the client all bytes that were sent to it."""
        for end in (self._client, self._server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    async def _repeat(self, request: bytes) -> None:
        loop = asyncio.get_running_loop()
        with socket.socket() as again, contextlib.suppress(OSError):
            _prepare(again)
            await loop.sock_connect(again, self._relay.target)
            await loop.sock_sendall(again, request)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REPEAT_SECONDS):
                    answer = await loop.sock_recv(again, _CHUNK)
                    self._relay.repeats.append(answer.partition(b"\r\n")[0].decode("latin-1"))
                    while await loop.sock_recv(again, _CHUNK):
                        pass


def _prepare(end: socket.socket) -> None:
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _reset_on_close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


def address_of(origin: str) -> tuple[str, int]:
    """Host and port of ``http://HOST:PORT``."""
    host, _, port = origin.removeprefix("http://").rstrip("/").rpartition(":")
    return host, int(port)
