# SPDX-License-Identifier: Apache-2.0
"""Cases: many calls at the same time, none of which may be taken for another. SPEC.md sections 2 and 8."""

import asyncio

from ..check import equal, expect, same_octets
from ..registry import SHIM
from ..wire import Response
from .bench import JSON, Bench, Target, check_call
from .bodies import CHAT, TARGETS, grown, said
from .bodies import conversation as beginning
from .responses import Gate, started
from .upstream import Call, speaking

_AGENTS = 16


async def _call(bench: Bench, body: bytes, target: str = CHAT) -> Call:
    """A call beside others: the response says which of the server's calls it answers."""
    agent = await bench.agent()
    await bench.send(agent, body, target=target)
    response: Response = await agent.read_response()
    await agent.close()
    equal("the status of a call", response.status, 200)
    serial = response.value("X-Serial")
    same_octets("the body of its own response", response.body, b'{"serial":%s}' % str(serial).encode())
    [call] = [call for call in bench.upstream.calls if str(call.serial) == serial]
    check_call(call, body, [JSON], target)
    return call


@SHIM.case("15.1", "16 conversations of three dialects at the same time", "F-1", "C-18", "C-19")
async def many_conversations(target: Target) -> None:
    async def lead(bench: Bench, number: int) -> None:
        dialect = list(TARGETS)[number % 3]
        for body in grown(number + 1, 6, dialect):
            await _call(bench, body, TARGETS[dialect])

    async with target.bench(speaking(encodings=["gzip"])) as bench:
        await asyncio.gather(*(lead(bench, number) for number in range(_AGENTS)))
        equal("calls that reached the server", len(bench.upstream.calls), 6 * _AGENTS)
        equal("delivery ids", len({call.delivery for call in bench.upstream.calls}), 6 * _AGENTS)


@SHIM.case("15.2", "16 equal calls at the same time are 16 calls, each with an answer of its own", "C-19", "C-20")
async def equal_calls(target: Target) -> None:
    async with target.bench() as bench:
        for body in grown(1, 3):
            calls = await asyncio.gather(*(_call(bench, body) for _ in range(_AGENTS)))
            equal("answers", len({call.serial for call in calls}), _AGENTS)
            equal("delivery ids", len({call.delivery for call in calls}), _AGENTS)


@SHIM.case("15.3", "conversations that go apart at the same time", "F-1", "C-18")
async def forks(target: Target) -> None:
    async with target.bench() as bench:
        root = beginning(1, 6)
        await _call(bench, root.raw)
        branches = [root.and_then(said(600 + number)) for number in range(_AGENTS)]
        for turn in range(4):
            branches = [
                branch.and_then(said(2000 + 100 * turn + place), said(3000 + place))
                for place, branch in enumerate(branches)
            ]
            await asyncio.gather(*(_call(bench, branch.raw) for branch in branches))


@SHIM.case("15.4", "a call that waits holds no other up", "F-23")
async def one_waits(target: Target) -> None:
    async with target.bench() as bench:
        gate = Gate([b"late"])
        agent, response = await started(bench, gate)
        for body in grown(1, 4):
            equal("the status of another call", (await bench.talk(body)).response.status, 200)
        gate.let()
        gate.let()
        equal("the late response", await agent.next_data(response), b"late")
        expect(await agent.next_data(response) is None, "its end", "more")


@SHIM.case("15.5", "16 streams at the same time, each with its own events", "F-23")
async def many_streams(target: Target) -> None:
    async with target.bench() as bench:
        streams = []
        for number in range(_AGENTS):
            gate = Gate([b"data: %d of %d\n\n" % (event, number) for event in range(3)])
            streams.append((gate, *await started(bench, gate)))
        for event in range(3):
            for gate, _, _ in streams:
                gate.let()
            for number, (_, agent, response) in enumerate(streams):
                equal("the event", await agent.next_data(response), b"data: %d of %d\n\n" % (event, number))
