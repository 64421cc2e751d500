# SPDX-License-Identifier: Apache-2.0
"""Cases: what a shim does when a server cannot rebuild its frame. SPEC.md section 7."""

import json

from history_delta_protocol import wire

from ..base import Check
from ..check import equal, expect, told
from ..registry import SHIM
from ..wire import Response
from .bench import Bench, Talk, Target, expect_frame, expect_full
from .bodies import CHAT, TARGETS, grown
from .upstream import Answer, reply, resync, silent

_REASONS = (
    wire.RESYNC_UNKNOWN_BASE,
    wire.RESYNC_UNKNOWN_HEAD,
    wire.RESYNC_UNKNOWN_TAIL,
    wire.RESYNC_MISMATCH,
    wire.RESYNC_NEW_OWNER,
    "a-reason-of-another-day",
)


async def frame_answered(
    bench: Bench, *answers: Answer, target: str = CHAT, dialect: str = "chat", turns: int = 2
) -> Talk:
    """A conversation of so many turns, and then a frame that is answered so."""
    *before, body = grown(1, turns + 1, dialect)
    await bench.talks(before, target)
    bench.upstream.script(*answers)
    talk = await bench.talk(body, target=target)
    expect_frame(Talk(talk.response, talk.calls[:1]))
    return talk


def expect_resent(talk: Talk) -> None:
    """The frame, and then the delivery once more in full."""
    frame, *again = talk.calls
    equal("sends after the frame", len(again), 1)
    expect_full(Talk(talk.response, again), "it is sent once more")
    equal("the delivery id", again[0].delivery, frame.delivery)


def _register_reasons() -> None:
    for place, reason in enumerate(_REASONS):

        async def check(target: Target, reason: str = reason) -> None:
            async with target.bench() as bench:
                talk = await frame_answered(bench, resync(reason), reply(200, ("X-Mark", "1"), body=b"answered"))
                expect_resent(talk)
                equal("what the agent got", (talk.response.status, talk.response.body), (200, b"answered"))

        SHIM.case(
            f"7.{1 + place}", f"after a resync {reason} the same delivery is sent once more in full", "C-12", "C-13"
        )(check)


_register_reasons()


@SHIM.case("7.7", "after a resync disabled it is sent in full, and the server does not speak any more", "C-13", "C-16")
async def disabled(target: Target) -> None:
    other = grown(2, 4)
    async with target.bench() as bench:
        await bench.talks(other[:2])
        talk = await frame_answered(bench, resync(wire.RESYNC_DISABLED), *[reply(speaks=False)] * 3)
        expect_resent(talk)
        bench.upstream.capabilities = silent
        for body in other[2:]:
            expect_full(await bench.talk(body), "the protocol is switched off there")


def _unavailable(response: Response, dialect: str) -> None:
    equal("status", response.status, 503)
    expect(response.value("Retry-After"), "Retry-After", told(response))
    try:
        document = json.loads(response.body)
        error = document["error"]
        got = (error["code"], isinstance(error["message"], str), document.get("type"), "param" in error)
    except (ValueError, KeyError, TypeError):
        got = ("", False, None, False)
    wanted = (wire.UNAVAILABLE_CODE, True, "error" if dialect == "messages" else None, dialect != "messages")
    expect(got == wanted, f"an error {wire.UNAVAILABLE_CODE} in the shape of the dialect {dialect}", told(response))


def _register_refusals() -> None:
    for place, dialect in enumerate(TARGETS):

        async def check(target: Target, dialect: str = dialect) -> None:
            async with target.bench() as bench:
                again = [resync(wire.RESYNC_UNKNOWN_BASE)] * 2
                talk = await frame_answered(bench, *again, target=TARGETS[dialect], dialect=dialect)
                expect_resent(talk)
                _unavailable(talk.response, dialect)
                after = await bench.talk(grown(1, 4, dialect)[3], target=TARGETS[dialect])
                equal("the status of the next call", after.response.status, 200)

        SHIM.case(f"7.{8 + place}", f"a resync of a full body becomes 503 in the dialect {dialect}", "C-14")(check)


_register_refusals()


@SHIM.case("7.11", "an agent never sees a resync, whatever it answers", "C-14")
async def never_seen(target: Target) -> None:
    async with target.bench() as bench:
        bench.upstream.script(resync(wire.RESYNC_UNKNOWN_BASE))
        talk = await bench.talk(b"not JSON")
        expect(talk.response.status != wire.RESYNC_STATUS, "anything but the resync", told(talk.response))
        equal("calls that reached the server", len(talk.calls), 1)


_FOREIGN: list[tuple[str, Answer]] = [
    ("409 with the version alone", reply(409, body=b"conflict", held=None)),
    ("409 with a resync's code in its body", reply(409, body=b'{"error":{"code":"gym_history_resync"}}', held=None)),
    ("200 with the resync header", reply(200, (wire.RESYNC_HEADER, "unknown-base"), body=b"ok", held=None)),
    ("410 with the resync header", reply(410, (wire.RESYNC_HEADER, "unknown-base"), body=b"gone", held=None)),
]


def _foreign(answer: Answer) -> Check:
    async def check(target: Target) -> None:
        async with target.bench() as bench:
            talk = await frame_answered(bench, answer)
            equal("calls that reached the server", len(talk.calls), 1)
            expect(talk.response.status in (409, 200, 410), "the response as it was", told(talk.response))
            expect(talk.response.value("X-Serial"), "the server's own response", told(talk.response))

    return check


for _place, (_what, _answer) in enumerate(_FOREIGN):
    SHIM.case(f"7.{12 + _place}", f"{_what} is no resync, and is passed on", "C-12")(_foreign(_answer))


@SHIM.case("7.16", "a 409 to a full body without the marks is the model's own", "C-12")
async def models_own(target: Target) -> None:
    async with target.bench() as bench:
        bench.upstream.script(reply(409, body=b"a", speaks=False), reply(409, (wire.RESYNC_HEADER, "x"), speaks=False))
        for _ in range(2):
            talk = await bench.talk(b"not JSON")
            equal("status and calls", (talk.response.status, len(talk.calls)), (409, 1))


@SHIM.case("7.17", "what a refused frame built on is no longer held", "C-16")
async def refused_is_forgotten(target: Target) -> None:
    async with target.bench() as bench:
        await frame_answered(bench, resync(wire.RESYNC_UNKNOWN_BASE), reply(held=None))
        bench.upstream.receiver.forget()
        for body in grown(1, 5)[3:]:
            equal("calls that reached the server", len((await bench.talk(body)).calls), 1)


@SHIM.case("7.18", "a loss of all that is held costs each conversation one resync, and no call", "C-13", "C-16")
async def loss(target: Target) -> None:
    bodies = [grown(number, 4) for number in range(1, 5)]
    async with target.bench() as bench:
        for turns in bodies:
            await bench.talks(turns[:2])
        bench.upstream.receiver.forget()
        for turns in bodies:
            sends = 0
            for body in turns[2:]:
                talk = await bench.talk(body, lost=True)
                equal("the status of a call", talk.response.status, 200)
                sends += len(talk.calls)
            expect(sends <= 3, "one resync at most", f"{sends - 2}")
