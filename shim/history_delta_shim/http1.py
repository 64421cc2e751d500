# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 framing in both directions, without sockets, threads or clocks.

A reader is fed bytes as they come and gives events: a head, pieces of its body, the end. It refuses whatever two
parties could read differently (who ends where), and does not know what a header means beyond that.

A reader's state, and what moves it:

    HEAD --request or final response head--> BODY --last byte of the body--> DONE --next_message()--> HEAD
    HEAD --1xx response--> HEAD
    HEAD --end of input before the first byte of a request--> DONE, with the event CLOSED

ProtocolError and Incomplete end a reader: it must not be used after either.
"""

import re
from typing import Any, Callable, NamedTuple, Optional, Union

from history_delta_protocol import wire

from . import http1_body
from .headers import Headers, tokens, values
from .http1_errors import Incomplete, ProtocolError

__all__ = ["CLOSED", "NEED_DATA", "Data", "End", "Incomplete", "ProtocolError", "Request", "Response"]


class Request(NamedTuple):
    """A request head; ``version`` is "1.0" or "1.1", text is latin-1."""

    method: str
    target: str
    version: str
    headers: Headers


class Response(NamedTuple):
    """A response head, also a 1xx one."""

    status: int
    reason: str
    version: str
    headers: Headers


class Data(NamedTuple):
    """A piece of a body, never empty."""

    data: bytes


class End(NamedTuple):
    """The end of a message."""

    trailers: Headers


class _Mark(object):
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


NEED_DATA = _Mark("NEED_DATA")  # feed more, or the end of input
CLOSED = _Mark("CLOSED")  # the peer closed between two messages

_HEAD, _BODY, _DONE = "HEAD", "BODY", "DONE"

_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([\x21-\x7e\x80-\xff]+) HTTP/([0-9]\.[0-9])\Z")
_STATUS_LINE = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9][0-9])(?: ([\t\x20-\x7e\x80-\xff]*))?\Z")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(r"[0-9]{1,18}\Z")
_VERSIONS = ("1.0", "1.1")


def parse_request_head(head: bytes) -> Request:
    """A request head, with its final empty line; ProtocolError where it is malformed or ambiguous."""
    lines = head[:-4].split(b"\r\n")
    match = _REQUEST_LINE.match(lines[0])
    if match is None:
        raise ProtocolError(400, "malformed request line")
    method, target, version = (part.decode("latin-1") for part in match.groups())
    if version not in _VERSIONS:
        raise ProtocolError(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    request = Request(method, target, version, http1_body.parse_fields(lines[1:]))
    hosts = len(values(request.headers, "host"))
    if hosts > 1 or (version == "1.1" and hosts == 0):
        raise ProtocolError(400, "exactly one Host header is needed")
    return request


def parse_response_head(head: bytes) -> Response:
    """A response head, with its final empty line; ProtocolError where it is malformed or ambiguous."""
    lines = head[:-4].split(b"\r\n")
    match = _STATUS_LINE.match(lines[0])
    if match is None:
        raise ProtocolError(502, "malformed status line")
    version, status, reason = (part.decode("latin-1") for part in match.groups(b""))
    return Response(int(status), reason, version, http1_body.parse_fields(lines[1:]))


def is_chunked(head: Union[Request, Response]) -> bool:
    """Whether the body is chunked; ProtocolError for any other transfer coding and for a length beside it."""
    codings = values(head.headers, "transfer-encoding")
    if not codings:
        return False
    if head.version == "1.0":
        raise ProtocolError(400, "Transfer-Encoding in HTTP/1.0")
    if len(codings) > 1 or codings[0].lower() != "chunked":
        raise ProtocolError(400, "Transfer-Encoding must be exactly chunked")
    if values(head.headers, "content-length"):
        raise ProtocolError(400, "Content-Length beside Transfer-Encoding")
    return True


def content_length(head: Union[Request, Response]) -> Optional[int]:
    """The one Content-Length, None without; ProtocolError where it is repeated or not a plain number."""
    lengths = values(head.headers, "content-length")
    if not lengths:
        return None
    if len(lengths) > 1 or not _LENGTH.match(lengths[0]):
        raise ProtocolError(400, "Content-Length must be one number")
    return int(lengths[0])


def request_framing(request: Request) -> Any:
    """How the body of a request ends."""
    if is_chunked(request):
        return http1_body.Chunked()
    return http1_body.Length(content_length(request) or 0)


def response_framing(method: str, response: Response) -> Any:
    """How the body of a response to a request of that method ends."""
    chunked, length = is_chunked(response), content_length(response)
    bodiless = method == "HEAD" or response.status in (204, 304) or response.status < 200
    if bodiless or (method == "CONNECT" and response.status < 300):
        return http1_body.Length(0)
    if chunked:
        return http1_body.Chunked()
    return http1_body.UntilClose() if length is None else http1_body.Length(length)


def keeps_alive(head: Union[Request, Response]) -> bool:
    """Whether the sender leaves the connection open: HTTP/1.1 without ``Connection: close``."""
    return head.version == "1.1" and "close" not in tokens(head.headers, "connection")


class _Reader(object):
    """What both directions share: the buffer, the head's limits, the body."""

    _must_come = True  # a message is due: the end of input in its place is an error

    def __init__(self, parse_head: Callable[[bytes], Any], max_head: int = wire.MAX_HEAD_BYTES) -> None:
        self._parse_head = parse_head
        self._max_head = max_head
        self._buffer = b""
        self._searched = 0  # no end of a head starts before this offset
        self._eof = False
        self._state = _HEAD
        self.framing: Any = None

    @property
    def done(self) -> bool:
        """Whether the message has been read to its end."""
        return self._state == _DONE

    @property
    def excess(self) -> bytes:
        """Bytes received beyond what has been read."""
        return self._buffer

    def receive(self, data: bytes) -> None:
        """Feed what came; ``b""`` is the end of input."""
        if data:
            self._buffer = self._buffer + data if self._buffer else data
        else:
            self._eof = True

    def next_event(self) -> Any:
        """The next head, Data, End, CLOSED or NEED_DATA. Raises ProtocolError or Incomplete."""
        if self._state == _HEAD:
            return self._next_head()
        if self._state == _BODY:
            return self._next_piece()
        raise AssertionError("this message has been read")

    def _next_head(self) -> Any:
        head = self._take_head()
        if head is not None:
            return self._begin(self._parse_head(head))
        if not self._eof:
            return NEED_DATA
        if self._buffer or self._must_come:
            raise Incomplete("the connection ended before the end of a head")
        self._state = _DONE
        return CLOSED

    def _take_head(self) -> Optional[bytes]:
        end = self._buffer.find(b"\r\n\r\n", self._searched)
        stop = len(self._buffer) if end < 0 else end + 4
        if _BARE_LF.search(self._buffer, self._searched, stop):
            raise ProtocolError(400, "bare line feed in a head")
        if stop > self._max_head:
            raise self._head_too_long()
        self._searched = max(0, stop - 3) if end < 0 else 0
        if end < 0:
            return None
        head, self._buffer = self._buffer[:stop], self._buffer[stop:]
        return head

    def _head_too_long(self) -> ProtocolError:
        where = "first line" if self._buffer.find(b"\r\n", 0, self._max_head) < 0 else "head"
        status = 414 if where == "first line" else 431
        return ProtocolError(status, "the %s is longer than the limit of %d bytes" % (where, self._max_head))

    def _begin(self, head: Any) -> Any:
        raise NotImplementedError

    def _next_piece(self) -> Any:
        data, self._buffer = self.framing.take(self._buffer)
        if data:
            return Data(data)
        if self.framing.complete or (self._eof and self.framing.ends_with_input):
            self._state = _DONE
            return End(self.framing.trailers)
        if self._eof:
            raise Incomplete("the connection ended inside a body")
        return NEED_DATA


