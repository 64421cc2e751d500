# SPDX-License-Identifier: Apache-2.0
"""Cases: when a shim asks what its server speaks, and what it makes of the answer. SPEC.md section 3.3."""

import asyncio
import json
import time

from .. import endpoint
from ..base import Check
from ..check import equal, expect
from ..registry import SHIM
from .bench import Bench, Target, expect_frame, expect_full
from .bodies import CHAT, grown
from .upstream import CAPABILITIES, Capabilities, document, reply, silent, speaking

_NO_CALL_LONGER = 2.0
_SLACK = 1.0  # for processes that have to share a machine

_PATHS = {
    "/v1/chat/completions": "/v1/.well-known/history-delta",
    "/responses?x=/messages": "/.well-known/history-delta",
    "/base/ng-rollout/r1/v1/messages?a": "/base/v1/.well-known/history-delta",
    "/ng-rollout/r1/training-token-capture/v1/chat/completions": "/v1/.well-known/history-delta",
    "/ng-rollout/r1/training-token-captures/responses": "/training-token-captures/.well-known/history-delta",
    "/ng-rollout/r1/ng-rollout/r2/responses": "/ng-rollout/r2/.well-known/history-delta",
}


@SHIM.case("1.1", "asks before its first model call, without rollout prefix and query", "C-4")
async def asks_first(target: Target) -> None:
    for path, wanted in _PATHS.items():
        async with target.bench() as bench:
            await bench.talk(b"{}", target=path)
            equal("the question before the first call", [q.target for q in bench.upstream.questions], [wanted])


@SHIM.case("1.2", "asks nothing for what is no model call", "C-4")
async def asks_for_model_calls_alone(target: Target) -> None:
    async with target.bench() as bench:
        agent = await bench.agent()
        await agent.send(b"GET /v1/models HTTP/1.1\r\nHost: agent\r\n\r\n")
        await agent.read_response("GET")
        equal("the questions", len(bench.upstream.questions), 0)


@SHIM.case("1.3", "sends frames once the server has said that it speaks", "C-3", "C-5", "C-8")
async def speaks(target: Target) -> None:
    async with target.bench() as bench:
        *_, last = await bench.talks(grown(1, 3))
        expect_frame(last)


@SHIM.case("1.4", "ignores members and encodings that it does not know", "C-3", "C-11", "F-25")
async def unknown_members(target: Target) -> None:
    limits = CAPABILITIES["limits"] | {"patience": 7, "frames": None}
    known = speaking(encodings=["br", 7, None, "gzip", {}], limits=limits, news=[{"version": 2}])
    async with target.bench(known) as bench:
        *_, last = await bench.talks(grown(1, 3))
        expect_frame(last)


@SHIM.case("1.5", "takes absent members for their defaults", "C-3", "C-11")
async def absent_members(target: Target) -> None:
    async with target.bench(document(b'{"version":1}')) as bench:
        *_, last = await bench.talks(grown(1, 3))
        equal("codings", expect_frame(last).request.values("Content-Encoding"), [])


# With these, a first body would be a frame.
_CODED = CAPABILITIES | {"encodings": ["gzip"]}


async def _stays_full(bench: Bench) -> None:
    """The responses say nothing of the protocol either, and nothing against it: only a 2xx would."""
    bench.upstream.script(*[reply(503, speaks=False)] * 3)
    for talk in [await bench.talk(body) for body in grown(1, 3)]:
        equal("calls and status", (len(talk.calls), talk.response.status), (1, 503))
        expect_full(talk, "the server did not say that it speaks")


async def _reset(connection: endpoint.Call) -> None:
    connection.reset()


async def _cut(connection: endpoint.Call) -> None:
    content = json.dumps(_CODED).encode()
    await connection.send(endpoint.response_head(200, "OK", ("Content-Length", str(len(content) + 5))) + content)
    connection.close()


async def _not_http(connection: endpoint.Call) -> None:
    await connection.send(b"SSH-2.0-history\r\n")
    connection.close()


_ODD: list[tuple[str, Capabilities]] = [
    ("404", silent),
    ("another 2xx status", document(json.dumps(_CODED).encode(), 203)),
    ("500 with the capabilities", document(json.dumps(_CODED).encode(), 500)),
    ("a redirect", document(json.dumps(_CODED).encode(), 302, ("Location", "/elsewhere"))),
    ("nothing in it", document(b"")),
    ("HTML", document(b"<html>1</html>")),
    ("an array", document(b"[" + json.dumps(_CODED).encode() + b"]")),
    ("deep nesting", document(b"[" * 30000)),
    ("no version", document(json.dumps({"encodings": ["gzip"]}).encode())),
    ("version 2", speaking(**_CODED | {"version": 2})),
    ('version "1"', speaking(**_CODED | {"version": "1"})),
    ("version true", speaking(**_CODED | {"version": True})),
    ("more than 64 KiB", speaking(**_CODED, padding="x" * 65536)),
    ("a reset", _reset),
    ("an answer that is cut", _cut),
    ("an answer that is not HTTP", _not_http),
]


