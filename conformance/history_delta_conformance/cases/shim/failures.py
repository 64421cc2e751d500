# SPDX-License-Identifier: Apache-2.0
"""Cases: requests that fail on the way, which is for the agent to deal with. SPEC.md section 8."""

import json

from history_delta_protocol import wire

from ..base import Check
from ..check import equal, expect, told
from ..registry import SHIM
from ..wire import Response
from .bench import Bench, Target
from .bodies import TARGETS, grown
from .upstream import Answer, Call, broken, reply, reset, resync

_NOT_REPEATED = ("C-20", "F-21")


async def _fails(bench: Bench, body: bytes, answer: Answer) -> Call:
    """The call is carried to the server once, and the agent sees that it broke: not an octet of a response."""
    before = len(bench.upstream.calls)
    bench.upstream.script(answer)
    agent = await bench.agent()
    await bench.send(agent, body)
    equal("octets of a response that never came", await agent.receive_all(), b"")
    # Were it repeated, the repetition would stand before this one.
    await bench.talk(b"the call behind it")
    calls = bench.upstream.calls[before:]
    equal("calls that reached the server", [call.body for call in calls[1:]], [b"the call behind it"])
    return calls[0]


def _not_repeated(answer: Answer, first_turns: int) -> Check:
    async def check(target: Target) -> None:
        bodies = grown(1, first_turns + 1)
        async with target.bench() as bench:
            await bench.talks(bodies[:-1])
            await _fails(bench, bodies[-1], answer)

    return check


for _place, (_what, _answer, _turns) in enumerate(
    (
        ("closed on the first call's connection", broken, 0),
        ("reset on the first call's connection", reset, 0),
        ("closed on a connection that has been used", broken, 1),
        ("reset on a connection that has been used", reset, 1),
        ("closed after a frame", broken, 2),
        ("reset after a frame", reset, 2),
    ),
    start=1,
):
    SHIM.case(f"11.{_place}", f"nothing is repeated where the server has {_what}", *_NOT_REPEATED)(
        _not_repeated(_answer, _turns)
    )


@SHIM.case("11.7", "a full body after a resync is not repeated either", "C-13", "C-20")
async def after_a_resync(target: Target) -> None:
    bodies = grown(1, 3)
    async with target.bench() as bench:
        await bench.talks(bodies[:2])
        bench.upstream.script(resync(wire.RESYNC_UNKNOWN_BASE), reset)
        agent = await bench.agent()
        await bench.send(agent, bodies[2])
        equal("octets of a response that never came", await agent.receive_all(), b"")
        equal("calls that reached the server", len(bench.upstream.calls), 4)


async def _closing(call: Call) -> None:
    """A whole response, behind which the connection is closed without a word of warning."""
    await reply()(call)
    call.connection.close()


@SHIM.case("11.8", "a connection that died while idle: the next call is carried once, or fails", "C-20")
async def died_idle(target: Target) -> None:
    async with target.bench() as bench:
        for body in grown(1, 6):
            bench.upstream.script(_closing)
            seen = len(bench.upstream.calls)
            agent = await bench.agent()
            await bench.send(agent, body)
            answered = await agent.receive()
            carried = len(bench.upstream.calls) - seen
            expect(carried == 1 or (not carried and b" 200 " not in answered[:20]), "one call at most", str(carried))


@SHIM.case("11.9", "errors of the server and of the model are passed on, and nothing is repeated", "C-20")
async def errors(target: Target) -> None:
    async with target.bench() as bench:
        for speaks in (True, False):
            for status in (400, 401, 429, 500, 502, 503, 504, 529):
                answer = reply(status, ("Retry-After", "7"), body=b"sorry", speaks=speaks, held=None)
                bench.upstream.script(answer)
                talk = await bench.talk(b"not JSON")
                response = talk.response
                got = (len(talk.calls), response.status, response.value("Retry-After"), response.body)
                equal("calls, status, Retry-After and body", got, (1, status, "7", b"sorry"))


def _unreachable(response: Response, port: int, dialect: str) -> None:
    equal("status", response.status, 503)
    expect(response.value("Retry-After"), "Retry-After", told(response))
    try:
        document = json.loads(response.body)
        got = (document["error"]["code"], str(port) in document["error"]["message"], document.get("type"))
    except (ValueError, KeyError, TypeError):
        got = ("", False, None)
    wanted = (wire.UNAVAILABLE_CODE, True, "error" if dialect == "messages" else None)
    expect(got == wanted, f"{wire.UNAVAILABLE_CODE} that names port {port}, as {dialect} has errors", told(response))


def _register_unreachable() -> None:
    for place, dialect in enumerate(TARGETS):

        async def check(target: Target, dialect: str = dialect) -> None:
            bodies = grown(1, 4, dialect)
            async with target.bench() as bench:
                await bench.talks(bodies[:2], TARGETS[dialect])
                await bench.upstream.stop_listening()
                talk = await bench.talk(bodies[2], target=TARGETS[dialect])
                _unreachable(talk.response, bench.upstream.port, dialect)
                await bench.upstream.listen()
                await bench.talks(bodies[2:], TARGETS[dialect])

        SHIM.case(f"11.{10 + place}", f"a server that cannot be reached is 503 in the dialect {dialect}", "C-21")(check)


_register_unreachable()


@SHIM.case("11.13", "a server that is not there at the first call is 503, and found when it is", "C-21", "C-4")
async def not_there_yet(target: Target) -> None:
    bodies = grown(1, 3)
    async with target.bench() as bench:
        await bench.upstream.stop_listening()
        for _ in range(2):
            _unreachable((await bench.talk(bodies[0])).response, bench.upstream.port, "chat")
        await bench.upstream.listen()
        await bench.talks(bodies)
