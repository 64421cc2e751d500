# SPDX-License-Identifier: Apache-2.0
"""Cases: that a response which breaks is cut for the agent as well, and never ended. SPEC.md section 8."""

import asyncio
import random
from collections.abc import Callable

from .. import endpoint
from ..base import Check
from ..check import equal, expect, same_octets
from ..registry import SHIM
from ..wire import Connection, Response, request_head
from .bench import Target
from .bodies import CHAT
from .responses import started
from .upstream import Answer, Call, wait_for

_TOLD = b'data: {"choices":[{"delta":{"content":"half of it"}}]}\n\n'
_LARGE = random.Random(4).randbytes(2 << 20)

Break = Callable[[endpoint.Call], None]


class _Breaking:
    """Sends a part of a response, and breaks once the case says so."""

    def __init__(self, part: bytes, chunked: bool, how: Break, behind: bytes = b"") -> None:
        self._part, self._chunked, self._how, self._behind = part, chunked, how, behind
        self.go = asyncio.Event()

    async def __call__(self, call: Call) -> None:
        connection = call.connection
        if self._chunked:
            await connection.start(*call.ours())
            await connection.chunk(self._part)
        else:
            length = ("Content-Length", str(len(self._part) + 10))
            await connection.send(endpoint.response_head(200, "OK", *call.ours(), length) + self._part)
        await wait_for(self.go, connection)
        if self._behind:
            await connection.send(self._behind)
        self._how(connection)


async def _read_part(agent: Connection, response: Response, part: bytes) -> None:
    got = b""
    while len(got) < len(part) and (data := await agent.next_data(response)) is not None:
        got += data
    same_octets("all octets that came before the break", got, part)


def _cut(part: bytes, chunked: bool, how: Break, behind: bytes = b"", extra: bytes = b"") -> Check:
    """``extra`` is what of ``behind`` belongs to the body as well."""

    async def check(target: Target) -> None:
        async with target.bench() as bench:
            breaking = _Breaking(part, chunked, how, behind)
            agent, response = await started(bench, breaking)
            await _read_part(agent, response, part)
            breaking.go.set()
            await _read_part(agent, response, extra)
            equal("data behind the break", await agent.next_data(response), None)
            equal("how the response ended", response.ending, "cut")
            equal("the next call", (await bench.talk(b"{}")).response.status, 200)

    return check


_close, _reset = endpoint.Call.close, endpoint.Call.reset
for _place, (_what, _check) in enumerate(
    (
        ("chunks that end early", _cut(_TOLD, True, _close)),
        ("chunks that are reset", _cut(_TOLD, True, _reset)),
        ("a chunk that ends early", _cut(_TOLD, True, _close, b"20\r\nshort", b"short")),
        ("a chunk's size that is none", _cut(_TOLD, True, _close, b"zz\r\n")),
        ("chunks whose last lacks its final line", _cut(_TOLD, True, _close, b"0\r\n")),
        ("a body that ends short of its length", _cut(_TOLD, False, _close)),
        ("a body that is reset short of its length", _cut(_TOLD, False, _reset)),
        ("a final event without the last chunk", _cut(b"data: [DONE]\n\n", True, _close)),
    ),
    start=1,
):
    SHIM.case(f"13.{_place}", f"{_what}: all octets reach the agent, and then a cut", "F-21")(_check)


def _all_at_once(part: bytes, chunked: bool) -> Answer:
    async def answer(call: Call) -> None:
        breaking = _Breaking(part, chunked, _close)
        breaking.go.set()
        await breaking(call)

    return answer


@SHIM.case("13.9", "no octet under way is lost where the break comes at once and the agent is slow", "F-21")
async def nothing_lost(target: Target) -> None:
    async with target.bench() as bench:
        for chunked in (True, False):
            agent, response = await started(bench, _all_at_once(_LARGE, chunked))
            await asyncio.sleep(0.2)  # the shim has met the break by now
            await _read_part(agent, response, _LARGE)
            equal("data behind the break", await agent.next_data(response), None)
            equal("how the response ended", response.ending, "cut")


@SHIM.case("13.10", "a head that ends early is no response", "F-21")
async def half_a_head(target: Target) -> None:
    for half in (b"HTTP/1.1 200 OK\r\nContent-Type: text/pl", b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n\r\n"):

        async def answer(call: Call, half: bytes = half) -> None:
            await call.connection.send(half)
            call.connection.close()

        async with target.bench() as bench:
            bench.upstream.script(answer)
            agent = await bench.agent()
            await bench.send(agent, b"not JSON")
            got = await agent.receive_all()
            expect(b" 200 " not in got[:20], "no response", repr(got))
            equal("calls that reached the server", len(bench.upstream.calls), 1)


@SHIM.case("13.11", "an agent of HTTP/1.0, to which the end of the connection is the end, sees a reset", "F-21")
async def until_close(target: Target) -> None:
    async with target.bench() as bench:
        breaking = _Breaking(_TOLD, True, _close)
        bench.upstream.script(breaking)
        agent = await bench.agent()
        lines = [("Host", "a"), ("Content-Length", "8")]
        await agent.send(request_head("POST", CHAT, lines, "1.0") + b"not JSON")
        got = b""
        while not got.endswith(_TOLD):
            piece = await agent.receive()
            expect(piece, f"octets up to {_TOLD!r}", repr(got))
            got += piece
        expect(b"chunked" not in got, "a response that is delimited by the connection's end", repr(got))
        breaking.go.set()
        equal("octets behind the break", await agent.receive_all(), b"")
        expect(agent.was_reset, "a reset", "an end in good order")


@SHIM.case("13.12", "a complete response is one, whatever its events say", "F-21", "F-23")
async def complete(target: Target) -> None:
    async def answer(call: Call) -> None:
        await call.connection.start(*call.ours())
        await call.connection.chunk(_TOLD)
        await call.connection.end()

    async with target.bench() as bench:
        agent, response = await started(bench, answer)
        await _read_part(agent, response, _TOLD)
        equal("data behind it", await agent.next_data(response), None)
        equal("how the response ended", response.ending, "complete")
