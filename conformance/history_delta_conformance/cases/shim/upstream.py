# SPDX-License-Identifier: Apache-2.0
"""The server that a case puts behind the shim: it rebuilds what comes, and answers as the case's script says.

Where the script says nothing it behaves as a server of the protocol. It judges nothing: what came is kept for the case
to look at.
"""

import asyncio
import itertools
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from history_delta_protocol import wire
from history_delta_protocol.dialect import Dialect, InvalidRolloutId, dialect_of, rollout_of
from history_delta_protocol.frame import Frame, Malformed, TooLarge

from .. import endpoint
from ..endpoint import Endpoint, Request
from ..transcript import Transcript
from ..wire import Header, in_time
from .receiver import NotHeld, Parts, Receiver, decompressed, take_apart

CAPABILITIES: dict[str, Any] = {
    "version": 1,
    "encodings": [],
    "limits": {"frame_line_bytes": 65536, "body_bytes": 268435456, "messages": 100000, "pieces": 64},
}


@dataclass
class Call:
    """A model call as it came, and the means to answer it.

    ``body`` is what would have reached the model: of a frame, what it stands for. ``problem`` is set where a frame
    could not be rebuilt out of what had been acknowledged.
    """

    serial: int
    connection: endpoint.Call
    dialect: Dialect
    rollout: str | None
    receiver: Receiver
    body: bytes = b""
    frame: Frame | None = None
    parts: Parts | None = None
    problem: str = ""

    @property
    def request(self) -> Request:
        return self.connection.request

    @property
    def is_frame(self) -> bool:
        media_type = (self.request.value("Content-Type") or "").partition(";")[0].strip().lower()
        return media_type == wire.FRAME_MEDIA_TYPE

    @property
    def delivery(self) -> str | None:
        return self.request.value(wire.DELIVERY_HEADER)

    def ours(self, speaks: bool = True, held: str | None = "right") -> list[Header]:
        """The headers of a response to it, with its serial number for the case to know it by.

        ``held``: with ``right`` its history is held and the header says so, None says nothing, else it is the value.
        """
        headers = [("Content-Type", "application/json"), ("X-Serial", str(self.serial))]
        if not speaks:
            return headers
        headers.append((wire.VERSION_HEADER, "1"))
        if held == "right":
            held = self.parts.held if self.parts else None
            if self.parts is not None:
                self.receiver.hold(self.parts)
        return [*headers, (wire.HELD_HEADER, held)] if held else headers


Answer = Callable[[Call], Awaitable[None]]
Capabilities = Callable[[endpoint.Call], Awaitable[None]]


class Upstream(Endpoint):
    """Use as an async context manager."""

    def __init__(self, capabilities: Capabilities, transcript: Transcript) -> None:
        super().__init__(self._take)
        self.capabilities = capabilities
        self.line_bytes = wire.MAX_FRAME_LINE_BYTES
        self.receiver = Receiver()
        self.calls: list[Call] = []
        self.questions: list[Request] = []
        self.others: list[Request] = []
        self.faults: list[Exception] = []
        self._transcript = transcript
        self._script: deque[Answer] = deque()
        self._serials = itertools.count(1)
        self._changed = asyncio.Condition()

    def script(self, *answers: Answer) -> None:
        """How the next model calls are answered, in the order in which they come."""
        self._script.extend(answers)

    async def wait_for(self, what: Callable[[], bool], expected: str) -> None:
        """Until something has come; fails the case where it does not."""
        async with in_time(expected), self._changed:
            await self._changed.wait_for(what)

    async def _take(self, connection: endpoint.Call) -> None:
        try:
            await self._dispatch(connection)
        except Exception as error:  # the case's own fault: it is told of when the bench is taken down
            self.faults.append(error)
            connection.reset()

    async def _dispatch(self, connection: endpoint.Call) -> None:
        request = connection.request
        self._transcript.note("server", "received", request.head + request.body)
        dialect = dialect_of(request.target)
        if request.method == "GET" and request.target.endswith(wire.CAPABILITIES_SUFFIX):
            await self._note(self.questions, request)
            await self.capabilities(connection)
        elif request.method == "POST" and dialect is not None:
            await self._answer_call(self._call(connection, dialect))
        else:
            await self._note(self.others, request)
            await connection.respond(b"{}", ("X-Other", "1"))

    def _call(self, connection: endpoint.Call, dialect: Dialect) -> Call:
        request = connection.request
        try:
            rollout, _ = rollout_of(request.target, request.value(wire.ROLLOUT_HEADER))
        except InvalidRolloutId:
            rollout = None
        call = Call(next(self._serials), connection, dialect, rollout, self.receiver)
        if call.is_frame:
            self._rebuild(call)
            return call
        call.body = request.body
        if rollout is not None and not request.values("Content-Encoding"):
            call.parts = take_apart(rollout, dialect, request.body)
        return call

    def _rebuild(self, call: Call) -> None:
        request = call.request
        try:
            data = decompressed(request.body, request.values("Content-Encoding"))
            call.frame, call.parts = self.receiver.rebuild(call.rollout or "", call.dialect, data, self.line_bytes)
            call.body = call.parts.body
        except (Malformed, TooLarge, NotHeld) as error:
            call.problem = f"{type(error).__name__}: {error}"

    async def _answer_call(self, call: Call) -> None:
        answer = self._script.popleft() if self._script else _usual(call)
        async with self._changed:
            self.calls.append(call)
            self._changed.notify_all()
        await answer(call)

    async def _note(self, where: list[Request], request: Request) -> None:
        async with self._changed:
            where.append(request)
            self._changed.notify_all()


def _usual(call: Call) -> Answer:
    return resync(wire.RESYNC_UNKNOWN_BASE) if call.problem else reply()


def reply(
    status: int = 200,
    *headers: Header,
    body: bytes | None = None,
    speaks: bool = True,
    held: str | None = "right",
) -> Answer:
    """A whole response; for ``held`` see Call.ours."""

    async def answer(call: Call) -> None:
        content = b'{"serial":%d}' % call.serial if body is None else body
        await call.connection.respond(content, *call.ours(speaks, held), *headers, status=status)

    return answer


def resync(reason: str) -> Answer:
    """A resync, in answer to whatever it is."""
    error = {"type": "conflict_error", "code": wire.RESYNC_CODE, "message": reason}
    content = json.dumps({"error": error}).encode()
    return reply(wire.RESYNC_STATUS, (wire.RESYNC_HEADER, reason), body=content, held=None)


async def broken(call: Call) -> None:
    """No response: the connection is closed in good order."""
    call.connection.close()


async def reset(call: Call) -> None:
    """No response: the connection is reset."""
    call.connection.reset()


async def wait_for(event: asyncio.Event, connection: endpoint.Call) -> None:
    """Until the case says so, or the bench is taken down."""
    waits = [asyncio.create_task(which.wait()) for which in (event, connection.is_over)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


def speaking(**members: Any) -> Capabilities:
    """Answers with the capabilities, these members of them replaced."""
    return document(json.dumps(CAPABILITIES | members).encode())


def limited(**limits: int) -> Capabilities:
    """Answers with these limits among the capabilities."""
    return speaking(limits=CAPABILITIES["limits"] | limits)


def document(body: bytes, status: int = 200, *headers: Header) -> Capabilities:
    async def answer(connection: endpoint.Call) -> None:
        await connection.respond(body, ("Content-Type", "application/json"), *headers, status=status)

    return answer


silent = document(b'{"error":{"message":"not found"}}', 404)
