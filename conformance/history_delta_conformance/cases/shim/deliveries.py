# SPDX-License-Identifier: Apache-2.0
"""Cases: which rollout a call belongs to, and what it is called. SPEC.md sections 3.1, 3.2 and 8."""

from history_delta_protocol import wire
from history_delta_protocol.dialect import ROLLOUT_ID

from ..base import NotRun
from ..check import equal, expect
from ..registry import SHIM
from .bench import Bench, Target, expect_frame
from .bodies import CHAT, TARGETS, grown
from .process import ROLLOUT

_PREFIXED = (
    "/ng-rollout/r1/v1/chat/completions",
    "/base/ng-rollout/A.b_c-9/v1/messages?beta=true",
    "/ng-rollout/r1/training-token-capture/v1/responses",
    "/ng-rollout/r1/ng-rollout/r2/responses",
)
# 128 bits in the characters of an id.
_LEAST_MINTED = 20


async def _rollouts(bench: Bench) -> list[str]:
    """The rollout header of calls of all dialects, one after the other."""
    given = []
    for target in TARGETS.values():
        for _ in range(2):
            values = (await bench.talk(b"{}", target=target)).call.request.values(wire.ROLLOUT_HEADER)
            equal("rollout headers of a call without a prefix", len(values), 1)
            given += values
    return given


@SHIM.case("2.1", "mints a rollout id, for its process's life", "C-1")
async def minted(target: Target) -> None:
    if target.command.names_rollout:
        raise NotRun("the command names the rollout: run without {rollout} to see one minted")
    ids = set()
    for _ in range(2):
        async with target.bench() as bench:
            of_one_life = set(await _rollouts(bench))
        equal("ids in a process's life", len(of_one_life), 1)
        ids |= of_one_life
    equal("ids of two processes", len(ids), 2)
    for rollout in ids:
        expect(ROLLOUT_ID.match(rollout) and len(rollout) >= _LEAST_MINTED, "an id of 128 random bits", repr(rollout))


@SHIM.case("2.2", "sends the rollout id that it was configured with", "C-1")
async def configured(target: Target) -> None:
    if not target.command.names_rollout:
        raise NotRun("the command names no rollout: run with {rollout} to see it sent")
    async with target.bench() as bench:
        equal("rollout ids", set(await _rollouts(bench)), {ROLLOUT})


@SHIM.case("2.3", "leaves a rollout prefix as it is, and names no other rollout beside it", "C-1", "C-2")
async def prefixed(target: Target) -> None:
    async with target.bench() as bench:
        for path in _PREFIXED:
            call = (await bench.talk(b"{}", target=path)).call
            named = set(call.request.values(wire.ROLLOUT_HEADER))
            expect(named <= {call.rollout}, f"no other rollout than {call.rollout}", str(named))


@SHIM.case("2.4", "leaves the request target as it is", "C-2", "C-7")
async def targets(target: Target) -> None:
    async with target.bench() as bench:
        for path in (
            "//v1//chat/completions",
            "/v1/%63hat/../chat/completions?a=b&c=%20+;x",
            "/v1/responses?",
            "/messages",
        ):
            await bench.talk(b"{}", target=path)


@SHIM.case("2.5", "gives every request of the agent a delivery id of its own, a repeated one included", "C-19", "C-7")
async def deliveries(target: Target) -> None:
    async with target.bench() as bench:
        bodies = [body for body in grown(1, 3) for _ in range(3)]
        seen = [talk.call.delivery for talk in await bench.talks(bodies)]
        equal("different delivery ids", len(set(seen)), len(bodies))


@SHIM.case("2.6", "strips the protocol's headers from what the agent sent, in any case, and uses none", "F-5", "C-19")
async def agents_headers_stripped(target: Target) -> None:
    forged = (
        ("History-Delta-Version", "7"),
        ("HISTORY-DELTA-DELIVERY", "0" * 32),
        ("history-delta-rollout", "forged"),
        ("History-Delta-Full", "suspended"),
        ("history-DELTA-held", "1 x"),
        ("History-Delta-Resync", "disabled"),
        ("History-Delta-Anything", "at all"),
    )
    async with target.bench() as bench:
        for body in grown(1, 2):
            request = (await bench.talk(body, *forged)).call.request
            ours = {name.lower() for name in request.names() if name.lower().startswith(wire.HEADER_PREFIX)}
            known = {name.lower() for name in (wire.VERSION_HEADER, wire.DELIVERY_HEADER, wire.ROLLOUT_HEADER)}
            expect(ours <= known | {wire.FULL_HEADER.lower()}, "the protocol's request headers alone", str(ours))
            expect(request.value(wire.DELIVERY_HEADER) != "0" * 32, "an id of the shim's own", "the agent's")
            expect(request.value(wire.ROLLOUT_HEADER) != "forged", "the shim's rollout", "the agent's")


@SHIM.case("2.7", "strips the protocol's headers from what is no model call, and from the answer", "F-5")
async def other_requests_stripped(target: Target) -> None:
    async with target.bench() as bench:
        agent = await bench.agent()
        await agent.send(b"GET /v1/models HTTP/1.1\r\nHost: a\r\nhistory-delta-delivery: x\r\n\r\n")
        response = await agent.read_response("GET")
        equal("status", response.status, 200)
        [request] = bench.upstream.others
        forged = [value for value in request.values(wire.DELIVERY_HEADER) if value == "x"]
        expect(not forged, "the agent's header to be stripped", str(request.headers))


@SHIM.case("2.8", "keeps what one rollout holds from another", "C-18")
async def rollouts_apart(target: Target) -> None:
    async with target.bench() as bench:
        bodies = grown(1, 3)
        await bench.talks(bodies[:2], "/ng-rollout/r1" + CHAT)
        # A frame out of what another rollout holds could not be rebuilt, and fails the case.
        await bench.talks(bodies[1:], "/ng-rollout/r2" + CHAT)
        *_, last = await bench.talks(bodies[2:], "/ng-rollout/r1" + CHAT)
        expect_frame(last)


@SHIM.case("2.9", "keeps what one dialect holds from another", "C-18")
async def dialects_apart(target: Target) -> None:
    async with target.bench() as bench:
        bodies = grown(1, 3)
        await bench.talks(bodies[:2], TARGETS["chat"])
        await bench.talks(bodies[1:], TARGETS["messages"])
        *_, last = await bench.talks(bodies[2:], TARGETS["chat"])
        expect_frame(last)