def _odd(capabilities: Capabilities) -> Check:
    async def check(target: Target) -> None:
        async with target.bench(capabilities) as bench:
            await _stays_full(bench)
            equal("questions within the first 60 s", len(bench.upstream.questions), 1)

    return check


for _index, (_what, _capabilities) in enumerate(_ODD):
    SHIM.case(f"1.{6 + _index}", f"capabilities: {_what}: full bodies only, no further question", "C-3", "C-4", "C-5")(
        _odd(_capabilities)
    )


@SHIM.case("1.22", "capabilities without end: no call waits, and no more than 64 KiB is read", "C-3", "C-4")
async def endless(target: Target) -> None:
    sent = 0

    async def flood(connection: endpoint.Call) -> None:
        nonlocal sent
        await connection.start(("Content-Type", "application/json"))
        given_up = _given_up(connection)
        while sent < 1 << 26 and not given_up.done():
            await connection.chunk(b" " * 16384)
            sent += 16384
            await asyncio.sleep(0)  # a send to nobody does not wait
        await given_up
        connection.close()

    async with target.bench(flood) as bench:
        await _stays_full(bench)
    # What lies in the buffers of two sockets was not read by the shim.
    expect(sent < 1 << 24, "an answer of which little is taken", f"{sent} octets were")


def _given_up(connection: endpoint.Call) -> asyncio.Task[None]:
    return asyncio.create_task(connection.wait_until_given_up("the question to be given up", 600))


async def _never(connection: endpoint.Call) -> None:
    await connection.is_over.wait()


async def _drips(connection: endpoint.Call) -> None:
    await connection.start(("Content-Type", "application/json"))
    given_up = _given_up(connection)
    while not given_up.done():
        await connection.chunk(b" ")
        await asyncio.wait([given_up], timeout=0.25)
    connection.close()


async def _no_call_waits(target: Target, capabilities: Capabilities) -> None:
    async with target.bench(capabilities) as bench:
        begun = time.monotonic()
        await _stays_full(bench)
        seconds = time.monotonic() - begun
        expect(
            seconds < _NO_CALL_LONGER + _SLACK, "three calls, of which one waits for 2 s at most", f"{seconds:.1f} s"
        )
        equal("questions", len(bench.upstream.questions), 1)


@SHIM.case("1.23", "capabilities that do not come: no call waits for longer than 2 s", "C-3", "C-4")
async def no_answer(target: Target) -> None:
    await _no_call_waits(target, _never)


@SHIM.case("1.24", "capabilities that drip: no call waits for longer than 2 s", "C-3", "C-4")
async def dripping_answer(target: Target) -> None:
    await _no_call_waits(target, _drips)


@SHIM.case("1.25", "asks once where many first calls come at the same time, and none fails", "C-4")
async def one_question(target: Target) -> None:
    async with target.bench(silent) as bench:
        agents = [await bench.agent() for _ in range(8)]
        for agent in agents:
            await agent.send(b"POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}" % CHAT.encode())
        statuses = [(await agent.read_response()).status for agent in agents]
        equal("statuses", statuses, [200] * 8)
        equal("questions", len(bench.upstream.questions), 1)


@SHIM.case("1.26", "a response with the version header makes the server known to speak, without codings", "C-5", "C-11")
async def known_by_its_response(target: Target) -> None:
    async with target.bench(silent) as bench:
        first, *_, last = await bench.talks(grown(1, 3))
        expect_full(first, "the server was not known to speak")
        equal("codings", expect_frame(last).request.values("Content-Encoding"), [])


@SHIM.case("1.27", "a 2xx to a full body without the version header ends it", "C-6", "C-5")
async def no_longer_speaks(target: Target) -> None:
    async with target.bench() as bench:
        bodies = grown(1, 5)
        *_, last = await bench.talks(bodies[:2])
        expect_frame(last)
        bench.upstream.script(*[reply(speaks=False)] * 3)
        expect_full(await bench.talk(b"not JSON"), "the body is not understood")
        for body in bodies[2:4]:
            expect_full(await bench.talk(body), "the server no longer speaks")
        equal("questions", len(bench.upstream.questions), 1)
