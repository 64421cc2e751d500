# SPDX-License-Identifier: Apache-2.0
"""What stands on the agent's connection, byte by byte."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web
from history_delta_server.agent_response import AgentResponse
from history_delta_server.call import Framing, Head
from history_delta_server.errors import Answer

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
GET_1_0 = b"GET / HTTP/1.0\r\n\r\n"
KEEP_1_0 = b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
HEAD = b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"

Act = Callable[[AgentResponse], Awaitable[None]]


def head(framing: Framing, *headers: tuple[bytes, bytes]) -> Head:
    return Head(200, b"OK", list(headers), framing)


def acting(act: Act) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = AgentResponse(request)
        await act(response)
        return response

    return handle


async def wire(agent, until: bytes | None = None) -> bytes:
    """All bytes up to a mark, or to the end of the connection."""
    async with asyncio.timeout(10):
        data: bytes = await (agent.reader.read() if until is None else agent.reader.readuntil(until))
        return data


async def says_yes(response: AgentResponse) -> None:
    await response.answer(Answer(200, b"yes", [(b"X-A", b"1")]), [(b"X-Own", b"2")])


async def test_an_answer_stands_whole_and_another_may_follow(start_handler) -> None:
    agent = await start_handler(acting(says_yes))
    for _ in range(2):
        await agent.send(GET)
        assert await wire(agent, b"yes") == (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\nX-A: 1\r\nX-Own: 2\r\n\r\nyes"
        )


async def test_the_answer_to_head_says_the_length_and_has_no_body(start_handler) -> None:
    agent = await start_handler(acting(says_yes))
    for _ in range(2):
        await agent.send(HEAD)
        response = await agent.receive(head_only=True)
        assert response.start_line == b"HTTP/1.1 200 OK"
        assert (response.one("Content-Length"), response.one("Connection")) == ("3", None)


async def test_http_1_0_is_answered_in_kind_and_kept_only_where_asked_for(start_handler) -> None:
    agent = await start_handler(acting(says_yes))
    for _ in range(2):
        await agent.send(KEEP_1_0)
        response = await agent.receive()
        assert (response.start_line, response.one("Connection")) == (b"HTTP/1.0 200 OK", "keep-alive")
    await agent.send(GET_1_0)
    assert (await agent.receive()).one("Connection") == "close"
    assert await wire(agent) == b""


async def test_an_answer_that_closes_does(start_handler) -> None:
    agent = await start_handler(acting(lambda response: response.answer(Answer(400, b"no", closes=True), [])))
    await agent.send(GET + GET)
    response = await agent.receive()
    assert (response.status, response.one("Connection")) == (400, "close")
    assert await wire(agent) == b""


async def test_an_answer_before_the_bodys_end_closes_for_the_rest_may_never_come(start_handler) -> None:
    agent = await start_handler(acting(says_yes))
    await agent.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
    response = await agent.receive()
    assert (response.body, response.one("Connection")) == (b"yes", "close")


async def test_a_status_that_nobody_knows_has_no_phrase(start_handler) -> None:
    agent = await start_handler(acting(lambda response: response.answer(Answer(599, b""), [])))
    await agent.send(GET)
    assert (await agent.receive()).start_line == b"HTTP/1.1 599 "


@pytest.mark.parametrize(
    ("request_head", "framing", "coding", "body", "kept"),
    [
        (GET, Framing.LENGTH, [], b"onetwo", True),
        (GET, Framing.CHUNKED, ["chunked"], b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", True),
        (GET, Framing.CLOSE, ["chunked"], b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n", True),
        (GET_1_0, Framing.LENGTH, [], b"onetwo", False),
        (GET_1_0, Framing.CHUNKED, [], b"onetwo", False),
        (GET_1_0, Framing.CLOSE, [], b"onetwo", False),
        (KEEP_1_0, Framing.LENGTH, [], b"onetwo", True),
        (KEEP_1_0, Framing.CHUNKED, [], b"onetwo", False),
    ],
)
async def test_a_body_is_framed_so_that_its_end_shows(
    start_handler, request_head: bytes, framing: Framing, coding: list[str], body: bytes, kept: bool
) -> None:
    async def act(response: AgentResponse) -> None:
        own = [(b"Content-Length", b"6")] if framing is Framing.LENGTH else []
        response.start(head(framing, *own), [], b"one")
        await response.feed(b"")
        await response.feed(b"two")
        response.end()

    agent = await start_handler(acting(act))
    await agent.send(request_head)
    response = await agent.receive(head_only=True)
    assert response.all("Transfer-Encoding") == coding
    assert (response.one("Connection") == "close") is not kept
    if kept:
        assert await agent.reader.readexactly(len(body)) == body
        await agent.send(request_head)
        assert (await agent.receive(head_only=True)).status == 200
    else:
        assert await wire(agent) == body


async def test_a_response_without_a_body_is_its_head(start_handler) -> None:
    async def act(response: AgentResponse) -> None:
        response.start(head(Framing.NO_BODY, (b"Content-Length", b"99")), [])
        response.end()

    agent = await start_handler(acting(act))
    for _ in range(2):
        await agent.send(HEAD)
        assert await wire(agent, b"\r\n\r\n") == b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"


async def test_headers_keep_order_case_duplicates_and_bytes_with_ours_behind(start_handler) -> None:
    async def act(response: AgentResponse) -> None:
        theirs = [(b"x-B", b"\xff\xc3"), (b"X-a", b"1"), (b"x-b", b"2"), (b"Content-Length", b"0")]
        response.start(Head(200, b"\xe9 la vie", theirs, Framing.LENGTH), [(b"X-Own", b"3")])

    agent = await start_handler(acting(act))
    await agent.send(GET)
    assert await wire(agent, b"\r\n\r\n") == (
        b"HTTP/1.1 200 \xe9 la vie\r\nx-B: \xff\xc3\r\nX-a: 1\r\nx-b: 2\r\nContent-Length: 0\r\nX-Own: 3\r\n\r\n"
    )


async def test_a_header_that_would_forge_another_is_not_written(start_handler) -> None:
    async def act(response: AgentResponse) -> None:
        with pytest.raises(ValueError, match="line break"):
            response.start(head(Framing.LENGTH, (b"X", b"a\r\nY: b")), [])
        assert not response.started
        await says_yes(response)
        assert response.started

    agent = await start_handler(acting(act))
    await agent.send(GET)
    assert (await agent.receive()).body == b"yes"


@pytest.mark.parametrize(
    ("request_head", "goes_on"),
    [
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-Continue\r\n\r\n", True),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n", False),
        (b"POST / HTTP/1.0\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", False),
    ],
)
async def test_a_client_that_waits_is_told_to_go_on(start_handler, request_head: bytes, goes_on: bool) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = AgentResponse(request)
        response.go_on()
        assert await request.content.read() == b"ab"
        await says_yes(response)
        return response

    agent = await start_handler(handle)
    await agent.send(request_head)
    if goes_on:
        assert await wire(agent, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    await agent.send(b"ab")
    assert (await agent.receive()).status == 200


async def test_what_follows_a_request_to_upgrade_is_not_waited_for(start_handler) -> None:
    agent = await start_handler(acting(says_yes))
    await agent.send(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    response = await agent.receive()
    assert (response.body, response.one("Connection")) == (b"yes", "close")
    assert await wire(agent) == b""


@pytest.mark.parametrize("framing", [Framing.LENGTH, Framing.CHUNKED, Framing.CLOSE])
async def test_a_cut_is_a_close_after_the_data_where_the_framing_shows_it(start_handler, framing: Framing) -> None:
    data = b"x" * 300_000

    async def act(response: AgentResponse) -> None:
        own = [(b"Content-Length", b"999999")] if framing is Framing.LENGTH else []
        response.start(head(framing, *own), [], data)
        await response.cut()

    agent = await start_handler(acting(act))
    await agent.send(GET)
    response = await agent.receive()
    assert (response.complete, response.was_reset, response.body == data) == (False, False, True)


@pytest.mark.parametrize("framing", [Framing.CHUNKED, Framing.CLOSE])
async def test_and_a_reset_after_the_data_where_a_close_would_be_the_end(start_handler, framing: Framing) -> None:
    data = b"x" * 300_000

    async def act(response: AgentResponse) -> None:
        response.start(head(framing), [], data)
        await response.cut()

    agent = await start_handler(acting(act))
    await agent.send(GET_1_0)
    response = await agent.receive()
    assert (response.was_reset, response.body == data) == (True, True)


async def test_before_its_start_a_cut_is_a_reset(start_handler) -> None:
    agent = await start_handler(acting(lambda response: response.cut()))
    await agent.send(GET)
    with pytest.raises(ConnectionResetError):
        await wire(agent)


async def test_a_cut_of_what_the_agent_has_left_is_nothing(start_handler) -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        response = AgentResponse(request)
        assert request.transport is not None
        request.transport.abort()
        with pytest.raises(ConnectionResetError):
            response.start(head(Framing.CHUNKED), [])
        await response.cut()
        done.set()
        return response

    done = asyncio.Event()
    agent = await start_handler(handle)
    await agent.send(GET)
    async with asyncio.timeout(10):
        await done.wait()


async def test_feeding_waits_for_an_agent_that_is_slow(start_handler) -> None:
    size = 30_000_000

    async def act(response: AgentResponse) -> None:
        response.start(head(Framing.LENGTH, (b"Content-Length", b"%d" % size)), [])
        await response.feed(b"x" * size)
        fed.set()

    fed = asyncio.Event()
    agent = await start_handler(acting(act))
    await agent.send(GET)
    await agent.receive(head_only=True)
    assert await agent.reader.readexactly(1000)
    assert not fed.is_set()
    assert len(await agent.reader.readexactly(size - 1000)) == size - 1000
    async with asyncio.timeout(10):
        await fed.wait()
