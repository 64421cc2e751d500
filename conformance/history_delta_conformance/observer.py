# SPDX-License-Identifier: Apache-2.0
"""Reads both directions of one connection with h11 and says which requests and responses crossed it.

Sans-I/O: it is fed copies of the bytes and changes none. It shares no code with shim or server, so that what it says
about them is independent evidence. Bytes that h11 refuses end the observation and are noted as ``failure``.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import h11

_MAX_HEAD = 256 * 1024


@dataclass
class Exchange:
    """One request as it crossed the wire, and what is known of its response.

    ``body`` is without transfer coding; ``wire_bytes`` counts everything: head, framing and body. Times are monotonic.
    ``answer_sha256`` is of a whole response's body. ``left``: the client closed before the response had come to its
    end, as Codex does on most calls.
    """

    connection: int
    method: str
    target: str
    headers: list[tuple[str, str]]
    started: float
    body: bytes = b""
    wire_bytes: int = 0
    complete: bool = False
    status: int | None = None
    answered: float | None = None
    response_bytes: int = 0
    response_complete: bool = False
    answer_sha256: str = ""
    left: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @property
    def content_type(self) -> str | None:
        return self.header("content-type")

    def header(self, wanted: str) -> str | None:
        """The first value under that name, in any case."""
        return next((value for name, value in self.headers if name.lower() == wanted.lower()), None)


class ConnectionObserver:
    """Feed it ``from_client`` and ``from_server``; an empty feed is the end of that direction."""

    def __init__(
        self, connection: int, on_request: Callable[[Exchange], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.failure: str | None = None
        self._connection, self._on_request, self._clock = connection, on_request, clock
        self._requests = _parser(h11.SERVER)
        self._responses: h11.Connection | None = None
        self._receiving: Exchange | None = None
        self._answering: Exchange | None = None
        self._unanswered: deque[Exchange] = deque()
        self._body: list[bytes] = []
        self._wire_bytes = 0
        self._server_ended = False

    def from_client(self, data: bytes) -> list[Exchange]:
        """The requests that have become complete with this."""
        if not data:
            self._client_left()
        if self.failure is not None:
            return []
        self._completed: list[Exchange] = []
        try:
            self._wire_bytes += len(data)
            self._requests.receive_data(data)
            self._read_requests()
        except h11.ProtocolError as error:
            self.failure = f"request: {error}"
        return self._completed

    def _client_left(self) -> None:
        open_ones = [] if self._answering is None else [self._answering]
        for exchange in [*open_ones, *self._unanswered]:
            exchange.left = not exchange.response_complete and not self._server_ended

    def from_server(self, data: bytes) -> None:
        self._server_ended = self._server_ended or not data
        if self.failure is not None:
            return
        try:
            self._read_responses(data)
        except h11.ProtocolError as error:
            # A response that is cut is no breach of HTTP: it stays incomplete, as where Codex closes at the last event.
            if data:
                self.failure = f"response: {error}"

    def _read_requests(self) -> None:
        while True:
            event = self._requests.next_event()
            if isinstance(event, h11.Request):
                self._request_began(event)
            elif isinstance(event, h11.Data):
                self._body.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._request_ended()
            else:
                return

    def _request_began(self, event: h11.Request) -> None:
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers.raw_items()]
        method, target = event.method.decode("ascii"), event.target.decode("latin-1")
        self._receiving = Exchange(self._connection, method, target, headers, self._clock())
        self._unanswered.append(self._receiving)
        self._on_request(self._receiving)

    def _request_ended(self) -> None:
        following = self._requests.trailing_data[0]
        if self._receiving is not None:
            self._receiving.body = b"".join(self._body)
            self._receiving.wire_bytes = self._wire_bytes - len(following)
            self._receiving.complete = True
            self._completed.append(self._receiving)
        self._receiving, self._body, self._wire_bytes = None, [], len(following)
        self._requests = _parser(h11.SERVER)
        if following:  # empty would mean the end
            self._requests.receive_data(following)

    def _read_responses(self, data: bytes) -> None:
        while data or self._responses is not None:
            if self._responses is None and not self._expect_response():
                raise h11.RemoteProtocolError("bytes that answer no request")
            assert self._responses is not None
            self._responses.receive_data(data)
            following = self._read_response(self._responses)
            if following is None:
                return
            self._responses, data = None, following

    def _expect_response(self) -> bool:
        if not self._unanswered:
            return False
        self._answering = self._unanswered.popleft()
        self._responses, self._answer = _parser(h11.CLIENT), hashlib.sha256()
        # The method alone decides how the response is framed.
        self._responses.send(h11.Request(method=self._answering.method, target="/", headers=[("Host", "x")]))
        self._responses.send(h11.EndOfMessage())
        return True

    def _read_response(self, parser: h11.Connection) -> bytes | None:
        """Read on; at the end of the response, what follows it, else None."""
        exchange = self._answering
        assert exchange is not None
        while True:
            event = parser.next_event()
            if isinstance(event, h11.Response):
                exchange.status, exchange.answered = event.status_code, self._clock()
            elif isinstance(event, h11.Data):
                exchange.response_bytes += len(event.data)
                self._answer.update(event.data)
            elif isinstance(event, h11.EndOfMessage):
                exchange.response_complete = True
                exchange.answer_sha256 = self._answer.hexdigest()
                return parser.trailing_data[0]
            elif not isinstance(event, h11.InformationalResponse):
                return None


def _parser(role: type[h11.CLIENT] | type[h11.SERVER]) -> h11.Connection:
    return h11.Connection(role, max_incomplete_event_size=_MAX_HEAD)
