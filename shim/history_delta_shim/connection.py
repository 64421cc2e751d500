# SPDX-License-Identifier: Apache-2.0
"""One connection to the upstream, owned by one exchange at a time, that waits for its socket and its agent at once.

It frames nothing that it sends and interprets nothing that it reads beyond HTTP/1.1 framing; the pool is elsewhere.
"""

import select
import time
from collections import deque
from typing import Any, Deque, Optional, Union

from . import http1, sockets
from .sockets import Departure

# One TLS record: what has gone out of a failed first write is then never a whole request.
_TLS_SLICE = 16 * 1024
_PLAIN_SLICE = 1024 * 1024


class AgentLeft(Exception):
    """The agent closed its connection before it had its response."""


class TimedOut(Exception):
    """The deadline that was given passed."""


class NotSent(Exception):
    """The connection failed before any byte of the request had been written: nothing can have been acted on."""


class Broken(Exception):
    """The response will not come, or not to its end; what has been acted on is unknown."""


class Connection(object):
    """A connected socket in non-blocking mode with the reader of the response that it is to bring."""

    def __init__(self, sock: Any, tls: bool) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._tls = tls
        self.used = False  # has carried an exchange before this one
        self.idle_since = 0.0
        self.begin("GET")

    def begin(self, method: str) -> None:
        """Start an exchange: what comes next is the response to a request of that method."""
        self.written = 0  # bytes of the request
        self.all_sent = False  # the request was written to its end
        self.answered = False  # the head of the response has been read
        self.reusable = False  # once the response has been read to its end
        self.reader = http1.ResponseReader(method)
        self._early: Deque[Union[http1.Response, Broken]] = deque()  # met while the request was still being sent

    def is_dead(self) -> bool:
        """Whether an idle connection is unusable: what can be read now is its end, or nobody asked for it."""
        try:
            return sockets.is_readable(self._socket) and self._take() is not None
        except OSError:
            return True

    def send(self, data: bytes, departure: Optional[Departure] = None) -> bool:
        """Send all of it, or return False where the upstream gave its final answer or closed first.

        Raises NotSent and AgentLeft.
        """
        view = memoryview(data)
        step = _TLS_SLICE if self._tls else _PLAIN_SLICE
        while view:
            sent = self._send_some(view[:step])
            if sent is None:
                return False
            self.written += sent
            view = view[sent:]
            if not sent and self._answered_while_sending(departure):
                return False
        return True

    def _send_some(self, view: memoryview) -> Optional[int]:
        try:
            return int(self._socket.send(view))
        except OSError as error:
            if _would_block(error):
                return 0
            if not self.written:
                raise NotSent(str(error))
            return None

    def _answered_while_sending(self, departure: Optional[Departure]) -> bool:
        ready, left = sockets.wait(self._socket, select.POLLOUT | select.POLLIN, departure)
        if left:
            raise AgentLeft()
        return bool(ready & sockets.READABLE) and self.has_answer()

    def has_answer(self) -> bool:
        """Whether the final head came, or none will, while the request is still being sent; does not wait.

        A 1xx head is no answer: its sender may wait for the rest of the body. It is kept for ``next_event``.
        """
        try:
            data = self._take()
        except OSError:
            return True  # met again, and reported, when the response is read
        if data is None:
            return False
        self.reader.receive(data)
        return self._read_early()

    def _read_early(self) -> bool:
        try:
            while True:
                event = self.buffered_event()
                if event is http1.NEED_DATA:
                    return False
                self._early.append(event)
                if event.status >= 200 or event.status == 101:
                    return True
        except Broken as error:
            self._early.append(error)
            return True

    def next_event(self, departure: Optional[Departure] = None, deadline: Optional[float] = None) -> Any:
        """The next event of the response, waiting for bytes as long as it takes.

        Raises Broken, AgentLeft, and TimedOut at the deadline.
        """
        event = self._next_received()
        while event is http1.NEED_DATA:
            self.fill(departure, deadline)
            event = self._next_received()
        return event

    def _next_received(self) -> Any:
        if not self._early:
            return self.buffered_event()
        event = self._early.popleft()
        if isinstance(event, Broken):
            raise event
        return event

    def buffered_event(self) -> Any:
        """The next event behind the final head out of what has been received, or NEED_DATA. Raises Broken."""
        try:
            return self.reader.next_event()
        except (http1.ProtocolError, http1.Incomplete) as error:
            raise Broken(str(error))

    def fill(self, departure: Optional[Departure] = None, deadline: Optional[float] = None) -> None:
        """Wait for bytes, or the end of input, and feed the reader with them. Raises as next_event does."""
        try:
            data = self._take_decrypted()
            while data is None:
                self._wait_readable(departure, deadline)
                data = self._take()
        except OSError as error:
            raise Broken(str(error))
        self.reader.receive(data)

    def _wait_readable(self, departure: Optional[Departure], deadline: Optional[float]) -> None:
        timeout = None if deadline is None else deadline - time.monotonic()
        ready, left = sockets.wait(self._socket, select.POLLIN, departure, timeout)
        if left:
            raise AgentLeft()
        if not ready or (deadline is not None and time.monotonic() >= deadline):
            raise TimedOut()

    def _take_decrypted(self) -> Optional[bytes]:
        return self._take() if self._tls and self._socket.pending() else None

    def _take(self) -> Optional[bytes]:
        """What can be read now: bytes, b"" at the end of input, None where there is nothing yet."""
        try:
            return bytes(self._socket.recv(sockets.RECEIVE_BYTES))
        except OSError as error:
            if _would_block(error):
                return None
            raise

    def finish(self, seconds: float, limit: int) -> bool:
        """Read a response that nobody needs any more to its end; False where that takes longer or more bytes."""
        deadline = time.monotonic() + seconds
        try:
            while not self.reader.done:
                event = self.next_event(deadline=deadline)
                limit -= len(event.data) if isinstance(event, http1.Data) else 0
                if limit < 0:
                    return False
        except (TimedOut, Broken):
            return False
        return True

    def fileno(self) -> int:
        return int(self._socket.fileno())

    def close(self) -> None:
        self._socket.close()


def _would_block(error: OSError) -> bool:
    # ssl.SSLWantReadError and ssl.SSLWantWriteError, without loading ssl for plain connections.
    return isinstance(error, BlockingIOError) or type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")
