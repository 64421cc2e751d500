# SPDX-License-Identifier: Apache-2.0
"""Exchanges over a real socket: what a call is told, as it comes, and whether another exchange may follow."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator

import pytest
from history_delta_server.call import Call, Framing, State
from history_delta_server.model_connection import ModelConnection

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH_3 = OK + b"Content-Length: 3\r\n\r\n"


class Link:
    """A connection, the model's end of it, and the call that runs there."""

    call: Call

    def __init__(self, connection: ModelConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection = connection
        self.reader = reader
        self.writer = writer
        self.lost: list[ModelConnection] = []

    def begin(self, method: str = "GET") -> Call:
        self.call = Call(asyncio.get_running_loop().call_later, kept=True)
        self.connection.begin(self.call, method)
        return self.call

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def received(self, data: bytes) -> None:
        """Until the call has just these bytes."""
        with self.call.join() as reader:
            got = b""
            async with asyncio.timeout(10):
                while len(got) < len(data):
                    got += await anext(reader)
        assert got == data

    async def ended(self) -> None:
        async with asyncio.timeout(10):
            await self.connection.ended.wait()

    async def body(self) -> bytes:
        """Of the call, once it has ended."""
        await self.ended()
        with self.call.join() as reader:
            return b"".join([data async for data in reader])

    async def until_lost(self) -> None:
        async with asyncio.timeout(10):
            while not self.lost:  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    async def closed_by_us(self) -> None:
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionResetError):
                assert await self.reader.read() == b""


@pytest.fixture
async def link() -> AsyncIterator[Link]:
    accepted: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    server = await asyncio.start_server(lambda *ends: accepted.put_nowait(ends), "127.0.0.1", 0)
    lost: list[ModelConnection] = []
    async with server:
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: ModelConnection(lost.append, 4096), *server.sockets[0].getsockname()
        )
        link = Link(connection, *await accepted.get())
        link.lost = lost
        yield link
        connection.abort()
        link.writer.close()


