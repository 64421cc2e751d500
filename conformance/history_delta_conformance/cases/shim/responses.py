# SPDX-License-Identifier: Apache-2.0
"""Cases: that a response reaches the agent as it comes and as it is. SPEC.md section 8."""

import asyncio
import gzip
import random
from collections.abc import Sequence

from history_delta_protocol import wire

from .. import endpoint
from ..base import CaseFailed, Check
from ..check import equal, expect, none_of_ours, same_octets
from ..registry import SHIM
from ..wire import Connection, Header, Response
from .bench import Bench, Target, end_to_end
from .bodies import grown
from .upstream import Answer, Call, wait_for

# Before an agent sees an octet that the server sent, though the machine may be busy.
_AT_ONCE = 3.0
_EVENT = b'data: {"choices":[{"delta":{"content":"%d \xf0\x9f\x8c\x8d"}}]}\n\n'
_FINAL_EVENT = b"data: [DONE]\n\n"


async def started(bench: Bench, answer: Answer, body: bytes = b"not JSON") -> tuple[Connection, Response]:
    """A call whose response is answered so, with its head read."""
    bench.upstream.script(answer)
    agent = await bench.agent()
    await bench.send(agent, body)
    return agent, await agent.read_head(seconds=_AT_ONCE)


class Gate:
    """An answer that sends a piece each time that the case lets it."""

    def __init__(self, pieces: Sequence[bytes], *, length: int | None = None, headers: Sequence[Header] = ()) -> None:
        self._pieces, self._length, self._headers = pieces, length, headers
        self._steps = [asyncio.Event() for _ in range(len(pieces) + 1)]
        self._let = 0

    def let(self) -> None:
        """The next piece, and the end behind the last."""
        self._steps[self._let].set()
        self._let += 1

    async def __call__(self, call: Call) -> None:
        connection = call.connection
        headers = [*call.ours(), *self._headers]
        if self._length is None:
            await connection.start(*headers)
        else:
            lengths = ("Content-Length", str(self._length))
            await connection.send(endpoint.response_head(200, "OK", *headers, lengths))
        for step, piece in zip(self._steps, self._pieces, strict=False):
            await wait_for(step, connection)
            await (connection.chunk(piece) if self._length is None else connection.send(piece))
        await wait_for(self._steps[-1], connection)
        if self._length is None:
            await connection.end()
        connection.over()


def _one_by_one(with_length: bool) -> Check:
    async def check(target: Target) -> None:
        for pieces in ([_EVENT % at for at in range(6)], [bytes([octet]) for octet in _EVENT[:40]]):
            gate = Gate(pieces, length=sum(map(len, pieces)) if with_length else None)
            async with target.bench() as bench:
                agent, response = await started(bench, gate)
                for piece in pieces:
                    gate.let()
                    await _comes(agent, response, piece)
                gate.let()
                equal("data behind the last", await agent.next_data(response), None)
                equal("the end of the response", response.ending, "complete")

    return check


async def _comes(agent: Connection, response: Response, piece: bytes) -> None:
    """The piece, before the server sends anything else."""
    got = b""
    while len(got) < len(piece):
        data = await agent.next_data(response, seconds=_AT_ONCE)
        if data is None:
            raise CaseFailed(f"{piece!r}", f"the end of the response after {got!r}")
        got += data
    same_octets("the piece of the response", got, piece)


SHIM.case("12.1", "events in chunks come one by one, as they are sent", "F-23")(_one_by_one(False))
SHIM.case("12.2", "pieces of a response with a length come one by one", "F-23")(_one_by_one(True))

_HEADERS = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("X-Twice", "one"),
    ("Set-Cookie", "a=b"),
    ("x-twice", "two"),
    ("SET-COOKIE", "c=d"),
    ("x-empty", ""),
    ("X-Latin", "caf\xe9"),
    ("Server", "somebody/1.0"),
    ("Date", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("Retry-After", "1"),
)
_OURS = (
    (wire.VERSION_HEADER, "1"),
    ("history-delta-held", "1 x"),
    ("HISTORY-DELTA-Anything", "at all"),
)


def _given(status: int, *headers: Header, body: bytes = b"{}") -> Answer:
    async def answer(call: Call) -> None:
        await call.connection.respond(body, *headers, status=status, reason="A Reason")

    return answer


@SHIM.case("12.3", "status and end-to-end headers reach the agent as they are: order, case, duplicates", "F-23")
async def headers_kept(target: Target) -> None:
    async with target.bench() as bench:
        for status in (200, 201, 302, 404, 500, 529):
            _, response = await started(bench, _given(status, *_OURS, *_HEADERS))
            equal("the status", response.status, status)
            equal("the headers", end_to_end(response.headers), list(_HEADERS))


