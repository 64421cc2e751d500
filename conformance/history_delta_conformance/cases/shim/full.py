# SPDX-License-Identifier: Apache-2.0
"""Cases: what is left as it is in a full send, and in what is no model call. SPEC.md section 3.4."""

import random

from history_delta_protocol import wire

from ..check import equal, expect, same_octets
from ..registry import SHIM
from ..wire import chunked, request_head
from .bench import Bench, Target, end_to_end, expect_full
from .bodies import CHAT, TARGETS, grown
from .upstream import reply, silent

_HEADERS = (
    ("x-first", "1"),
    ("Authorization", "Bearer secret"),
    ("ACCEPT", "*/*"),
    ("accept-Encoding", "gzip, br"),
    ("X-Twice", "one"),
    ("Cookie", "a=b"),
    ("x-twice", "two"),
    ("Cookie", "c=d"),
    ("User-Agent", "agent/1.0 (x; y)"),
    ("X-Empty", ""),
    ("X-Latin", "caf\xe9"),
    ("X-Inner", "a  b\tc"),
    ("Via", "1.1 somebody"),
    ("x-a-last", "0"),
)


@SHIM.case("3.1", "leaves end-to-end headers as they are: order, case and duplicates", "C-7")
async def headers_kept(target: Target) -> None:
    async with target.bench(silent) as bench:
        for dialect in TARGETS:
            await bench.talk(b'{"x":1}', *_HEADERS, target=TARGETS[dialect])


@SHIM.case("3.2", "adds no end-to-end header that the agent did not send", "C-7")
async def nothing_added(target: Target) -> None:
    async with target.bench(silent) as bench:
        await bench.talk(b'{"x":1}', content_type=None)


@SHIM.case("3.3", "keeps headers of the hop, and those that Connection names, to itself", "C-7")
async def hop_by_hop(target: Target) -> None:
    hop = (("Connection", "X-Hop, keep-alive"), ("X-Hop", "1"), ("Keep-Alive", "timeout=5"), ("TE", "trailers"))
    async with target.bench(silent) as bench:
        request = (await bench.talk(b'{"x":1}', *hop, ("X-Kept", "1"))).call.request
        left = request.names() & {"x-hop", "keep-alive", "te"}
        expect(not left, "headers of the agent's hop to be dropped", str(left))


@SHIM.case("3.4", "sends a body in full octet for octet, whatever it is", "C-7", "F-1", "F-2")
async def any_body(target: Target) -> None:
    noise = random.Random(1).randbytes(70_000)
    async with target.bench() as bench:
        for body in (b"", b"\0", b'{"messages":', b"\xff\xfe" + "{}".encode("utf-16-le"), noise):
            for _ in range(2):
                expect_full(await bench.talk(body), "the body is not understood")


@SHIM.case("3.5", "sends a body of 8 MiB in full octet for octet", "C-7", "F-1")
async def large_body(target: Target) -> None:
    async with target.bench() as bench:
        expect_full(await bench.talk(random.Random(2).randbytes(8 << 20)), "the body is not understood")


@SHIM.case("3.6", "takes a body in chunks", "C-7", "F-1")
async def body_in_chunks(target: Target) -> None:
    async with target.bench() as bench:
        for body in [b"", *grown(1, 3)]:
            head = request_head("POST", CHAT, [("Host", "a"), ("Transfer-Encoding", "chunked")])
            agent = await bench.agent()
            await agent.send(head + chunked(*(body[at : at + 97] for at in range(0, len(body), 97))))
            equal("status", (await agent.read_response()).status, 200)
            same_octets("the agent's body", bench.upstream.calls[-1].body, body)


