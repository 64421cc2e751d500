# SPDX-License-Identifier: Apache-2.0
"""The HTTP side: reads a request exactly as received, records it, has it answered and sends the answer token by token.

Any path that ends as a model call does is one, whatever stands before it; every other path is a harmless 404.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Self

from aiohttp import web
from history_delta_protocol.dialect import Dialect, error_body

from .answering import Answer, Refusal, answer_to
from .faults import Befallen, course, halves
from .recording import Recorder, Recording
from .scenario import Fault, Scenario
from .sending import reset, send
from .sse import with_pings

_MAX_BODY = 512 * 1024 * 1024
_MAX_HEADER = 256 * 1024
_CLOSE_WITHIN = 1.0

# Awaited after each piece of the stream that answers the recorded request.
Pace = Callable[[Recording], Awaitable[None]]
# Told of each request that gets a fault for an answer.
OnFault = Callable[[Recording, Fault], None]


async def no_pause(recording: Recording) -> None:
    """Other conversations get their turn, and each event leaves on its own."""
    await asyncio.sleep(0)


def say_nothing(recording: Recording, fault: Fault) -> None:
    """Nobody is told of faults."""


class ScriptedModel:
    """A scripted model on a port of its own; use as an async context manager.

    ``url`` is its origin, ``recorder`` what it has received. ``pace`` holds streams back, piece by piece, and
    ``on_fault`` hears of every fault that is played. How often a step was asked for, where it has faults, is all that
    it remembers of one request at the next.
    """

    def __init__(
        self,
        scenario: Scenario,
        recorder: Recorder | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        pace: Pace = no_pause,
        on_fault: OnFault = say_nothing,
    ) -> None:
        self.scenario = scenario
        self.recorder = recorder or Recorder()
        self._befallen = Befallen(scenario.faults)
        self._host, self._port, self._pace, self._on_fault = host, port, pace, on_fault
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
        method, path = request.method, request.raw_path
        answer = answer_to(self.scenario, self._befallen, method, path, body)
        fault = answer.fault
        recording = self.recorder.record(
            method, path, list(request.raw_headers), body, answer.label, fault.kind if fault else ""
        )
        if isinstance(answer, Refusal):
            return _error(answer.dialect, answer.status, answer.message)
        if fault is not None:
            self._on_fault(recording, fault)
        return await self._send(request, recording, answer)

    async def _send(self, request: web.Request, recording: Recording, answer: Answer) -> web.StreamResponse:
        fault, encoder = answer.fault, answer.encoder
        if fault is not None and fault.kind == "status":
            return _failure(answer.dialect, fault)
        if fault is not None and fault.kind == "reset-before":
            return reset(request)
        if answer.wanted.get("stream"):
            events = with_pings(encoder.stream(answer.reply, answer.wanted), encoder.PING)
            return await send(request, "text/event-stream", course(events, fault), lambda: self._pace(recording))
        document = encoder.document(answer.reply, answer.wanted)
        if fault is None:
            return web.json_response(document)
        events = halves(json.dumps(document).encode())
        return await send(request, "application/json", course(events, fault), lambda: self._pace(recording))


def _failure(dialect: Dialect, fault: Fault) -> web.Response:
    response = _error(dialect, fault.status, f"the scenario has step {fault.step} fail with status {fault.status}")
    if fault.retry_after is not None:
        response.headers["Retry-After"] = f"{fault.retry_after:g}"
    return response


def _error(dialect: Dialect | None, status: int, message: str) -> web.Response:
    body = error_body(dialect, status, "scripted_model", message)
    return web.Response(status=status, body=body, content_type="application/json")