@pytest.mark.parametrize(
    ("method", "response", "framing", "body"),
    [
        ("GET", LENGTH_3 + b"abc", Framing.LENGTH, b"abc"),
        ("GET", OK + b"Content-Length: 0\r\n\r\n", Framing.LENGTH, b""),
        ("GET", CHUNKED + b"1\r\na\r\n2;x=y\r\nbc\r\n0\r\n\r\n", Framing.CHUNKED, b"abc"),
        ("GET", CHUNKED + b"1\r\na\r\n0\r\nTrailer: x\r\n\r\n", Framing.CHUNKED, b"a"),
        ("HEAD", LENGTH_3, Framing.NO_BODY, b""),
        ("HEAD", CHUNKED, Framing.NO_BODY, b""),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", Framing.NO_BODY, b""),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", Framing.NO_BODY, b""),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_response_ends_where_its_framing_says_and_another_may_follow(
    link: Link, method: str, response: bytes, framing: Framing, body: bytes, at_once: bool
) -> None:
    for _ in range(2):
        call = link.begin(method)
        for piece in [response] if at_once else [response[n : n + 1] for n in range(len(response))]:
            await link.send(piece)
        assert await link.body() == body
        assert call.head is not None
        assert (call.state, call.head.framing) == (State.COMPLETE, framing)
        assert link.connection.reusable


async def test_a_response_without_a_length_ends_with_its_connection(link: Link) -> None:
    call = link.begin()
    await link.send(OK + b"\r\nabc")
    await link.received(b"abc")
    assert call.head is not None
    assert (call.state, call.head.framing) == (State.ANSWERING, Framing.CLOSE)
    link.writer.close()
    assert await link.body() == b"abc"
    assert call.state is State.COMPLETE
    assert not link.connection.reusable


async def test_the_head_is_told_before_there_is_a_body_and_hop_by_hop_headers_stay_here(link: Link) -> None:
    call = link.begin()
    await link.send(b"HTTP/1.1 299 Quite \xc3\xa9\r\nX-A: 1\r\nConnection: keep-alive\r\nx-a: \xff2\r\n")
    await link.send(b"History-Delta-Held: no\r\nTransfer-Encoding: chunked\r\n\r\n")
    with call.join() as reader:
        async with asyncio.timeout(10):
            head = await reader.head()
    assert head is not None
    assert (head.status, head.reason) == (299, b"Quite \xc3\xa9")
    assert head.headers == [(b"X-A", b"1"), (b"x-a", b"\xff2")]


async def test_pieces_are_told_as_they_come(link: Link) -> None:
    link.begin()
    await link.send(CHUNKED)
    so_far = b""
    for number in range(10):
        data = b"event %d" % number
        await link.send(b"%x\r\n%b" % (len(data), data))
        so_far += data
        # Before the chunk's own end is there.
        await link.received(so_far)
        await link.send(b"\r\n")
    assert link.call.state is State.ANSWERING


async def test_a_compressed_body_goes_on_as_it_is(link: Link) -> None:
    link.begin()
    await link.send(OK + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x00\x01\x02")
    assert await link.body() == b"\x00\x01\x02"


@pytest.mark.parametrize("status", [b"100 Continue", b"102 Processing", b"103 Early Hints"])
async def test_an_interim_response_is_not_the_response(link: Link, status: bytes) -> None:
    call = link.begin()
    interim = b"HTTP/1.1 %b\r\nLink: </x>\r\n\r\n" % status
    await link.send(interim + interim + LENGTH_3 + b"abc")
    assert await link.body() == b"abc"
    assert call.head is not None
    assert call.head.status == 200
    assert link.connection.reusable


@pytest.mark.parametrize("extra", [b"x", b"\0", LENGTH_3 + b"bad", b"HTTP/1.1 100 Continue\r\n\r\n"])
@pytest.mark.parametrize("response", [LENGTH_3 + b"abc", CHUNKED + b"3\r\nabc\r\n0\r\n\r\n"], ids=["length", "chunked"])
async def test_bytes_behind_a_response_spoil_the_connection_and_not_the_response(
    link: Link, response: bytes, extra: bytes
) -> None:
    call = link.begin()
    await link.send(response + extra)
    assert await link.body() == b"abc"
    assert call.state is State.COMPLETE
    assert not link.connection.reusable


async def test_bytes_on_an_idle_connection_close_it(link: Link) -> None:
    link.begin()
    await link.send(LENGTH_3 + b"abc")
    await link.ended()
    assert link.connection.reusable
    await link.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
    await link.until_lost()
    assert not link.connection.reusable


@pytest.mark.parametrize(
    "head", [OK + b"Connection: close\r\nContent-Length: 3\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n"]
)
async def test_a_model_that_says_it_closes_is_taken_at_its_word(link: Link, head: bytes) -> None:
    call = link.begin()
    await link.send(head + b"abc")
    await link.ended()
    assert call.state is State.COMPLETE
    assert not link.connection.reusable


@pytest.mark.parametrize("reset", [True, False], ids=["reset", "close"])
@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\nX: ", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b""),
        (LENGTH_3 + b"ab", b"ab"),
        (CHUNKED, b""),
        (CHUNKED + b"3\r\nab", b"ab"),
        (CHUNKED + b"2\r\nab\r\n", b"ab"),
        (CHUNKED + b"2\r\nab\r\n0\r\n", b"ab"),
    ],
)
async def test_a_response_that_is_cut_is_broken_with_all_that_came(
    link: Link, sent: bytes, body: bytes, reset: bool
) -> None:
    call = link.begin()
    await link.send(sent)
    if reset:
        await link.received(body)
        link.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        link.writer.transport.abort()
    else:
        link.writer.close()
    assert await link.body() == body
    assert call.state is State.BROKEN
    assert call.failure.startswith("closed the connection before the end of its response (")
    assert not link.connection.reusable
    await link.until_lost()
    assert link.lost == [link.connection]


