# SPDX-License-Identifier: Apache-2.0
"""What this shim does to sockets: options that may fail, waiting on two at once, and the three ways to close one.

No bytes are interpreted here.
"""

import select
import socket
import struct
import sys
import time
from typing import Any, Callable, Optional, Sequence, Set, Tuple

KEEP_ALIVE_SECONDS = 15
USER_TIMEOUT_MS = 30000
RECEIVE_BYTES = 64 * 1024
LINGER_SECONDS = 1.0  # for the peer to take the last bytes before its own unread ones cost it a reset
FLUSH_SECONDS = 5.0

_FAILED = select.POLLHUP | select.POLLERR | select.POLLNVAL
READABLE = select.POLLIN | _FAILED
# The peer's end of input, also behind bytes that nobody has read. Where the platform has no such event, bytes that
# an agent pipelines hide its departure until they are read.
_PEER_CLOSED = getattr(select, "POLLRDHUP", 0)
_SIOCOUTQ = 0x5411

_dropped_options: Set[str] = set()


_KEEP_IDLE = "TCP_KEEPIDLE" if hasattr(socket, "TCP_KEEPIDLE") else "TCP_KEEPALIVE"
AGENT_OPTIONS = (
    (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, _KEEP_IDLE, KEEP_ALIVE_SECONDS),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", KEEP_ALIVE_SECONDS),
)
# Not for agents: it also ends a connection whose other side merely does not read for so long.
UPSTREAM_OPTIONS = AGENT_OPTIONS + ((socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", USER_TIMEOUT_MS),)


def tune(sock: socket.socket, options: Sequence[Tuple[int, str, int]], report: Callable[[str, str], None]) -> None:
    """Make a connection quick and its death noticed; report(option, error) once for each option that fails."""
    for level, name, value in options:
        try:
            sock.setsockopt(level, getattr(socket, name), value)
        except (AttributeError, OSError) as error:
            if name not in _dropped_options:
                _dropped_options.add(name)
                report(name, str(error))


class Departure(object):
    """Tells when an agent has closed its side, while its thread waits for something else.

    Pipelined bytes are no departure; the end of input is, and so is a reset.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._fd = sock.fileno()
        self._events = _PEER_CLOSED or select.POLLIN

    def register(self, poller: Any) -> None:
        poller.register(self._fd, self._events)

    def shown_by(self, ready: Any) -> bool:
        """Whether a poll result, as a dict, says that the agent has left."""
        events = ready.get(self._fd, 0)
        if _PEER_CLOSED or not events & select.POLLIN:
            return bool(events & (_PEER_CLOSED | _FAILED))
        if self._peek():
            self._events = 0
            return False
        return True

    def _peek(self) -> bytes:
        try:
            return self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return b""


def wait(sock: Any, events: int, departure: Optional[Departure] = None, timeout: Optional[float] = None) -> Any:
    """Poll one socket, and the agent's departure beside it.

    Returns (the socket's events, 0 where the timeout passed; whether the agent has left).
    """
    poller = select.poll()
    poller.register(sock, events)
    if departure is not None:
        departure.register(poller)
    ready = dict(poller.poll(None if timeout is None else max(0, int(timeout * 1000 + 0.999))))
    return ready.get(sock.fileno(), 0), departure is not None and departure.shown_by(ready)


def is_readable(sock: Any) -> bool:
    """Whether there are bytes, an end of input or an error to be read now."""
    return bool(wait(sock, select.POLLIN, timeout=0)[0])


def close_after_flush(sock: socket.socket) -> None:
    """End our side, take what the peer still sends for a moment, close: nothing that we sent is lost to a reset."""
    try:
        sock.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + LINGER_SECONDS
        while wait(sock, select.POLLIN, timeout=deadline - time.monotonic())[0] and sock.recv(RECEIVE_BYTES):
            if time.monotonic() >= deadline:
                break
    except OSError:
        pass
    sock.close()


def reset(sock: socket.socket) -> None:
    """Close with a reset: the peer sees an error, and loses what it has not yet received."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    sock.close()


def reset_after_flush(sock: socket.socket) -> None:
    """Reset once the peer's kernel has all that was sent: the bytes arrive, and then the error."""
    deadline = time.monotonic() + FLUSH_SECONDS
    while _unsent(sock) and time.monotonic() < deadline:
        time.sleep(0.002)
    reset(sock)


def _unsent(sock: socket.socket) -> int:
    """Bytes in the send queue that the peer has not acknowledged; 0 where the platform does not tell."""
    if not sys.platform.startswith("linux"):
        return 0
    import fcntl

    try:
        return int(struct.unpack("i", fcntl.ioctl(sock.fileno(), _SIOCOUTQ, b"\0\0\0\0"))[0])
    except OSError:
        return 0
