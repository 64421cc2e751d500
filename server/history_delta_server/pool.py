# SPDX-License-Identifier: Apache-2.0
"""Connections to model servers, and which of them are idle.

Opens, lends and takes back; what runs on a connection is model_connection.py's business. Sends nothing, and so repeats
nothing.
"""

import asyncio
import ssl
from collections import defaultdict
from dataclasses import dataclass

from history_delta_protocol import wire

from .kinds import UpstreamUrl
from .model_connection import ModelConnection
from .sockets import probe_when_silent


class Unreachable(Exception):
    """No connection came about, so nothing was sent."""


@dataclass(frozen=True, slots=True)
class PoolLimits:
    connect_seconds: float = 10.0
    idle_seconds: float = 4.0
    max_head_bytes: int = wire.MAX_HEAD_BYTES


class ConnectionPool:
    """Bounded by the calls in flight: it keeps no connection that was not lent out within ``idle_seconds``."""

    def __init__(self, limits: PoolLimits | None = None) -> None:
        self._limits = limits or PoolLimits()
        self._idle: defaultdict[UpstreamUrl, dict[ModelConnection, asyncio.TimerHandle]] = defaultdict(dict)
        self._open: set[ModelConnection] = set()
        self._tls: ssl.SSLContext | None = None

    async def acquire(self, url: UpstreamUrl) -> ModelConnection:
        """An idle connection, the one used last, or a new one. Raises Unreachable."""
        idle = self._idle[url]
        while idle:
            connection, timer = idle.popitem()
            timer.cancel()
            if connection.reusable:
                return connection
            connection.abort()
        try:
            async with asyncio.timeout(self._limits.connect_seconds):
                return await self._connect(url)
        except TimeoutError as error:
            raise Unreachable(f"no connection within {self._limits.connect_seconds:g} s") from error
        except OSError as error:
            raise Unreachable(" ".join((error.strerror or str(error)).split())[:200]) from error

    def release(self, url: UpstreamUrl, connection: ModelConnection) -> None:
        """After an exchange; a connection that no other may follow on is closed."""
        if not connection.reusable:
            connection.abort()
            return
        timer = asyncio.get_running_loop().call_later(self._limits.idle_seconds, self._retire, url, connection)
        self._idle[url][connection] = timer

    def close(self) -> None:
        for idle in self._idle.values():
            for timer in idle.values():
                timer.cancel()
            idle.clear()
        for connection in list(self._open):
            connection.abort()

    def _retire(self, url: UpstreamUrl, connection: ModelConnection) -> None:
        self._idle[url].pop(connection, None)
        connection.abort()

    def _lost(self, connection: ModelConnection) -> None:
        self._open.discard(connection)
        for idle in self._idle.values():
            timer = idle.pop(connection, None)
            if timer is not None:
                timer.cancel()

    async def _connect(self, url: UpstreamUrl) -> ModelConnection:
        transport, connection = await asyncio.get_running_loop().create_connection(
            lambda: ModelConnection(self._lost, self._limits.max_head_bytes),
            url.host,
            url.port,
            ssl=self._tls_context() if url.scheme == "https" else None,
            server_hostname=url.host if url.scheme == "https" else None,
        )
        self._open.add(connection)
        probe_when_silent(transport)
        return connection

    def _tls_context(self) -> ssl.SSLContext:
        """The system's trust store, or SSL_CERT_FILE."""
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls
