# SPDX-License-Identifier: Apache-2.0
"""The sandbox-facing side of aiohttp's low-level server, with what it lacks: bounds on connections and on a whole head,
and refusals in our own shape. What happens with a request is app.py's business.
"""

import asyncio
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from .app import App
from .log import Log
from .settings import Settings
from .sockets import probe_when_silent


class FrontServer(web.Server):
    """Without routing, a body limit of its own, or an answer to Expect."""

    def __init__(self, app: App, settings: Settings, log: Log) -> None:
        super().__init__(app.handle, handler_cancellation=True)
        self._app = app
        self._settings = settings
        self._log = log
        self._full = False

    def __call__(self) -> RequestHandler:
        return _Handler(self, self._app, self._settings)

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        limit = self._settings.max_connections
        was_full, self._full = self._full, len(self._connections) > limit
        if not self._full:
            probe_when_silent(transport)
            return
        if not was_full:
            self._log.event("connections-refused", limit=limit, setting="max_connections")
        transport.abort()


class _Handler(RequestHandler):
    """Refuses what the parser refuses without saying what is inside and of which version."""

    def __init__(self, server: web.Server, app: App, settings: Settings) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            auto_decompress=False,
            max_line_size=settings.max_head_bytes,
            max_field_size=settings.max_head_bytes,
            keepalive_timeout=settings.agent_keepalive_seconds,
            access_log=cast(Any, None),
        )
        self._app = app
        self._head_seconds = settings.agent_pause_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._bounded = _BoundedParser(self._parser, self, settings.max_head_bytes)
        self._parser = cast(Any, self._bounded)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._bounded.in_head:
            self._forget_head()
        elif self._head_timer is None:
            self._head_timer = self._loop.call_later(self._head_seconds, self._head_is_overdue)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        answer = self._app.malformed(status, exc)
        response = web.Response(status=answer.status, body=answer.body, content_type="application/json")
        response.headers["Server"] = "history-delta"
        for name, value in answer.headers:
            response.headers[name.decode("ascii")] = value.decode("ascii")
        response.headers["Connection"] = "close"
        response.force_close()
        return response

    def _head_is_overdue(self) -> None:
        self._head_timer = None
        # Behind a call that is still being answered, it is not what the connection waits for.
        if self._waiter is not None and not self._waiter.done():
            self.force_close()

    def _forget_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _BoundedParser:
    """aiohttp's parser, which bounds each line, with a bound on the lines together.

    What came in since it last gave a request or a piece of a body is what it holds of a head, or of a trailer.
    """

    def __init__(self, parser: Any, protocol: RequestHandler, limit: int) -> None:
        self._parser = parser
        self._protocol = protocol
        self._limit = limit
        self._payload: Any = None
        self._given: tuple[int, bool] = (0, True)
        self._held = 0
        self._refused = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)

    @property
    def in_head(self) -> bool:
        return self._held > 0 and self._given[1]

    def feed_data(self, data: bytes) -> tuple[Any, bool, bytes]:
        if self._refused:
            return [], False, b""
        messages, upgraded, tail = self._parser.feed_data(data)
        if messages:
            self._payload = messages[-1][1]
        given = (self._payload.total_bytes, self._payload.is_eof()) if self._payload is not None else (0, True)
        held_back = self._protocol._reading_paused or self._protocol._buffer_paused or upgraded
        self._held = 0 if messages or given != self._given or held_back else self._held + len(data)
        self._given = given
        if self._held > self._limit:
            self._refuse()
        return messages, upgraded, tail

    def _refuse(self) -> None:
        self._refused = True
        if self.in_head:
            raise LineTooLong(b"", self._limit)
        self._payload.set_exception(RequestPayloadError("a trailer over the limit"))