@SHIM.case("12.4", "the protocol's headers are stripped from responses, in any case", "F-5")
async def ours_stripped(target: Target) -> None:
    async with target.bench() as bench:
        for status in (200, 500):
            for body in grown(1, 3):
                _, response = await started(bench, _given(status, *_OURS, ("X-Kept", "1")), body)
                none_of_ours("a response to the agent", response.headers)
                equal("another header", response.value("X-Kept"), "1")


@SHIM.case("12.5", "headers of the server's hop, and those that Connection names, are dropped", "F-23")
async def hop_by_hop(target: Target) -> None:
    hop = (("Connection", "X-Hop"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"), ("Proxy-Connection", "x"))
    async with target.bench() as bench:
        _, response = await started(bench, _given(200, *hop, ("X-Kept", "1")))
        left = {name.lower() for name, _ in response.headers} & {"x-hop", "keep-alive", "proxy-connection"}
        expect(not left, "headers of the server's hop to be dropped", str(left))
        equal("another header", response.value("X-Kept"), "1")


@SHIM.case("12.6", "a response's body is octet for octet the server's, whatever its coding", "F-23")
async def bodies_kept(target: Target) -> None:
    noise = random.Random(3).randbytes(3 << 20)
    bodies = ((b"", ()), (gzip.compress(b"{}" * 99), (("Content-Encoding", "gzip"),)), (noise, ()))
    async with target.bench() as bench:
        for body, headers in bodies:
            agent, response = await started(bench, _given(200, *headers, body=body))
            got = b""
            while (data := await agent.next_data(response)) is not None:
                got += data
            same_octets("the server's body", got, body)
            equal("the end of the response", response.ending, "complete")


@SHIM.case("12.7", "responses without a body end with their head", "F-23")
async def without_body(target: Target) -> None:
    async def answer(call: Call) -> None:
        await call.connection.send(endpoint.response_head(204, "No Content", *call.ours()))
        call.connection.over()

    async with target.bench() as bench:
        agent, response = await started(bench, answer)
        equal("status and end", (response.status, await agent.next_data(response)), (204, None))
        equal("the next call on the connection", (await bench.talk(b"{}", agent=agent)).response.status, 200)


def _leaves(pieces: Sequence[bytes]) -> tuple[Gate, asyncio.Future[Call], Answer]:
    gate, came = Gate(pieces), asyncio.get_running_loop().create_future()

    async def answer(call: Call) -> None:
        came.set_result(call)
        await gate(call)

    return gate, came, answer


@SHIM.case(
    "12.8",
    "a call whose agent closes after the final event is not cancelled at once",
    "F-24",
    level="SHOULD",
)
async def leaves_after_the_end(target: Target) -> None:
    async with target.bench() as bench:
        # A quarter of a second is short on a busy machine: once in three is enough to show that it does wait.
        for _ in range(3):
            if await _waits_for_the_rest(bench):
                return
        expect(False, "the rest of the response to be waited for", "the call was cancelled within 100 ms")


async def _waits_for_the_rest(bench: Bench) -> bool:
    """Whether a call stands 100 ms after its agent has closed behind the final event."""
    gate, came, answer = _leaves([_FINAL_EVENT])
    agent, response = await started(bench, answer)
    gate.let()
    await _comes(agent, response, _FINAL_EVENT)
    await agent.close()
    call = (await came).connection
    cancelled = asyncio.create_task(call.wait_until_given_up("", 5))
    done, _ = await asyncio.wait([cancelled], timeout=0.1)
    cancelled.cancel()
    gate.let()
    await call.is_over.wait()
    return not done


async def _cancelled(came: asyncio.Future[Call]) -> None:
    await (await came).connection.wait_until_given_up("the call to be cancelled, as its agent has left", 5)


@SHIM.case("12.9", "a call whose agent leaves in the midst of the response is cancelled", "F-24")
async def leaves_in_the_midst(target: Target) -> None:
    async with target.bench() as bench:
        gate, came, answer = _leaves([_EVENT % 1, _EVENT % 2])
        agent, response = await started(bench, answer)
        gate.let()
        await _comes(agent, response, _EVENT % 1)
        await agent.close()
        await _cancelled(came)
        (await came).connection.close()
        equal("the next call", (await bench.talk(b"{}")).response.status, 200)


@SHIM.case("12.10", "a call whose agent leaves before the response is cancelled", "F-24")
async def leaves_before(target: Target) -> None:
    came: asyncio.Future[Call] = asyncio.get_running_loop().create_future()

    async def answer(call: Call) -> None:
        came.set_result(call)
        await call.connection.is_over.wait()

    async with target.bench() as bench:
        bench.upstream.script(answer)
        agent = await bench.agent()
        await bench.send(agent, b"not JSON")
        await bench.upstream.wait_for(lambda: bool(bench.upstream.calls), "the call")
        await agent.close()
        await _cancelled(came)
        (await came).connection.close()
        equal("the next call", (await bench.talk(b"{}")).response.status, 200)
