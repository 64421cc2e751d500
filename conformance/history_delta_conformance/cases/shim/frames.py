# SPDX-License-Identifier: Apache-2.0
"""Cases: that a frame is one, with the headers that go with it. SPEC.md sections 3.5 and 6.

Every frame in every case is read by the strict reference decoder, and rebuilt out of what was acknowledged.
"""

import gzip
import zlib

from ..base import NotRun
from ..check import equal, expect
from ..registry import SHIM
from .bench import JSON, Target, expect_frame
from .bodies import CHAT, TARGETS, conversation, grown, said
from .receiver import decompressed
from .upstream import Call, limited, speaking

_FORMS = ("F-12", "F-13", "F-14", "F-16", "F-19", "F-1")


def _frames(calls: list[Call]) -> list[Call]:
    frames = [call for call in calls if call.is_frame]
    if not frames:
        raise NotRun("the shim sent no frame where it could have")
    return frames


def _register_dialects() -> None:
    for place, dialect in enumerate(TARGETS):

        async def check(target: Target, dialect: str = dialect) -> None:
            async with target.bench() as bench:
                *_, last = await bench.talks(grown(1, 8, dialect), TARGETS[dialect])
                call = expect_frame(last)
                expect(call.frame and call.frame.base_count, "a base, once a history is held", str(call.frame))

        SHIM.case(f"4.{1 + place}", f"frames of a growing conversation in the dialect {dialect}", *_FORMS)(check)


_register_dialects()


@SHIM.case("4.4", "frames where messages in the middle change, go and come", *_FORMS, "F-17", "F-18")
async def edits(target: Target) -> None:
    body = conversation(1, 12)
    several = list(body.messages)
    several[2], several[5:7], several[9:9] = said(701), [said(702)], [said(703), said(704)]
    marked = [
        message.replace(b'"role"', b'"mark":1,"role"') if at > 9 else message for at, message in enumerate(several)
    ]
    histories = (several, marked, marked[:4], [*marked[:2], *several[8:]], [*several[8:], *marked[:2]], several[::-1])
    async with target.bench() as bench:
        await bench.talk(body.raw)
        talks = [await bench.talk(body.having(*history).raw) for history in histories]
        _frames([talk.call for talk in talks])


@SHIM.case("4.5", "frames where the first message changes, and with it the separators", *_FORMS, "F-18")
async def first_message(target: Target) -> None:
    body = conversation(1, 8)
    spaced = conversation(1, 8)
    async with target.bench() as bench:
        await bench.talk(body.raw)
        for history in (body.messages[1:], (said(801), *body.messages), (said(802), *body.messages[1:]), ()):
            await bench.talk(body.having(*history).raw)
        for separator in (b", ", b"\n,\n", b"\t\r,"):
            await bench.talk(type(spaced)(spaced.head, spaced.messages, spaced.tail, separator).raw)
        _frames(bench.upstream.calls)


@SHIM.case("4.6", "frames where head and tail change", *_FORMS)
async def head_and_tail(target: Target) -> None:
    body = conversation(1, 6)
    async with target.bench() as bench:
        for turn in range(6):
            body = body.and_then(said(900 + turn))
            head = body.head.replace(b'"m"', b'"model-%d"' % turn)
            tail = body.tail.replace(b"tool-%d" % turn, b"renamed-%d" % turn).replace(b"true", b'"%d"' % turn)
            await bench.talk(type(body)(head, body.messages, tail).raw)
        _frames(bench.upstream.calls)


@SHIM.case("4.7", "the media type of a frame stands in the place of the agent's own", "C-9")
async def content_type_in_place(target: Target) -> None:
    around = (("x-before", "1"), JSON, ("x-after", "2"), ("X-After", "3"))
    async with target.bench() as bench:
        for body in grown(1, 3):
            talk = await bench.talk(body, *around, content_type=None)
        expect_frame(talk)


@SHIM.case("4.8", "where the agent sent no Content-Type, it is appended, and none is restored", "C-9")
async def content_type_absent(target: Target) -> None:
    async with target.bench() as bench:
        for body in grown(1, 3):
            talk = await bench.talk(body, ("X-Last", "1"), content_type=None)
        expect_frame(talk)


@SHIM.case("4.9", "a frame restores any value of Content-Type", "C-9", "F-15")
async def content_type_values(target: Target) -> None:
    values = ("application/json; charset=utf-8", "APPLICATION/JSON", 'text/plain;x="caf\xe9\\\\"', "", "a\tb", "x/y,z")
    async with target.bench() as bench:
        bodies = grown(1, 2 + len(values))
        await bench.talks(bodies[:2])
        for body, value in zip(bodies[2:], values, strict=True):
            talk = await bench.talk(body, content_type=("content-TYPE", value))
        _frames(bench.upstream.calls)
        expect_frame(talk)


