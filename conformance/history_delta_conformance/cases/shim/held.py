# SPDX-License-Identifier: Apache-2.0
"""Cases: what a shim may take as held, and what it may not. SPEC.md sections 2 and 7.

The cases' server rebuilds frames out of what it acknowledged alone: one that builds on anything else fails the case.
"""

from collections.abc import Callable

from history_delta_protocol import chain, wire

from ..base import Check
from ..check import equal
from ..registry import SHIM
from .bench import Target, expect_frame
from .bodies import Body, conversation, grown, said
from .upstream import Answer, Call, reply, speaking


def _altered(change: Callable[[int, str], str]) -> Answer:
    """A response with another value of History-Delta-Held than the right one; nothing is held."""

    async def answer(call: Call) -> None:
        count, _, value = (call.parts.held if call.parts else "0 ").partition(" ")
        await reply(held=change(int(count), value))(call)

    return answer


def _with_trailing_bits(value: str) -> str:
    """The same 32 octets to a decoder that is not strict."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    return value[:-1] + alphabet[alphabet.index(value[-1]) + 1]


_WRONG = [
    ("is missing", reply(held=None)),
    ("has a smaller count", _altered(lambda count, value: f"{count - 1} {value}")),
    ("has a larger count", _altered(lambda count, value: f"{count + 1} {value}")),
    ("has another chain value", _altered(lambda count, value: f"{count} {chain.to_text(bytes(32))}")),
    ("has padding", _altered(lambda count, value: f"{count} {value}=")),
    ("has trailing bits", _altered(lambda count, value: f"{count} {_with_trailing_bits(value)}")),
    ("has hexadecimal digits", _altered(lambda count, value: f"{count} {chain.from_text(value).hex()}")),
    ("has no count", _altered(lambda count, value: value)),
    ("is something else", _altered(lambda count, value: "yes")),
]


def _wrong(answer: Answer) -> Check:
    async def check(target: Target) -> None:
        bodies = grown(1, 5)
        for encodings in ([], ["gzip"]):
            async with target.bench(speaking(encodings=encodings)) as bench:
                bench.upstream.script(answer, answer)
                for body in bodies:
                    talk = await bench.talk(body)
                    equal("the status of a call", talk.response.status, 200)
                # The third body and those behind it were acknowledged.
                expect_frame(talk)

    return check


for _place, (_what, _answer) in enumerate(_WRONG, start=1):
    _requirements = ("C-18", "F-4") if _what in ("has padding", "has trailing bits") else ("C-18",)
    SHIM.case(f"6.{_place}", f"nothing is held where History-Delta-Held {_what}, and no call fails", *_requirements)(
        _wrong(_answer)
    )


@SHIM.case("6.10", "nothing is held where the response says nothing of the protocol's version", "C-18", "C-6")
async def no_version(target: Target) -> None:
    bodies = grown(1, 4)
    async with target.bench() as bench:
        bench.upstream.script(reply(200, (wire.HELD_HEADER, "3 x"), speaks=False))
        for body in bodies:
            equal("the status of a call", (await bench.talk(body)).response.status, 200)


@SHIM.case("6.11", "a head or tail is held only where it was acknowledged with its own body", "C-18", "F-16")
async def items_apart(target: Target) -> None:
    first, second = conversation(1, 4), conversation(2, 4)
    mixed = [
        Body(second.head, first.messages, first.tail),
        Body(first.head, first.messages, second.tail.replace(b"tool-1", b"tool-x")),
    ]
    async with target.bench() as bench:
        bench.upstream.script(reply(), reply(held=None), reply(held=None), reply(held=None))
        for body in (first, second, *mixed, *mixed):
            await bench.talk(body.raw)
        expect_frame(await bench.talk(first.and_then(said(55)).raw))


@SHIM.case("6.12", "what a frame stood for is held once that was acknowledged", "C-18")
async def held_by_a_frame(target: Target) -> None:
    bodies = grown(1, 6)
    async with target.bench() as bench:
        await bench.talks(bodies[:2])
        bench.upstream.script(reply(held=None))
        await bench.talks(bodies[2:])


@SHIM.case("6.13", "what a failed call's response acknowledges may be built on, and need not", "C-18")
async def held_by_a_failure(target: Target) -> None:
    bodies = grown(1, 4)
    async with target.bench() as bench:
        bench.upstream.script(reply(500), reply(429))
        for body, status in zip(bodies, (500, 429, 200, 200), strict=True):
            equal("the status of a call", (await bench.talk(body)).response.status, status)
