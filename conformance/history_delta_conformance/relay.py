# SPDX-License-Identifier: Apache-2.0
"""A recording TCP relay: what passes through reaches the target unchanged, and a copy goes to an observer.

Half-closes and resets are passed on as what they are. It knows nothing of HTTP itself and alters no byte.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Self

from .observer import ConnectionObserver, Exchange

_CHUNK = 256 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Relay:
    """Relays every connection on ``url`` to a target origin; use as an async context manager.

    ``exchanges`` holds what crossed it, in the order in which the requests began; ``failures`` what was no HTTP/1.1.
    """

    def __init__(self, target: str) -> None:
        self.exchanges: list[Exchange] = []
        self._observers: list[ConnectionObserver] = []
        self._target = address_of(target)
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
            task = asyncio.create_task(self._relay(client))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _relay(self, client: socket.socket) -> None:
        observer = ConnectionObserver(len(self._observers), self.exchanges.append)
        self._observers.append(observer)
        server = socket.socket()
        with client, server:
            try:
                for end in (client, server):
                    end.setblocking(False)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await asyncio.get_running_loop().sock_connect(server, self._target)
                async with asyncio.TaskGroup() as both_ways:
                    both_ways.create_task(_copy(client, server, observer.from_client))
                    both_ways.create_task(_copy(server, client, observer.from_server))
            except* OSError:
                # One end was reset or could not be reached: let the other see the same.
                for end in (client, server):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


async def _copy(source: socket.socket, sink: socket.socket, observe: Callable[[bytes], None]) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _CHUNK):
        observe(data)
        await loop.sock_sendall(sink, data)
    observe(b"")
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def address_of(origin: str) -> tuple[str, int]:
    """Host and port of ``http://HOST:PORT``."""
    host, _, port = origin.removeprefix("http://").rstrip("/").rpartition(":")
    return host, int(port)