@SHIM.case("4.10", "uses no content coding that the server did not list", "C-11")
async def no_coding(target: Target) -> None:
    for encodings in ([], ["br", "zstd", "x-gzip"]):
        async with target.bench(speaking(encodings=encodings)) as bench:
            await bench.talks(grown(1, 4))
            for call in _frames(bench.upstream.calls):
                equal("codings", call.request.values("Content-Encoding"), [])


@SHIM.case("4.11", "a coded frame is exactly one gzip member, and says so in one header at the end", "F-20", "C-9")
async def one_member(target: Target) -> None:
    async with target.bench(speaking(encodings=["gzip"])) as bench:
        await bench.talks(grown(1, 6))
        coded = [call.request for call in bench.upstream.calls if call.request.values("Content-Encoding")]
        if not coded:
            raise NotRun("the shim compressed no frame")
        for request in coded:
            equal("codings", request.values("Content-Encoding"), ["gzip"])
            member = zlib.decompressobj(31)
            content = member.decompress(request.body)
            equal("octets behind the gzip member", (member.eof, member.unused_data), (True, b""))
            expect(content == gzip.decompress(request.body), "gzip", "something else")


@SHIM.case("4.12", "a first call may be a frame of its own, without a base", *_FORMS)
async def self_contained(target: Target) -> None:
    async with target.bench(speaking(encodings=["gzip"])) as bench:
        call = expect_frame(await bench.talk(conversation(1, 9).raw))
        equal("messages of the base", call.frame and call.frame.base_count, 0)


@SHIM.case("4.13", "a frame's line stays within the server's limit", "C-10", "F-13")
async def line_limit(target: Target) -> None:
    for line_bytes in (150, 400, 1000):
        async with target.bench(limited(frame_line_bytes=line_bytes)) as bench:
            bench.upstream.line_bytes = line_bytes
            body = conversation(1, 40)
            await bench.talk(body.raw)
            for step in (1, 2, 3, 5):
                messages = [said(4000 + at) if at % step == 0 else message for at, message in enumerate(body.messages)]
                await bench.talk(body.having(*messages).raw)


@SHIM.case("4.14", "frames stand for no body over the server's limit", "C-10")
async def body_limit(target: Target) -> None:
    bodies = grown(1, 6)
    limit = len(bodies[3])
    async with target.bench(limited(body_bytes=limit)) as bench:
        for body in bodies:
            call = (await bench.talk(body, target=CHAT)).call
            expect(
                not call.is_frame or len(body) <= limit, f"a frame for at most {limit} octets", f"{len(body)} octets"
            )


@SHIM.case("4.15", "frames stand for no history over the server's limit of messages", "C-10")
async def message_limit(target: Target) -> None:
    async with target.bench(limited(messages=9)) as bench:
        for body in grown(1, 6):
            call = (await bench.talk(body)).call
            count = len(call.parts.history) if call.parts else 0
            expect(not call.is_frame or count <= 9, "a frame for at most 9 messages", f"one for {count}")


@SHIM.case("4.16", "an item of a frame has no more pieces than the server's limit", "C-10")
async def piece_limit(target: Target) -> None:
    body = conversation(1, 3)
    members = [b'"member_%d":"of some length, %d"' % (number, number * 7919) for number in range(30)]
    async with target.bench(limited(pieces=3)) as bench:
        for step in (1, 7, 11, 13):
            order = [members[place * step % 30] for place in range(30)]
            tail = b'],"metadata":{%s}}' % b",".join(order)
            call = (await bench.talk(type(body)(body.head, body.messages, tail).raw)).call
            _within(call, 3)


@SHIM.case("4.17", "a frame is within the server's limit before it is compressed, too", "C-10")
async def frame_limit(target: Target) -> None:
    """The body alone is within it: a frame that takes nothing held is larger than its body."""
    body = conversation(1, 12).raw
    limits = {"body_bytes": len(body)}
    async with target.bench(speaking(encodings=["gzip"], limits=limits)) as bench:
        call = (await bench.talk(body)).call
        if call.is_frame:
            size = len(decompressed(call.request.body, call.request.values("Content-Encoding")))
            expect(size <= len(body), f"a frame of at most {len(body)} octets", f"one of {size}, decompressed")


def _within(call: Call, most: int) -> None:
    if call.frame is None:
        return
    items = [call.frame.head, call.frame.tail, *(message for edit in call.frame.edits for _, message in edit.insert)]
    for item in items:
        count = len(getattr(item, "pieces", ()))
        expect(count <= most, f"at most {most} pieces", f"{count}")
