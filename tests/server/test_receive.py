# SPDX-License-Identifier: Apache-2.0
"""Bodies as they come over a real connection, and what their ticket says meanwhile."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from history_delta_protocol.frame import Malformed, TooLarge
from history_delta_server.admission import Admission, AdmissionLimits, Busy
from history_delta_server.call import Framing
from history_delta_server.receive import Body, begun_body, framing_of, pieces, read_body, read_frame, unpacked

LIMIT = 10
LONG = 60.0
SHORT = 0.01
CHUNKED = b"POST /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

Ask = Callable[[web.BaseRequest], Awaitable[Any]]


def length(size: int, *headers: bytes) -> bytes:
    return b"".join(
        [
            b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % size,
            *(line + b"\r\n" for line in headers),
            b"\r\n",
        ]
    )


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Receiver:
    """Answers a request by what ``ask`` makes of it, or raises."""

    def __init__(self, start_handler) -> None:
        self._start_handler = start_handler
        self.admission = Admission(AdmissionLimits(rollout_bytes=1_000_000))
        self.ticket = self.admission.enter("r")

    async def begin(self, ask: Ask, data: bytes) -> None:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            try:
                self._result.set_result(await ask(request))
            except Exception as error:
                self._result.set_exception(error)
            return web.Response()

        self._result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.agent = await self._start_handler(handle)
        await self.agent.send(data)

    async def end(self) -> Any:
        async with asyncio.timeout(10):
            return await self._result

    async def result(self, ask: Ask, data: bytes) -> Any:
        await self.begin(ask, data)
        return await self.end()

    async def until_held(self, size: int) -> None:
        async with asyncio.timeout(10):
            while self.admission.total_bytes != size:  # noqa: ASYNC110
                await asyncio.sleep(0.002)


@pytest.fixture
async def receiver(start_handler) -> Receiver:
    return Receiver(start_handler)


async def joined(body: Body) -> bytes:
    return b"".join([piece async for piece in body.pieces()])


@pytest.mark.parametrize(
    ("head", "framing"),
    [
        (b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n", Framing.NO_BODY),
        (b"GET /x HTTP/1.0\r\n\r\n", Framing.NO_BODY),
        (length(0), Framing.LENGTH),
        (length(1) + b"a", Framing.LENGTH),
        (CHUNKED + b"0\r\n\r\n", Framing.CHUNKED),
    ],
)
async def test_the_framing_is_what_the_agent_said(receiver, head: bytes, framing: Framing) -> None:
    async def ask(request: web.BaseRequest) -> Framing:
        return framing_of(request)

    assert await receiver.result(ask, head) is framing


async def test_pieces_come_as_they_are_sent_and_a_pause_is_no_end(receiver) -> None:
    async def ask(request: web.BaseRequest) -> None:
        try:
            async for piece in pieces(request, SHORT if b"pausing" in request.raw_path.encode() else LONG):
                seen.put_nowait(piece)
        except TimeoutError:
            seen.put_nowait(TimeoutError)
            raise

    seen: asyncio.Queue[object] = asyncio.Queue()
    await receiver.begin(ask, length(6))
    for piece in (b"one", b"two"):
        await receiver.agent.send(piece)
        assert await seen.get() == piece
    assert await receiver.end() is None
    with pytest.raises(TimeoutError):
        await receiver.result(ask, length(6).replace(b"/x", b"/pausing") + b"one")
    assert [seen.get_nowait(), seen.get_nowait()] == [b"one", TimeoutError]


async def test_a_body_has_begun_with_its_first_piece_or_its_end(receiver) -> None:
    async def ask(request: web.BaseRequest) -> tuple[bytes, bytes]:
        body = await begun_body(request, LONG)
        begun.set()
        return body.start, await joined(body)

    begun = asyncio.Event()
    await receiver.begin(ask, length(6) + b"one")
    async with asyncio.timeout(10):
        await begun.wait()
    await receiver.agent.send(b"two")
    assert await receiver.end() == (b"one", b"onetwo")
    assert await receiver.result(ask, CHUNKED + b"0\r\n\r\n") == (b"", b"")


@pytest.mark.parametrize(
    "read", [read_body, read_frame, lambda request, ticket, limit, pause: begun_body(request, pause)]
)
async def test_one_that_does_not_come_is_waited_for_no_longer_than_a_pause(receiver, read) -> None:
    with pytest.raises(TimeoutError):
        await receiver.result(lambda request: read(request, receiver.ticket, LIMIT, SHORT), length(5))


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_of_just_the_limit_is_whole_and_on_its_ticket(receiver, chunked: bool) -> None:
    data = b"x" * LIMIT
    sent = CHUNKED + chunk(data) + chunk(b"") if chunked else length(LIMIT) + data
    body = await receiver.result(lambda request: read_body(request, receiver.ticket, LIMIT, LONG), sent)
    assert (body.start, body.rest) == (data, None)
    assert await joined(body) == data
    assert receiver.admission.total_bytes == LIMIT


async def test_a_body_counts_while_it_comes(receiver) -> None:
    await receiver.begin(lambda request: read_body(request, receiver.ticket, LIMIT, LONG), length(6) + b"abc")
    await receiver.until_held(3)
    await receiver.agent.send(b"d")
    await receiver.until_held(4)
    await receiver.agent.send(b"ef")
    assert (await receiver.end()).start == b"abcdef"


@pytest.mark.parametrize("chunked", [True, False])
async def test_one_byte_more_is_a_stream_that_lost_nothing_and_is_held_by_nobody(receiver, chunked: bool) -> None:
    async def ask(request: web.BaseRequest) -> tuple[bool, int, bytes]:
        body = await read_body(request, receiver.ticket, LIMIT, LONG)
        return body.rest is not None, receiver.admission.total_bytes, await joined(body)

    data = bytes(range(LIMIT + 1))
    sent = CHUNKED + chunk(data[:LIMIT]) if chunked else length(LIMIT + 1) + data[:LIMIT]
    await receiver.begin(ask, sent)
    await receiver.agent.send(chunk(data[LIMIT:]) + chunk(b"") if chunked else data[LIMIT:])
    assert await receiver.end() == (True, 0, data)


@pytest.mark.parametrize("read", [read_body, read_frame])
async def test_a_body_is_busy_where_others_hold_too_much(receiver, read) -> None:
    receiver.admission.enter("r").resize(999_999)
    with pytest.raises(Busy):
        await receiver.result(lambda request: read(request, receiver.ticket, LIMIT, LONG), length(2) + b"ab")
    assert receiver.admission.total_bytes == 999_999


async def test_a_frame_may_have_just_the_limit(receiver) -> None:
    def ask(request: web.BaseRequest) -> Awaitable[bytes]:
        return read_frame(request, receiver.ticket, LIMIT, LONG)

    assert await receiver.result(ask, length(LIMIT) + b"x" * LIMIT) == b"x" * LIMIT
    with pytest.raises(TooLarge, match="max_body_bytes"):
        await receiver.result(ask, length(LIMIT + 1) + b"x" * (LIMIT + 1))
    with pytest.raises(TooLarge):
        # Before its end is there.
        await receiver.result(ask, CHUNKED + chunk(b"x" * (LIMIT + 1)))


def unpacking(receiver: Receiver, sent: bytes, limit: int) -> Ask:
    return lambda request: unpacked(request, sent, receiver.ticket, limit)


@pytest.mark.parametrize("size", [0, 1, 300_000, 900_000])
async def test_a_gzip_frame_is_unpacked_and_counts_with_what_came(receiver, size: int) -> None:
    """In one go or several, on the event loop or beside it."""
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    sent = gzip.compress(data)
    ask = unpacking(receiver, sent, size)
    assert await receiver.result(ask, length(0, b"Content-Encoding: GZIP, identity")) == data
    assert receiver.admission.total_bytes == len(sent) + size


@pytest.mark.parametrize("header", [[], [b"Content-Encoding: identity"], [b"Content-Encoding: "]])
async def test_one_without_a_coding_is_what_was_sent(receiver, header: list[bytes]) -> None:
    assert await receiver.result(unpacking(receiver, b"frame", 1), length(0, *header)) == b"frame"


@pytest.mark.parametrize("coding", [b"br", b"gzip, br", b"x-gzip"])
async def test_another_coding_is_malformed(receiver, coding: bytes) -> None:
    with pytest.raises(Malformed, match="expected gzip or none"):
        await receiver.result(unpacking(receiver, b"", 10), length(0, b"Content-Encoding: " + coding))


async def test_unpacking_stops_at_the_limit_and_where_it_is_too_much_in_flight(receiver) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    head = length(0, b"Content-Encoding: gzip")
    with pytest.raises(TooLarge, match="max_body_bytes"):
        await receiver.result(unpacking(receiver, bomb, 600_000), head)
    assert receiver.admission.total_bytes <= len(bomb) + 600_000
    receiver.ticket.resize(0)
    receiver.admission.enter("r").resize(500_000)
    with pytest.raises(Busy):
        await receiver.result(unpacking(receiver, bomb, 100_000_000), head)
    assert receiver.admission.total_bytes <= 1_000_000