class RequestReader(_Reader):
    """Reads the requests of one connection, one after another."""

    _must_come = False

    def __init__(self, max_head: int = wire.MAX_HEAD_BYTES) -> None:
        _Reader.__init__(self, parse_request_head, max_head)

    def next_message(self) -> None:
        """Go on to the next request, once the one before has been read to its end."""
        if self._state != _DONE:
            raise AssertionError("the request before has not been read to its end")
        self._state = _HEAD

    def _take_head(self) -> Optional[bytes]:
        while self._searched == 0 and self._buffer.startswith(b"\r\n"):  # RFC 9112, section 2.2
            self._buffer = self._buffer[2:]
        return None if self._buffer == b"\r" else _Reader._take_head(self)

    def _begin(self, head: Request) -> Request:
        self.framing = request_framing(head)
        self._state = _BODY
        return head


class ResponseReader(_Reader):
    """Reads the response to one request: any 1xx heads, then the final one and its body."""

    def __init__(self, method: str, max_head: int = wire.MAX_HEAD_BYTES) -> None:
        _Reader.__init__(self, parse_response_head, max_head)
        self._method = method

    def _begin(self, head: Response) -> Response:
        self.framing = response_framing(self._method, head)
        if head.status >= 200:
            self._state = _BODY
        return head


def request_head(method: str, target: str, headers: Headers) -> bytes:
    """A request head as it goes on the wire."""
    return _head("%s %s HTTP/1.1" % (method, target), headers)


def response_head(status: int, reason: str, headers: Headers) -> bytes:
    """A response head as it goes on the wire."""
    return _head("HTTP/1.1 %d %s" % (status, reason), headers)


def _head(line: str, headers: Headers) -> bytes:
    lines = [line] + ["%s: %s" % header for header in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; ``data`` must not be empty, for an empty chunk is the last one."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def last_chunk(trailers: Headers) -> bytes:
    """The end of a chunked body."""
    return b"0\r\n" + b"".join(("%s: %s\r\n" % field).encode("latin-1") for field in trailers) + b"\r\n"
