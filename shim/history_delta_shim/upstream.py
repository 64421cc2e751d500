# SPDX-License-Identifier: Apache-2.0
"""The one upstream: how a connection to it is made, directly or through a proxy, and which idle ones are kept.

A connection belongs to one exchange from ``acquire`` until ``release`` or its ``close``; concurrent calls never share
one. Nothing is sent here but a proxy's CONNECT.
"""

import socket
import threading
import time
from typing import Any, Callable, List, Optional

from . import http1, sockets
from .connection import Broken, Connection, NotSent, TimedOut
from .headers import Headers, addressed
from .origin import Origin, authority, host_port, url
from .proxy_env import Proxy

CONNECT_SECONDS = 5.0  # for each of two attempts
IDLE_SECONDS = 15.0  # the server keeps a connection for 75 s: ours is gone long before
MAX_IDLE = 8


class Unreachable(Exception):
    """No connection could be made, so nothing has been sent. The text names the address and says why."""


class Upstream(object):
    """Connections to one origin, shared by all threads."""

    def __init__(self, origin: Origin, proxy: Optional[Proxy], report: Callable[..., None]) -> None:
        self.origin = origin
        self.proxy = proxy
        self._report = report  # (event, **fields)
        self._lock = threading.Lock()
        self._idle: List[Connection] = []
        self._tls: Any = _tls_context() if origin.scheme == "https" else None

    def target(self, target: str) -> str:
        """The request target on the wire: absolute where a proxy reads it."""
        return url(self.origin) + target if self.proxy and self.origin.scheme == "http" else target

    def hop_headers(self, headers: Headers) -> Headers:
        """The headers for the next hop: whom the request is for, and a proxy's credentials where it reads them."""
        headers = addressed(headers, authority(self.origin))
        if self.proxy and self.proxy.authorization and self.origin.scheme == "http":
            headers.append(("Proxy-Authorization", self.proxy.authorization))
        return headers

    def acquire(self, fresh: bool = False) -> Connection:
        """A connection for one exchange: the youngest idle one that still lives, else (or if ``fresh``) a new one."""
        while not fresh:
            self.sweep()
            with self._lock:
                if not self._idle:
                    break
                connection = self._idle.pop()
            if not connection.is_dead():
                return connection
            connection.close()
        try:
            return self.connect()
        except Unreachable:
            return self.connect()

    def release(self, connection: Connection) -> None:
        """Give a connection back; it is kept if its response has been read to an end that leaves it open."""
        reader = connection.reader
        if not connection.reusable or not reader.done or reader.excess or reader.framing.ends_with_input:
            connection.close()
            return
        connection.used = True
        connection.idle_since = time.monotonic()
        with self._lock:
            self._idle.append(connection)
            surplus = self._idle.pop(0) if len(self._idle) > MAX_IDLE else None
        if surplus is not None:
            surplus.close()

    def sweep(self) -> None:
        """Close what has been idle for too long."""
        oldest = time.monotonic() - IDLE_SECONDS
        with self._lock:
            old = [connection for connection in self._idle if connection.idle_since < oldest]
            self._idle = [connection for connection in self._idle if connection.idle_since >= oldest]
        for connection in old:
            connection.close()

    def connect(self, seconds: float = CONNECT_SECONDS) -> Connection:
        """A new connection, in that time at most, tried once. Raises Unreachable."""
        deadline = time.monotonic() + seconds
        first_hop = (self.proxy.host, self.proxy.port) if self.proxy else (self.origin.host, self.origin.port)
        try:
            sock = socket.create_connection(first_hop, timeout=seconds)
        except OSError as error:
            raise Unreachable("%s: %s" % (self.address, _why(error)))
        try:
            return self._prepare(sock, deadline)
        except (OSError, Broken, NotSent, TimedOut, ValueError) as error:  # a wrong host name is a ValueError in 3.6
            sock.close()
            raise Unreachable("%s: %s" % (self.address, _why(error)))

    @property
    def address(self) -> str:
        """What is connected to, as a person reads it."""
        via = " through the proxy %s" % host_port(self.proxy.host, self.proxy.port) if self.proxy else ""
        return host_port(self.origin.host, self.origin.port) + via

    def _prepare(self, sock: Any, deadline: float) -> Connection:
        sockets.tune(sock, sockets.UPSTREAM_OPTIONS, self._option_failed)
        if self.origin.scheme == "http":
            return Connection(sock, False)
        if self.proxy:
            self._tunnel(sock, self.proxy, deadline)
        sock.settimeout(max(0.1, deadline - time.monotonic()))
        # A connection that ends without TLS's own goodbye may have been cut: that must not look like an end.
        options = {"server_hostname": self.origin.host, "suppress_ragged_eofs": False}
        return Connection(self._tls.wrap_socket(sock, **options), True)

    def _option_failed(self, name: str, error: str) -> None:
        self._report("socket-option-failed", option=name, error=error)

    def _tunnel(self, sock: Any, proxy: Proxy, deadline: float) -> None:
        headers = [("Host", host_port(self.origin.host, self.origin.port))]
        if proxy.authorization:
            headers.append(("Proxy-Authorization", proxy.authorization))
        connection = Connection(sock, False)
        connection.begin("CONNECT")
        connection.send(http1.request_head("CONNECT", headers[0][1], headers))
        response = connection.next_event(deadline=deadline)
        while response.status < 200:
            response = connection.next_event(deadline=deadline)
        if response.status >= 300:
            raise http1.ProtocolError(502, "the proxy answered CONNECT with %d" % response.status)
        if connection.reader.excess:
            raise http1.ProtocolError(502, "the proxy sent bytes of its own into the tunnel")


def _tls_context() -> Any:
    """The system's trust store, or what SSL_CERT_FILE and SSL_CERT_DIR name."""
    import ssl  # only where it is needed: it costs milliseconds, and some Pythons have none

    context = ssl.create_default_context()
    # Some Pythons before 3.10 take an end without TLS's goodbye for a whole one: that hides a cut. 0x80 in OpenSSL 3.
    context.options &= ~getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0x80)
    # On by default from 3.13 on; curl and agents take a private authority's certificate without all that RFC 5280 asks.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.set_alpn_protocols(["http/1.1"])
    return context


def _why(error: Exception) -> str:
    if isinstance(error, (socket.timeout, TimedOut)):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
