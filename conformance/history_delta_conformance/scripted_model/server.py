# SPDX-License-Identifier: Apache-2.0
"""The HTTP side: reads a request exactly as received, records it, has it answered and sends the answer token by token.

Any path that ends as a model call does is one, whatever stands before it; every other path is a harmless 404.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any, Self

from aiohttp import web
from history_delta_protocol.dialect import Dialect, dialect_of, error_body

from . import chat, messages, responses
from .director import direct
from .recording import Recorder, Recording
from .reply import Reply
from .scenario import Scenario
from .tools import NoSuchTool

_DIALECTS: dict[str, ModuleType] = {"chat": chat, "responses": responses, "messages": messages}
_MAX_BODY = 512 * 1024 * 1024
_MAX_HEADER = 256 * 1024
_CLOSE_WITHIN = 1.0

# Awaited after each event of the stream that answers the recorded request.
Pace = Callable[[Recording], Awaitable[None]]


async def no_pause(recording: Recording) -> None:
    """Other conversations get their turn, and each event leaves on its own."""
    await asyncio.sleep(0)


class ScriptedModel:
    """A scripted model on a port of its own; use as an async context manager.

    ``url`` is its origin, ``recorder`` what it has received. ``pace`` holds streams back, event by event.
    """

    def __init__(
        self,
        scenario: Scenario,
        recorder: Recorder | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        pace: Pace = no_pause,
    ) -> None:
        self.scenario = scenario
        self.recorder = recorder or Recorder()
        self._host, self._port, self._pace = host, port, pace
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # A body is recorded as it came: no decompression.
        self._runner = web.AppRunner(
            app,
            access_log=None,
            auto_decompress=False,
            max_field_size=_MAX_HEADER,
            max_line_size=_MAX_HEADER,
            shutdown_timeout=_CLOSE_WITHIN,
        )

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, self._host, self._port).start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        path = request.raw_path
        recording = self.recorder.record(request.method, path, list(request.raw_headers), body)
        dialect = dialect_of(path)
        if dialect is None or request.method != "POST":
            return _error(dialect, 404, f"the scripted model serves no {request.method} {path}")
        try:
            wanted, reply = self._answer(dialect, body)
        except NoSuchTool as error:
            return _error(dialect, 400, f"no tool for the scenario's next step, {error}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return _error(dialect, 400, f"not a {dialect.name} request: {error!r}")
        encoder = _DIALECTS[dialect.name]
        if wanted.get("stream"):
            return await self._stream(request, recording, encoder.stream(reply, wanted))
        return web.json_response(encoder.document(reply, wanted))

    def _answer(self, dialect: Dialect, body: bytes) -> tuple[dict[str, Any], Reply]:
        wanted: dict[str, Any] = json.loads(body)
        offered = _DIALECTS[dialect.name].offered_tools(wanted)
        return wanted, direct(self.scenario, body, str(wanted.get("model")), offered)

    async def _stream(self, request: web.Request, recording: Recording, events: Iterator[bytes]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
        await response.prepare(request)
        for event in events:
            await response.write(event)
            await self._pace(recording)
        await response.write_eof()
        return response


def _error(dialect: Dialect | None, status: int, message: str) -> web.Response:
    body = error_body(dialect, status, "scripted_model", message)
    return web.Response(status=status, body=body, content_type="application/json")