async def test_a_reset_of_a_response_without_a_length_is_no_end(link: Link) -> None:
    call = link.begin()
    await link.send(OK + b"\r\nabc")
    await link.received(b"abc")
    link.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.writer.transport.abort()
    assert await link.body() == b"abc"
    assert call.state is State.BROKEN


@pytest.mark.parametrize(
    ("sent", "said", "body"),
    [
        (b"no HTTP\r\n\r\n", "a malformed first line", b""),
        (OK + b"X : y\r\n\r\n", "a malformed head or chunk", b""),
        (OK + b"X: " + b"y" * 5000 + b"\r\n\r\n", "a line that is too long", b""),
        (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n", "a transfer coding other than chunked", b""),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "an upgrade", b""),
        (CHUNKED + b"2\r\nab\r\nzz\r\n", "a malformed head or chunk", b"ab"),
    ],
)
async def test_what_is_not_http_breaks_the_call_and_closes_after_what_was_good(
    link: Link, sent: bytes, said: str, body: bytes
) -> None:
    call = link.begin()
    await link.send(sent)
    assert await link.body() == body
    assert call.state is State.BROKEN
    assert call.failure.startswith("sent what is not HTTP/1.1: ")
    assert said in call.failure
    await link.closed_by_us()
    assert not link.connection.reusable


async def test_a_head_is_told_that_broken_bytes_follow_in_the_same_piece(link: Link) -> None:
    call = link.begin()
    await link.send(CHUNKED + b"zz\r\n")
    await link.ended()
    assert call.head is not None
    assert call.state is State.BROKEN


async def test_before_any_exchange_a_connection_is_not_reusable_nor_during_one(link: Link) -> None:
    assert not link.connection.reusable
    link.begin()
    await link.send(LENGTH_3 + b"a")
    await link.received(b"a")
    assert not link.connection.reusable


async def test_a_call_that_holds_back_stops_the_reading_until_it_lets_go(link: Link) -> None:
    transport = link.connection._transport
    assert transport is not None
    call = link.begin()
    await link.send(OK + b"Content-Length: 600000\r\n\r\n")
    with call.join() as reader:
        await link.send(b"x" * 600_000)
        async with asyncio.timeout(10):
            while call.received <= 256 * 1024:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        assert not transport.is_reading()
        got = b""
        async with asyncio.timeout(10):
            while len(got) < 600_000:
                got += await anext(reader)
    await link.ended()
    assert transport.is_reading()
    assert link.connection.reusable


async def test_after_an_exchange_its_call_has_no_hold_on_the_connection(link: Link) -> None:
    transport = link.connection._transport
    assert transport is not None
    call = link.begin()
    await link.send(LENGTH_3 + b"abc")
    await link.ended()
    call.throttle(True)
    assert transport.is_reading()


@pytest.mark.parametrize("size", [10, 64 * 1024, 1_000_000])
async def test_a_message_arrives_whole_whether_it_was_copied_or_not(link: Link, size: int) -> None:
    link.begin("POST")
    link.connection.write_message(b"head", b"y" * size)
    assert await link.reader.readexactly(4 + size) == b"head" + b"y" * size


async def test_draining_waits_for_the_model_to_read_and_no_longer_than_it_is_there(link: Link) -> None:
    link.begin("POST")
    link.connection.write(b"x" * 30_000_000)
    draining = asyncio.ensure_future(link.connection.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    link.writer.transport.abort()
    async with asyncio.timeout(10):
        await draining
    assert link.call.state is State.BROKEN
    link.connection.write(b"into the void")


async def test_an_aborted_exchange_is_broken_and_told_once(link: Link) -> None:
    call = link.begin()
    link.connection.abort()
    await link.until_lost()
    assert call.state is State.BROKEN
    link.connection.abort()
    assert link.lost == [link.connection]
