# SPDX-License-Identifier: Apache-2.0
"""One connection from an agent: its requests in order, the responses to them, and the ways in which it can end.

Blocking, used by one thread alone. What a request means, and where it goes, is decided elsewhere.
"""

import select
import socket
from typing import Any, List, Optional, Tuple

from . import http1, sockets
from .connection import AgentLeft, Connection
from .headers import Headers

IDLE_SECONDS = 600.0  # an agent that runs a tool for long finds its connection still there
_BODY_RECEIVE_BYTES = 256 * 1024


class AgentConnection(object):
    """The agent's socket with the reader of its requests."""

    def __init__(self, sock: Any) -> None:
        self._socket = sock
        self._reader = http1.RequestReader()
        self.departure = sockets.Departure(sock)
        self._idle = False  # waiting for a request of which nothing has come
        self.answered = False  # a byte of the present response has been written
        self.bytes_sent = 0  # of the present response

    def next_request(self) -> Optional[http1.Request]:
        """The next request head; None where the agent closed between two.

        Raises http1.ProtocolError, http1.Incomplete, and AgentLeft, also where it has been idle for too long.
        """
        self.answered = False
        self.bytes_sent = 0
        if self._reader.done:
            self._reader.next_message()
        self._idle = not self._reader.excess
        try:
            event = self._next_event(sockets.RECEIVE_BYTES)
        finally:
            self._idle = False
        return event if isinstance(event, http1.Request) else None

    @property
    def body_began(self) -> bool:
        """Whether bytes behind the request head have come already."""
        return bool(self._reader.excess)

    @property
    def request_done(self) -> bool:
        """Whether the present request has been read to its end."""
        return self._reader.done

    def read_body(self, may_hold: Any) -> Tuple[List[bytes], bool]:
        """The body's pieces, and whether they are all of it: reading stops when may_hold(total bytes) says no."""
        pieces: List[bytes] = []
        size = 0
        while True:
            event = self._next_event(_BODY_RECEIVE_BYTES)
            if isinstance(event, http1.End):
                return pieces, True
            pieces.append(event.data)
            size += len(event.data)
            if not may_hold(size):
                return pieces, False

    def next_piece(self, upstream: Connection) -> Any:
        """The next Data or End of the body; None where the upstream closes, or gives its final answer, first."""
        while True:
            event = self._reader.next_event()
            if event is not http1.NEED_DATA:
                return event
            poller = select.poll()
            poller.register(self._socket, select.POLLIN)
            poller.register(upstream, select.POLLIN)
            ready = dict(poller.poll(int(IDLE_SECONDS * 1000)))
            if not ready:
                raise AgentLeft()
            if upstream.fileno() in ready and upstream.has_answer():
                return None
            if self._socket.fileno() in ready:
                self._receive(sockets.RECEIVE_BYTES)

    def _next_event(self, size: int) -> Any:
        while True:
            event = self._reader.next_event()
            if event is not http1.NEED_DATA:
                return event
            if not sockets.wait(self._socket, select.POLLIN, timeout=IDLE_SECONDS)[0]:
                raise AgentLeft()
            self._receive(size)

    def _receive(self, size: int) -> None:
        try:
            self._reader.receive(self._socket.recv(size))
        except OSError:
            raise AgentLeft()
        self._idle = False

    def send(self, data: bytes) -> None:
        """Write a part of the present response. Raises AgentLeft."""
        if not data:
            return
        self.answered = True
        try:
            self._socket.sendall(data)
        except OSError:
            raise AgentLeft()
        self.bytes_sent += len(data)

    def send_interim(self, status: int, reason: str, headers: Headers) -> None:
        """Write a 1xx response, which is not yet an answer."""
        try:
            self._socket.sendall(http1.response_head(status, reason, headers))
        except OSError:
            raise AgentLeft()

    def close_if_idle(self) -> None:
        """Called from another thread: let one that waits for the next request see the end of input instead."""
        if self._idle:
            try:
                self._socket.shutdown(socket.SHUT_RD)
            except OSError:
                pass

    def close(self) -> None:
        """Close in good order: all that was sent arrives."""
        sockets.close_after_flush(self._socket)

    def cut(self, until_close: bool) -> None:
        """End a response that is not complete, so that the agent sees an error and every byte before it."""
        if not self.answered:
            sockets.reset(self._socket)
        elif until_close:
            sockets.reset_after_flush(self._socket)
        else:
            sockets.close_after_flush(self._socket)
