# SPDX-License-Identifier: Apache-2.0
"""One exchange's way to the upstream: a connection with the request on it, up to the head of the response.

Retries where nothing can have been acted on, and nowhere else. Which request to send is decided by the caller.
"""

from typing import List, Optional

from history_delta_protocol import wire

from . import http1
from .agent_connection import AgentConnection
from .connection import Broken, Connection, NotSent
from .headers import FRAMING, Headers, end_to_end
from .upstream import Unreachable, Upstream

# An agent may close once it has read the final event; the response's end is then still on its way.
FINISH_SECONDS = 0.25
FINISH_BYTES = 64 * wire.KIB

_JOINED_BYTES = 64 * wire.KIB  # up to here a request goes out in one write


class Forwarding(object):
    """The upstream's side of one exchange. ``let_go`` must be called at its end, however that comes about."""

    def __init__(self, upstream: Upstream, agent: AgentConnection, request: http1.Request) -> None:
        self._upstream = upstream
        self._agent = agent
        self._request = request
        self._connection: Optional[Connection] = None
        self.sent_bytes = 0  # of request bodies

    def send(self, headers: Headers, body: bytes) -> http1.Response:
        """Send a request with that body, and read the response's head. Raises Unreachable, Broken, AgentLeft."""
        head = self._head(headers + [("Content-Length", str(len(body)))])
        joined = len(body) <= _JOINED_BYTES
        connection = self._open(head + body if joined else head)
        if not joined and connection.all_sent:
            connection.all_sent = connection.send(body, self._agent.departure)
        self.sent_bytes += len(body)
        return self._response(connection)

    def stream(self, pieces: List[bytes], added: Headers) -> http1.Response:
        """Send the agent's request as it is, with headers added: the pieces of its body that have been read (they are
        let go of once they are sent), then the rest as it comes.

        Raises Unreachable, Broken, AgentLeft, and of the agent's body http1.ProtocolError and http1.Incomplete.
        """
        chunked = http1.is_chunked(self._request)
        headers = end_to_end(self._request.headers, without=("expect",)) + added
        connection = self._open(self._head(headers + ([("Transfer-Encoding", "chunked")] if chunked else [])))
        connection.all_sent = connection.all_sent and self._upload(connection, pieces, chunked)
        return self._response(connection)

    def _head(self, headers: Headers) -> bytes:
        target = self._upstream.target(self._request.target)
        return http1.request_head(self._request.method, target, self._upstream.hop_headers(headers))

    def _open(self, data: bytes) -> Connection:
        """A connection on which the first bytes of the request are written, or as many as the upstream let us."""
        self.let_go()
        fresh = False
        while True:
            self._connection = connection = self._upstream.acquire(fresh)
            connection.begin(self._request.method)
            try:
                connection.all_sent = connection.send(data, self._agent.departure)
                return connection
            except NotSent as error:
                connection.close()
                if not connection.used:
                    raise Unreachable("%s: %s" % (self._upstream.address, error))
                fresh = True

    def _upload(self, connection: Connection, pieces: List[bytes], chunked: bool) -> bool:
        """False where the upstream answered before it had all."""
        for piece in pieces:
            if not self._upload_piece(connection, piece, chunked):
                return False
        pieces.clear()
        trailers: Headers = []
        while not self._agent.request_done:
            event = self._agent.next_piece(connection)
            if isinstance(event, http1.End):
                trailers = end_to_end(event.trailers, without=FRAMING)
            elif event is None or not self._upload_piece(connection, event.data, chunked):
                return False
        return not chunked or connection.send(http1.last_chunk(trailers), self._agent.departure)

    def _upload_piece(self, connection: Connection, piece: bytes, chunked: bool) -> bool:
        self.sent_bytes += len(piece)
        return not piece or connection.send(http1.chunk(piece) if chunked else piece, self._agent.departure)

    def _response(self, connection: Connection) -> http1.Response:
        """The final head, with any 1xx before it passed on."""
        response: http1.Response = connection.next_event(self._agent.departure)
        while response.status < 200:
            if response.status == 101:
                raise Broken("the upstream changed to a protocol that nobody asked for")
            if response.status != 100 and self._request.version == "1.1":
                self._agent.send_interim(response.status, response.reason, end_to_end(response.headers))
            response = connection.next_event(self._agent.departure)
        connection.answered = True
        connection.reusable = connection.all_sent and http1.keeps_alive(response)
        return response

    @property
    def connection(self) -> Connection:
        """The connection on which a response has begun."""
        assert self._connection is not None
        return self._connection

    def let_go(self) -> bool:
        """Give the connection back if its response has ended or does in a moment; else close it: that cancels.

        Whether there was a response that ended.
        """
        connection, self._connection = self._connection, None
        if connection is None:
            return False
        if connection.answered and connection.finish(FINISH_SECONDS, FINISH_BYTES):
            self._upstream.release(connection)
            return True
        connection.close()
        return False
