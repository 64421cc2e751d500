# SPDX-License-Identifier: Apache-2.0
"""The three ways in which an HTTP/1.1 body can end, and header fields, which also stand behind a chunked body.

Each kind takes what it can from a buffer and gives the rest back; none keeps body bytes to itself, so that a stream
is never held up.
"""

import re
from typing import List, Tuple

from history_delta_protocol import wire

from .headers import Headers
from .http1_errors import ProtocolError

MAX_CHUNK_LINE_BYTES = 4 * wire.KIB  # a chunk's size with its extensions, which nobody uses

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*\Z")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:;[\t\x20-\x7e\x80-\xff]*)?\r\n\Z")

_SIZE, _DATA, _DATA_END, _TRAILERS = "size", "data", "data end", "trailers"


def parse_fields(lines: List[bytes]) -> Headers:
    """Header or trailer lines, without their line ends, in order; ProtocolError names what is wrong with one."""
    fields = []
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            raise ProtocolError(400, "folded header line")
        name, colon, value = line.partition(b":")
        if not colon or not _TOKEN.match(name):
            raise ProtocolError(400, "malformed header name")
        if not _VALUE.match(value):
            raise ProtocolError(400, "control character in a header value")
        fields.append((name.decode("latin-1"), value.strip(b" \t").decode("latin-1")))
    return fields


class Length(object):
    """A body of a known length."""

    ends_with_input = False
    trailers: Headers = []

    def __init__(self, length: int) -> None:
        self._remaining = length

    @property
    def complete(self) -> bool:
        return not self._remaining

    def take(self, buffer: bytes) -> Tuple[bytes, bytes]:
        """(body bytes, the rest of the buffer)"""
        data = buffer[: self._remaining]
        self._remaining -= len(data)
        return data, buffer[len(data) :]


class UntilClose(object):
    """A response body that ends where the connection does."""

    complete = False
    ends_with_input = True
    trailers: Headers = []

    def take(self, buffer: bytes) -> Tuple[bytes, bytes]:
        """(body bytes, the rest of the buffer)"""
        return buffer, b""


class Chunked(object):
    """A chunked body: size line, data, line end, and so on; then size 0 and trailers. Extensions are dropped."""

    ends_with_input = False

    def __init__(self) -> None:
        self.trailers: Headers = []
        self.complete = False
        self._expect = _SIZE
        self._remaining = 0
        self._trailer_lines: List[bytes] = []
        self._trailer_bytes = 0

    def take(self, buffer: bytes) -> Tuple[bytes, bytes]:
        """(body bytes of all the chunks there, the rest of the buffer)

        Data that stands before a malformed chunk is given out first; the error follows with the next call.
        """
        pieces: List[bytes] = []
        at, before = 0, -1
        while at != before and not self.complete:
            before = at
            try:
                at = self._take_data(buffer, at, pieces) if self._expect == _DATA else self._take_line(buffer, at)
            except ProtocolError:
                if not pieces:
                    raise
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), buffer[at:]

    def _take_data(self, buffer: bytes, at: int, pieces: List[bytes]) -> int:
        piece = buffer[at : at + self._remaining]
        if piece:
            pieces.append(piece)
            self._remaining -= len(piece)
            if not self._remaining:
                self._expect = _DATA_END
        return at + len(piece)

    def _take_line(self, buffer: bytes, at: int) -> int:
        """Act on the line at that offset; the offset behind it, or the same one where it is not all there."""
        end = buffer.find(b"\n", at) + 1
        if self._expect == _DATA_END and buffer[at : at + 2] not in (b"", b"\r", b"\r\n"):
            raise ProtocolError(400, "chunk longer than its size")
        if not end:
            limit = wire.MAX_HEAD_BYTES if self._expect == _TRAILERS else MAX_CHUNK_LINE_BYTES
            if len(buffer) - at > limit:
                raise ProtocolError(400, "%s line of a chunk over the limit of %d bytes" % (self._expect, limit))
            return at
        line = buffer[at:end]
        if not line.endswith(b"\r\n"):
            raise ProtocolError(400, "bare line feed in a chunked body")
        self._take_whole_line(line)
        return end

    def _take_whole_line(self, line: bytes) -> None:
        if self._expect == _DATA_END:
            self._expect = _SIZE
        elif self._expect == _TRAILERS:
            self._take_trailer(line)
        else:
            match = _CHUNK_LINE.match(line)
            if match is None or len(line) > MAX_CHUNK_LINE_BYTES:
                raise ProtocolError(400, "malformed chunk size line")
            self._remaining = int(match.group(1), 16)
            self._expect = _DATA if self._remaining else _TRAILERS

    def _take_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line)
        if self._trailer_bytes > wire.MAX_HEAD_BYTES:
            raise ProtocolError(431, "trailers are longer than the limit of %d bytes" % wire.MAX_HEAD_BYTES)
        if line != b"\r\n":
            self._trailer_lines.append(line[:-2])
            return
        self.trailers = parse_fields(self._trailer_lines)
        self.complete = True
