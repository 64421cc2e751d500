# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 connection to a model server, and the exchange that runs on it.

Parsed by aiohttp's response parser, but not through its client: that one changes header lists, sends an idempotent
request twice when a connection dies, and loses what it has buffered when a stream breaks. Here every byte goes on as
it arrives. Reuse is decided in pool.py, what to send in dispatch.py.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiohttp.http import HttpResponseParser
from aiohttp.http_exceptions import HttpProcessingError

from . import headers
from .breaches import Breach, said
from .call import Call, Framing, Head

# Pieces are taken out of the parser's buffer as soon as they are in: it never holds anything back.
_NO_LIMIT = 2**30
_WORTH_COPYING = 64 * 1024
_WITHOUT_BODY = frozenset([204, 304])


class ModelConnection(asyncio.Protocol):
    """Idle, or feeding one Call. ``on_lost`` is told once when the connection is gone."""

    def __init__(self, on_lost: Callable[["ModelConnection"], None], max_head_bytes: int) -> None:
        self._on_lost = on_lost
        self._max_head_bytes = max_head_bytes
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._payload: Any = None
        self._call: Call | None = None
        self._method = ""
        self._reusable = False
        self._writable = asyncio.Event()
        self._writable.set()
        self.ended = asyncio.Event()

    # What dispatch.py does.

    def begin(self, call: Call, method: str) -> None:
        """The next response on this connection answers ``call``."""
        self._parser = HttpResponseParser(
            cast(Any, self),
            self._loop,
            _NO_LIMIT,
            max_line_size=self._max_head_bytes,
            max_field_size=self._max_head_bytes,
            response_with_body=method != "HEAD",
            read_until_eof=True,
            auto_decompress=False,
        )
        self._payload = None
        self._call = call
        self._method = method
        self.ended.clear()
        call.throttle = self._throttle

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def write_message(self, head: bytes, body: bytes) -> None:
        """In one system call where copying the body costs less than a second one."""
        if len(body) <= _WORTH_COPYING:
            self.write(head + body)
        else:
            self.write(head)
            self.write(body)

    async def drain(self) -> None:
        """Until most of what was written has left, or the connection is gone."""
        await self._writable.wait()

    @property
    def reusable(self) -> bool:
        """After an exchange: whether another may follow."""
        return (
            self._reusable
            and self._call is None
            and self._transport is not None
            and not self._transport.is_closing()
            and not self._transport.get_write_buffer_size()
        )

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What the event loop tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclass of it.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            # Bytes that answer nothing: whatever comes next could be taken for another call's response.
            self._reusable = False
            self.abort()
            return
        try:
            # The parser gives up a head that broken bytes follow in the same piece: it gets them one by one.
            head_end = data.find(b"\r\n\r\n") + 4 if self._payload is None else 0
            if 4 <= head_end < len(data):
                self._feed(data[:head_end])
                data = data[head_end:]
            self._feed(data)
        except (HttpProcessingError, ValueError) as error:
            self._deliver()
            self._broken(f"sent what is not HTTP/1.1: {said(error)}")

    def _feed(self, data: bytes) -> None:
        if self._parser is None:
            raise Breach("bytes behind its response")
        messages, upgraded, tail = self._parser.feed_data(data)
        for message, payload in messages:
            self._message(message, payload)
        self._deliver()
        if upgraded or tail:
            self._reusable = False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._reusable = False
        self._writable.set()
        if self._parser is not None:
            self._end_of_input(exc)
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # What the parser's stream asks of its protocol. Holding back is the Call's business.

    connected = True
    _reading_paused = False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self, resume_parser: bool = True) -> None:
        pass

    def _throttle(self, held_back: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if held_back:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _message(self, message: Any, payload: Any) -> None:
        if self._payload is not None:
            raise Breach("a second response")
        if 100 <= message.code < 200 and message.code != 101:
            return
        if message.code == 101:
            raise Breach("an upgrade that nobody asked for")
        self._payload = payload
        framing = self._framing(message)
        self._reusable = not message.should_close and framing is not Framing.CLOSE
        head = Head(
            message.code,
            message.reason.encode("utf-8", "surrogateescape"),
            headers.end_to_end(message.raw_headers),
            framing,
        )
        assert self._call is not None
        self._call.start(head)

    def _framing(self, message: Any) -> Framing:
        codings = headers.tokens(message.raw_headers, b"transfer-encoding")
        if codings - {b"chunked"}:
            raise Breach("a transfer coding other than chunked")
        if self._method == "HEAD" or message.code in _WITHOUT_BODY:
            return Framing.NO_BODY
        if codings:
            return Framing.CHUNKED
        return Framing.LENGTH if headers.values(message.raw_headers, b"content-length") else Framing.CLOSE

    def _deliver(self) -> None:
        if self._payload is None or self._call is None:
            return
        data = self._payload.read_nowait()
        if data:
            self._call.append(data)
        if self._payload.is_eof():
            self._call.finish()
            self._over()

    def _end_of_input(self, exc: Exception | None) -> None:
        """Only a response without a length of its own ends like this, and only where the end was not an error."""
        if exc is None:
            try:
                self._parser.feed_eof()
                self._deliver()
            except HttpProcessingError as error:
                exc = error
        self._broken(f"closed the connection before the end of its response ({said(exc)})")

    def _broken(self, failure: str) -> None:
        self._reusable = False
        if self._call is not None:
            self._call.fail(failure)
        self._over()
        self.abort()

    def _over(self) -> None:
        if self._call is not None:
            self._throttle(False)
            self._call.throttle = lambda held_back: None
        self._call = None
        self._parser = None
        self.ended.set()
