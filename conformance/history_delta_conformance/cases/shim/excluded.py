# SPDX-License-Identifier: Apache-2.0
"""Cases: what must be sent in full although the server speaks and holds the history. SPEC.md sections 3.5 and 4."""

import gzip

from history_delta_protocol import wire

from ..check import equal, expect
from ..registry import SHIM
from ..wire import Header
from .bench import Bench, Target, expect_frame, expect_full
from .bodies import Body, conversation, grown, said
from .upstream import speaking

_GZIP = speaking(encodings=["gzip"])


async def _full_with(target: Target, why: str, *headers: Header, content_type: Header | None = None) -> None:
    """A body that would be a frame is sent in full with these headers, and the next one is a frame again."""
    bodies = grown(1, 5)
    async with target.bench(_GZIP) as bench:
        await bench.talks(bodies[:2])
        expect_full(await bench.talk(bodies[2], *headers, content_type=content_type), why)
        *_, last = await bench.talks(bodies[3:])
        expect_frame(last)


@SHIM.case("5.1", "a request with a Content-Encoding is sent in full", "C-10")
async def content_encoding(target: Target) -> None:
    for coding in ("gzip", "identity", "br"):
        await _full_with(target, "it has a Content-Encoding", ("content-encoding", coding))


@SHIM.case("5.2", "a compressed body is sent as it is", "C-10", "F-1")
async def compressed(target: Target) -> None:
    async with target.bench(_GZIP) as bench:
        for body in grown(1, 3):
            packed = gzip.compress(body, mtime=0)
            expect_full(await bench.talk(packed, ("Content-Encoding", "gzip")), "it has a Content-Encoding")


@SHIM.case("5.3", "a request with more than one Content-Type is sent in full", "C-10")
async def content_types(target: Target) -> None:
    for second in ("application/json", "text/plain"):
        await _full_with(
            target, "it has two Content-Types", ("Content-Type", "application/json"), ("content-type", second)
        )


@SHIM.case("5.4", "a Content-Type that names a frame is sent in full", "C-10", "F-15")
async def names_a_frame(target: Target) -> None:
    body = grown(1, 2)
    for value in ("text/plain; application/vnd.history-delta", "x/y; v=APPLICATION/VND.HISTORY-DELTA+json"):
        async with target.bench(_GZIP) as bench:
            await bench.talks(body[:1])
            call = expect_full(await bench.talk(body[1], content_type=("Content-Type", value)), "F-15 excludes it")
            equal("its Content-Type", call.request.values("Content-Type"), [value])


@SHIM.case("5.5", "a frame is never as large as its body", "C-10")
async def smaller(target: Target) -> None:
    async with target.bench(_GZIP) as bench:
        body = conversation(1, 0)
        for at in range(30):
            body = body.and_then(b'{"n":%d}' % at)
            tiny = Body(b'{"messages":[', tuple(b"%d" % number for number in range(at)), b"]}")
            for raw in (body.raw, tiny.raw, conversation(100 + at, 1).raw):
                request = (await bench.talk(raw)).call.request
                if request.value("Content-Type") == wire.FRAME_MEDIA_TYPE:
                    expect(len(request.body) < len(raw), f"fewer than {len(raw)} octets", f"{len(request.body)}")


@SHIM.case("5.6", "a body that was understood and no longer is, is sent in full", "C-10", "F-2")
async def no_longer_understood(target: Target) -> None:
    bodies = grown(1, 3)
    broken = (
        bodies[1].replace(b'"m"', b"m", 1),
        bodies[1][: bodies[1].index(b'],"tools"')],
        b"\xef\xbb\xbf" + bodies[1],
        bodies[1].decode().encode("utf-16"),
        bodies[1].replace(b'"messages":[', b'"messages":{"a":[', 1),
        bodies[1].replace(b'{"role"', b"{role", 1),
        bodies[1].replace(b',{"role"', b'{"role"', 1),
    )
    async with target.bench(_GZIP) as bench:
        await bench.talks(bodies[:2])
        for body in broken:
            expect_full(await bench.talk(body), "the body is not understood")
        *_, last = await bench.talks(bodies[2:])
        expect_frame(last)


async def _numbers(bench: Bench, first: bytes, second: bytes) -> None:
    body = conversation(1, 3)
    for last in (first, second):
        await bench.talk(body.and_then(last).raw)
    await bench.talk(body.and_then(second, said(77)).raw)


@SHIM.case("5.7", "octets in common are no boundary in common: 1 begins 12", "F-11", "C-18")
async def number_that_goes_on(target: Target) -> None:
    async with target.bench(_GZIP) as bench:
        for first, second in (b"1", b"12"), (b"12", b"1"), (b"1", b"1.5"), (b"1", b"1e9"), (b"-0", b"-0.0"):
            await _numbers(bench, first, second)


@SHIM.case("5.8", "a history of more than 100,000 messages is sent in full, one of 100,000 need not be", "F-10", "C-10")
async def too_many_messages(target: Target) -> None:
    async with target.bench(_GZIP) as bench:
        for count in (100_000, 100_001):
            body = b'{"model":"m","messages":[' + b",".join([b"1"] * count) + b"]}"
            for _ in range(2):
                call = (await bench.talk(body)).call
                expect(not call.is_frame or count == 100_000, "a full body (too many messages)", "a frame")