async def _passes(bench: Bench, method: str, path: str, body: bytes) -> None:
    """A request that is no model call."""
    seen = len(bench.upstream.others)
    sent = [("Content-Type", "application/json"), *_HEADERS]
    agent = await bench.agent()
    await agent.send(request_head(method, path, [("Host", "a"), *sent, ("Content-Length", str(len(body)))]) + body)
    response = await agent.read_response(method)
    equal("status", response.status, 200)
    equal("requests that reached the server", len(bench.upstream.others) - seen, 1)
    request = bench.upstream.others[-1]
    equal("method and target", (request.method, request.target), (method, path))
    equal("the agent's headers", end_to_end(request.headers), sent)
    same_octets("the agent's body", request.body, body)


@SHIM.case("3.7", "passes through what is no model call: method, target, headers, body", "C-7", "F-2")
async def no_model_call(target: Target) -> None:
    body = grown(1, 1)[0]
    async with target.bench() as bench:
        for path in (
            "/v1/models?x=/v1/responses",
            "/v1/messages/count_tokens",
            "/v1/Responses",
            "/v1/messages/",
            "/v1/xresponses",
            "/v1/chat%2Fcompletions",
            "/ng-rollout/r1/v1/embeddings",
        ):
            for _ in range(2):
                await _passes(bench, "POST", path, body)


@SHIM.case("3.8", "passes through other methods on the path of a model call", "C-7", "C-8")
async def other_methods(target: Target) -> None:
    bodies = grown(1, 3)
    async with target.bench() as bench:
        await bench.talks(bodies[:2])
        for method in ("PUT", "PATCH", "DELETE"):
            await _passes(bench, method, CHAT, bodies[2])


@SHIM.case("3.9", "says why a body is in full, in a word of section 10.5", "C-7", level="SHOULD")
async def says_why(target: Target) -> None:
    async with target.bench() as bench:
        wanted = {b"not JSON": "not-json", b'{"model":"m"}': "no-history"}
        for body, reason in wanted.items():
            equal("the reason", (await bench.talk(body)).call.request.values(wire.FULL_HEADER), [reason])
    async with target.bench(silent) as bench:
        bench.upstream.script(reply(speaks=False))
        given = (await bench.talk(grown(1, 1)[0])).call.request.values(wire.FULL_HEADER)
        equal("the reason", given, ["peer-does-not-speak"])


@SHIM.case("3.10", "gives no reason with a frame", "C-9")
async def frame_gives_no_reason(target: Target) -> None:
    async with target.bench() as bench:
        for talk in await bench.talks(grown(1, 3)):
            if talk.call.is_frame:
                equal("reasons for a full body", talk.call.request.values(wire.FULL_HEADER), [])


@SHIM.case("3.11", "serves requests of one connection in their order, also where they come at once", "C-7", "F-1")
async def pipelined(target: Target) -> None:
    bodies = grown(1, 4)
    async with target.bench() as bench:
        agent = await bench.agent()
        for body in bodies[:2]:
            await bench.talk(body, agent=agent)
        heads = [request_head("POST", CHAT, [("Host", "a"), ("Content-Length", str(len(body)))]) for body in bodies]
        await agent.send(b"".join(head + body for head, body in zip(heads, bodies, strict=True)))
        serials = [(await agent.read_response()).value("X-Serial") for _ in bodies]
        equal("answers, in order", serials, [str(call.serial) for call in bench.upstream.calls[2:]])
        for call, body in zip(bench.upstream.calls[2:], bodies, strict=True):
            same_octets("the agent's body", call.body, body)


@SHIM.case("3.12", "lets an agent that expects 100-continue send its body", "C-7", "F-1")
async def expects_continue(target: Target) -> None:
    body = grown(1, 1)[0]
    async with target.bench() as bench:
        agent = await bench.agent()
        lines = [("Host", "a"), ("Content-Length", str(len(body))), ("Expect", "100-continue")]
        await agent.send(request_head("POST", CHAT, lines))
        interim = await agent.receive()
        expect(interim.startswith(b"HTTP/1.1 100"), "100 Continue", repr(interim))
        await agent.send(body)
        equal("status", (await agent.read_response()).status, 200)
        same_octets("the agent's body", bench.upstream.calls[-1].body, body)
