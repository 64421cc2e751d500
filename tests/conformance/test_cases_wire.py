# SPDX-License-Identifier: Apache-2.0
"""Both ends of a connection in a case's hands, against each other and against what is broken."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from history_delta_conformance.cases.base import CaseFailed
from history_delta_conformance.cases.endpoint import Call, Endpoint
from history_delta_conformance.cases.transcript import Transcript
from history_delta_conformance.cases.wire import Connection, chunked, in_time, request_head


class Bench:
    """An endpoint that does as it is told, and a connection to it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.came = asyncio.Event()
        self.behave: Callable[[Call], Awaitable[None]] = Call.respond
        self.transcript = Transcript()
        self.endpoint = Endpoint(self._behave)

    async def _behave(self, call: Call) -> None:
        self.calls.append(call)
        self.came.set()
        await self.behave(call)

    async def connect(self) -> Connection:
        return await Connection.open("127.0.0.1", self.endpoint.port, self.transcript, "one")

    async def answered(self, data: bytes) -> Connection:
        """A connection on which the endpoint has read a request, and answers exactly this, then closes."""

        async def answer(call: Call) -> None:
            await call.send(data)
            call.close()

        self.behave = answer
        connection = await self.connect()
        await connection.send(GET)
        return connection


GET = request_head("GET", "/", [("Host", "x")])


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    async with made.endpoint:
        yield made


async def test_a_request_is_kept_as_it_came(bench: Bench) -> None:
    head = b"POST /a?b HTTP/1.1\r\nX-A:1\r\nx-a: 2 \r\nContent-Length: 3\r\n\r\n"
    connection = await bench.connect()
    await connection.send(
        head + b"abc" + head.replace(b"Content-Length: 3", b"Transfer-Encoding: chunked") + chunked(b"d", b"ef")
    )
    for _ in range(2):
        assert (await connection.read_response()).status == 200
    first, second = (call.request for call in bench.calls)
    assert (first.method, first.target, first.head, first.body) == ("POST", "/a?b", head, b"abc")
    assert first.values("x-A") == ["1", "2"]
    assert first.names() == {"x-a", "content-length"}
    assert second.body == b"def"
    await connection.close()


@pytest.mark.parametrize(
    "data",
    [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"GET / HT"],
)
async def test_what_is_no_request_is_kept_apart(bench: Bench, data: bytes) -> None:
    connection = await bench.connect()
    await connection.send(data)
    connection.end()
    assert await connection.is_ended()
    assert len(bench.endpoint.not_http) == 1
    assert bench.calls == []


@pytest.mark.parametrize(
    ("data", "body", "framing", "ending"),
    [
        (b"Content-Length: 3\r\n\r\nabc", b"abc", "length", "complete"),
        (b"Content-Length: 4\r\n\r\nabc", b"abc", "length", "cut"),
        (b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"ab", b"c"), b"abc", "chunked", "complete"),
        (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", b"abc", "chunked", "cut"),
        (b"Transfer-Encoding: chunked\r\n\r\n3\r\nab", b"ab", "chunked", "cut"),
        (b"\r\nabc", b"abc", "close", "complete"),
    ],
)
async def test_a_response_says_how_it_ended(bench: Bench, data, body, framing, ending) -> None:
    connection = await bench.answered(b"HTTP/1.1 200 OK\r\n" + data)
    response = await connection.read_response("GET")
    assert (response.status, response.body, response.framing, response.ending) == (200, body, framing, ending)


async def test_a_reset_is_told_from_an_end(bench: Bench) -> None:
    read = asyncio.Event()

    async def answer(call: Call) -> None:
        await call.start()
        await call.chunk(b"abc")
        await read.wait()
        call.reset()

    bench.behave = answer
    connection = await bench.connect()
    await connection.send(GET)
    response = await connection.read_head("GET")
    assert await connection.next_data(response) == b"abc"
    read.set()
    assert await connection.next_data(response) is None
    assert response.ending == "reset"


async def test_interim_responses_are_passed_over_and_trailers_kept(bench: Bench) -> None:
    connection = await bench.answered(
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 None\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-T: 1\r\n\r\n"
    )
    response = await connection.read_response("GET")
    assert (response.status, response.reason, response.trailers) == (404, "None", [("X-T", "1")])


async def test_no_response_is_none_or_fails_the_case(bench: Bench) -> None:
    assert await (await bench.answered(b"")).response_or_none("GET") is None
    with pytest.raises(CaseFailed, match="expected a response; got the end of the connection"):
        await (await bench.answered(b"")).read_response("GET")
    with pytest.raises(CaseFailed, match="expected a response"):
        await (await bench.answered(b"what is this?\r\n\r\n")).read_response("GET")


async def test_what_does_not_come_in_time_fails_the_case(bench: Bench) -> None:
    bench.behave = lambda call: asyncio.sleep(0)
    connection = await bench.connect()
    await connection.send(GET)
    with pytest.raises(CaseFailed, match=r"expected a response; got nothing within 0\.05 s"):
        await connection.read_head("GET", seconds=0.05)
    with pytest.raises(CaseFailed, match="expected tea"):
        async with in_time("tea", 0.01):
            await asyncio.Event().wait()


async def test_a_call_sees_that_it_was_given_up(bench: Bench) -> None:
    bench.behave = lambda call: asyncio.sleep(0)
    connection = await bench.connect()
    await connection.send(GET)
    await bench.came.wait()
    with pytest.raises(CaseFailed, match="expected it to close; got nothing within"):
        await bench.calls[0].wait_until_given_up("it to close", 0.05)
    connection.reset()
    await bench.calls[0].wait_until_given_up("it to close")


async def test_an_endpoint_leaves_its_port_and_takes_it_again(bench: Bench) -> None:
    port = bench.endpoint.port
    bench.behave = lambda call: asyncio.sleep(0)
    connection = await bench.connect()
    await connection.send(GET)
    await bench.came.wait()
    await bench.endpoint.stop_listening()
    assert await connection.is_ended()
    with pytest.raises(OSError, match="Connect call failed"):
        await bench.connect()
    await bench.endpoint.listen()
    assert bench.endpoint.port == port
    bench.behave = Call.respond
    again = await bench.connect()
    await again.send(GET)
    assert (await again.read_response("GET")).status == 200


async def test_everything_that_crosses_is_in_the_transcript(bench: Bench) -> None:
    connection = await bench.answered(b"HTTP/1.1 204 Gone\r\n\r\n")
    await connection.read_response("GET")
    assert await connection.is_ended()
    assert bench.transcript.lines() == (
        "one: sent 27 octets: GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n",
        "one: received 21 octets: HTTP/1.1 204 Gone\\r\\n\\r\\n",
        "one: ended",
    )
