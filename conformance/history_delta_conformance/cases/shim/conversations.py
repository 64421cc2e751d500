# SPDX-License-Identifier: Apache-2.0
"""Cases: conversations as agents lead them, each body of which must arrive as it is. SPEC.md sections 1, 6.3 and 7."""

from ..base import NotRun
from ..check import equal
from ..registry import SHIM
from .bench import Target, expect_frame
from .bodies import TARGETS, Body, conversation, grown, said
from .upstream import Call, speaking
from .wandering import wander

_REQUIREMENTS = ("F-1", "C-18", "F-12", "F-17", "F-18", "F-19")


async def _walk(target: Target, seed: int, calls: int, encodings: list[str]) -> list[Call]:
    async with target.bench(speaking(encodings=encodings)) as bench:
        for path, body in wander(seed, calls):
            equal("the status of a call", (await bench.talk(body, target=path)).response.status, 200)
        if not any(call.is_frame for call in bench.upstream.calls):
            raise NotRun("the shim sent no frame where it could have")
        return bench.upstream.calls


@SHIM.case("10.1", "300 calls of conversations that grow, change, fork and are cut short", *_REQUIREMENTS)
async def wandering(target: Target) -> None:
    await _walk(target, 1, 300, [])


@SHIM.case("10.2", "the same with gzip", *_REQUIREMENTS, "F-20")
async def wandering_with_gzip(target: Target) -> None:
    await _walk(target, 2, 300, ["gzip"])


@SHIM.case(
    "10.3", "the same with a server that now and then lets go of all that it holds", *_REQUIREMENTS, "C-13", "C-16"
)
async def wandering_with_losses(target: Target) -> None:
    async with target.bench() as bench:
        for place, (path, body) in enumerate(wander(3, 300)):
            if place % 20 == 19:
                bench.upstream.receiver.forget()
            equal("the status of a call", (await bench.talk(body, target=path, lost=True)).response.status, 200)


@SHIM.case("10.4", "5000 calls of the same kind", *_REQUIREMENTS, slow=True)
async def wandering_on(target: Target) -> None:
    for seed in range(10):
        await _walk(target, 100 + seed, 500, ["gzip"] if seed % 2 else [])


@SHIM.case("10.5", "other calls between those of a conversation leave it as it is", "F-1", "C-18")
async def between(target: Target) -> None:
    async with target.bench() as bench:
        for number, body in enumerate(grown(1, 5)):
            await bench.talk(body)
            await bench.talk(b'{"model":"t","messages":[%s],"max_tokens":20}' % said(500 + number))
            last = await bench.talk(body)
        expect_frame(last)


@SHIM.case("10.6", "conversations that begin alike, and go apart", "F-1", "C-18")
async def forks(target: Target) -> None:
    async with target.bench() as bench:
        root = conversation(1, 6)
        branches = [root.and_then(said(600 + number)) for number in range(4)]
        await bench.talk(root.raw)
        for turn in range(3):
            for place, branch in enumerate(branches):
                branches[place] = branch.and_then(said(700 + 10 * turn + place))
                last = await bench.talk(branches[place].raw)
        expect_frame(last)


@SHIM.case("10.7", "bodies that no parser would leave as they are", "F-1", "F-7")
async def strange(target: Target) -> None:
    messages = (
        b'{"role":"user","role":"assistant","content":"duplicate"}',
        b'{"a":NaN,"b":Infinity,"c":-Infinity,"d":-0,"e":1e999,"f":1E+2,"g":0.10}',
        b'{"n":%s}' % (b"9" * 5000),
        b'{"lone":"\\ud800","pair":"\\ud83d\\ude00","slash":"\\/","upper":"\\u00E9"}',
        b'{"raw":"\xff\xfe\x00\x01\n","key":"\xe2\x80\xa8"}',
        b' { "spaced" :\t[ 1 ,\r\n2 ] } ',
        b"[" * 400 + b"]" * 400,
        b'""',
    )
    for dialect, path in TARGETS.items():
        async with target.bench() as bench:
            body = conversation(1, 3, dialect)
            for message in messages:
                body = body.and_then(message)
                for tail in (
                    body.tail,
                    body.tail + b"\n",
                    body.tail[:-1] + b',"messages":[1],"input":[2]}',
                    b"] not JSON",
                ):
                    last = await bench.talk(Body(body.head, body.messages, tail).raw, target=path)
            expect_frame(last)
