# SPDX-License-Identifier: Apache-2.0
"""Cases: frames that met something which cannot read them, and how often a shim tries again. SPEC.md section 7."""

from history_delta_protocol import wire

from ..base import Check
from ..check import equal, expect
from ..registry import SHIM
from .bench import Bench, Talk, Target, expect_frame, expect_full
from .bodies import conversation, grown, said
from .resyncs import expect_resent, frame_answered
from .upstream import Answer, reply, reset, resync, silent, speaking

_UNREADABLE = (400, 404, 405, 409, 411, 413, 415, 422, 431, 499, 501)
_INGRESS = (401, 403, 407, 408, 429)
_OTHERS = (200, 302, 500, 502, 503, 504)


def _foreign(status: int, body: bytes = b"<html>no</html>") -> Answer:
    return reply(status, body=body, speaks=False)


@SHIM.case("8.1", "a 4xx or 501 without the version header: the same delivery once more in full", "C-15")
async def resent(target: Target) -> None:
    for status in (*_UNREADABLE, *_INGRESS):
        async with target.bench() as bench:
            talk = await frame_answered(bench, _foreign(status), reply(speaks=False, body=b"read"))
            expect_resent(talk)
            equal("what the agent got", (talk.response.status, talk.response.body), (200, b"read"))


@SHIM.case("8.2", "after such a 4xx or 501 the server is one that does not speak", "C-15", "C-5")
async def no_longer(target: Target) -> None:
    for status in (400, 404, 415, 501):
        async with target.bench() as bench:
            expect_resent(await frame_answered(bench, _foreign(status), *[_foreign(500)] * 3))
            bench.upstream.capabilities = silent
            for body in grown(1, 5)[3:]:
                expect_full(await bench.talk(body), f"frames were answered with {status}")


@SHIM.case("8.3", "a 401, 403, 407, 408 or 429 says nothing of frames", "C-15", level="SHOULD")
async def ingress(target: Target) -> None:
    for status in _INGRESS:
        async with target.bench() as bench:
            expect_resent(await frame_answered(bench, _foreign(status), reply()))
            expect((await bench.talk(grown(1, 4)[3])).call.is_frame, f"a frame again after {status}", "a full body")


@SHIM.case("8.4", "the answer to the full body that follows is passed on, a 4xx too", "C-15")
async def final_answer(target: Target) -> None:
    for first, second in ((404, 404), (400, 422), (501, 501), (429, 429)):
        async with target.bench() as bench:
            talk = await frame_answered(bench, _foreign(first), _foreign(second, b"again"))
            expect_resent(talk)
            equal("what the agent got", (talk.response.status, talk.response.body), (second, b"again"))


@SHIM.case("8.5", "another response without the version header is passed on, the next body full", "C-15", "C-20")
async def passed_on(target: Target) -> None:
    for status in _OTHERS:
        async with target.bench() as bench:
            talk = await frame_answered(bench, _foreign(status, b"as it is"))
            equal("calls that reached the server", len(talk.calls), 1)
            equal("what the agent got", (talk.response.status, talk.response.body), (status, b"as it is"))
            expect_full(await bench.talk(grown(1, 4)[3]), f"the frame before was answered with {status}")


@SHIM.case("8.6", "responses with the version header are passed on, whatever their status", "C-15", "C-20")
async def models_errors(target: Target) -> None:
    for status in (400, 404, 413, 422, 429, 500, 501, 503):
        async with target.bench() as bench:
            talk = await frame_answered(bench, reply(status, body=b"the model's", held=None))
            equal("calls that reached the server", len(talk.calls), 1)
            equal("what the agent got", (talk.response.status, talk.response.body), (status, b"the model's"))


@SHIM.case("8.7", "where the connection broke before the answer to a frame, the next body is full", "C-15", "C-20")
async def after_a_break(target: Target) -> None:
    bodies = grown(1, 4)
    async with target.bench() as bench:
        await bench.talks(bodies[:2])
        bench.upstream.script(reset)
        agent = await bench.agent()
        await bench.send(agent, bodies[2])
        equal("octets of a response", await agent.receive_all(), b"")
        equal("calls that reached the server", len(bench.upstream.calls), 3)
        expect(bench.upstream.calls[2].is_frame, "a frame", "none")
        expect_full(await bench.talk(bodies[3]), "the connection of the frame before broke")


class _Refused:
    """A conversation of which the server takes frames or not, turn by turn."""

    def __init__(self, bench: Bench, number: int = 1) -> None:
        self._bench = bench
        self._body = conversation(number)
        self._turn = number * 1000 + 500

    async def turn(self, *answers: Answer) -> Talk:
        self._turn += 2
        self._body = self._body.and_then(said(self._turn, 300), said(self._turn + 1, 300))
        self._bench.upstream.script(*answers)
        return await self._bench.talk(self._body.raw)

    async def refused(self, answer: Answer) -> None:
        talk = await self.turn(answer, reply())
        expect_frame(Talk(talk.response, talk.calls[:1]))
        equal("sends", len(talk.calls), 2)

    async def full(self, count: int) -> None:
        for place in range(count):
            expect_full(await self.turn(), f"call {place + 1} of {count} after three refused frames")


def _suspended_by(answer: Answer) -> Check:
    async def check(target: Target) -> None:
        async with target.bench() as bench:
            turns = _Refused(bench)
            await turns.turn()
            for count in (8, 16, 32, 64, 64):
                for _ in range(3):
                    await turns.refused(answer)
                await turns.full(count)
            expect_frame(await turns.turn())

    return check


SHIM.case("8.8", "after three resyncs in a row 8 calls are full, then 16, 32, 64 and 64", "C-17")(
    _suspended_by(resync(wire.RESYNC_UNKNOWN_BASE))
)
SHIM.case("8.9", "after three 429 in a row from another than the server, the same", "C-17", "C-15", level="SHOULD")(
    _suspended_by(_foreign(429))
)


@SHIM.case("8.10", "a frame that is accepted ends the row", "C-17")
async def row_ends(target: Target) -> None:
    async with target.bench() as bench:
        turns = _Refused(bench)
        await turns.turn()
        for _ in range(3):
            for _ in range(2):
                await turns.refused(resync(wire.RESYNC_MISMATCH))
            expect_frame(await turns.turn())


@SHIM.case("8.11", "frames that continue no conversation count together", "C-17")
async def strangers(target: Target) -> None:
    async with target.bench(speaking(encodings=["gzip"])) as bench:
        for number in range(1, 4):
            bench.upstream.script(resync(wire.RESYNC_MISMATCH), reply())
            talk = await bench.talk(conversation(number, 9).raw)
            expect_frame(Talk(talk.response, talk.calls[:1]))
        for number in range(4, 12):
            expect_full(await bench.talk(conversation(number, 9).raw), "three frames without a base were refused")
        expect_frame(await bench.talk(conversation(12, 9).raw))
