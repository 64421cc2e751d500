# SPDX-License-Identifier: Apache-2.0
"""Responses on their way to an agent: as they come, cut where they broke, and what an agent that leaves sets off."""

import asyncio

import httpx
import pytest

CHAT = "/ng-rollout/r1/v1/chat/completions"


async def test_each_event_arrives_before_the_model_has_made_the_next(start_model, start_gateway, shim) -> None:
    model = await start_model(None)
    gateway = await start_gateway(model)
    agent = await gateway.send(CHAT, shim.chat("x"), shim.headers())
    exchange = await model.arrived.get()
    await exchange.stream()
    head = await agent.receive(head_only=True)
    assert head.one("Content-Type") == "text/event-stream"
    for number in range(50):
        await exchange.chunk(b"data: %d\n\n" % number)
        assert await agent.piece() == b"data: %d\n\n" % number
    await exchange.end()
    assert await agent.piece() == b""


async def test_a_length_stays_a_length_and_chunks_stay_chunks(start_model, start_gateway) -> None:
    async def answer(exchange) -> None:
        if exchange.request.target == "/length":
            await exchange.respond(b"abc")
        elif exchange.request.target == "/chunks":
            await exchange.stream()
            await exchange.chunk(b"abc")
            await exchange.end()
        else:
            await exchange.write(b"HTTP/1.0 200 OK\r\n\r\nabc")
            exchange.close()

    gateway = await start_gateway(await start_model(answer))
    for path, length, coding in (("/length", "3", None), ("/chunks", None, "chunked"), ("/close", None, "chunked")):
        response = await gateway.post(path, None, method="GET")
        assert (response.body, response.complete) == (b"abc", True)
        assert (response.one("Content-Length"), response.one("Transfer-Encoding")) == (length, coding)


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked", b"Content-Length: 1000"])
async def test_a_broken_response_is_cut_after_all_that_was_received(
    start_model, start_gateway, shim, framing, end
) -> None:
    """Data and the end arrive at the server in one go: nothing of it may be lost."""

    async def break_off(exchange) -> None:
        data = b"x" * 100
        await exchange.write(b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % framing)
        await exchange.write(b"64\r\n%b\r\n" % data if b"chunked" in framing else data)
        if end == "reset":
            await exchange.reader.read()  # Until the server has taken it all and the test has closed.
        exchange.close()

    model = await start_model(break_off)
    gateway = await start_gateway(model)
    agent = await gateway.send(CHAT, shim.chat("x"), shim.headers())
    if end == "reset":
        exchange = await model.arrived.get()
        head = await agent.receive(head_only=True)
        exchange.reset()
        rest = await agent.reader.read()
        assert head.status == 200
        assert b"x" * 100 in rest
        assert not rest.endswith(b"0\r\n\r\n")
    else:
        response = await agent.receive()
        assert (response.status, response.body, response.complete) == (200, b"x" * 100, False)
        assert not response.was_reset
    await gateway.until(lambda: gateway.metric("outcomes_total", outcome="broken") == 1)
    assert "closed the connection before the end" in gateway.log("call")[0]["failure"]


async def test_httpx_takes_a_cut_for_the_error_that_it_is_and_keeps_the_bytes(start_model, start_gateway, shim) -> None:
    async def break_off(exchange) -> None:
        await exchange.stream()
        await exchange.chunk(b"data: 1\n\n")
        exchange.close()

    gateway = await start_gateway(await start_model(break_off))
    received = []
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012
            async with client.stream("POST", f"http://{gateway.server.address}{CHAT}", content=b"{}") as response:
                async for data in response.aiter_bytes():
                    received.append(data)
    assert received == [b"data: 1\n\n"]


async def test_a_cut_of_a_response_that_only_the_close_would_end_is_a_reset_after_its_data(
    start_model, start_gateway
) -> None:
    size = 300_000

    async def break_off(exchange) -> None:
        await exchange.stream()
        await exchange.chunk(b"x" * size)
        exchange.close()

    gateway = await start_gateway(await start_model(break_off))
    agent = await gateway.connect()
    await agent.send(b"GET /v1/x HTTP/1.0\r\n\r\n")
    head = await agent.receive(head_only=True)
    assert head.one("Transfer-Encoding") is None
    received = 0
    with pytest.raises(ConnectionResetError):  # noqa: PT012
        while data := await agent.reader.read(65536):
            received += len(data)
    assert received == size


async def test_a_reset_of_an_upstream_that_only_the_close_would_end_is_a_cut(start_model, start_gateway) -> None:
    async def break_off(exchange) -> None:
        await exchange.write(b"HTTP/1.1 200 OK\r\n\r\nsome")
        await asked.wait()
        exchange.reset()

    asked = asyncio.Event()
    gateway = await start_gateway(await start_model(break_off))
    agent = await gateway.connect()
    await agent.send(b"GET /v1/x HTTP/1.1\r\nHost: x\r\n\r\n")
    await agent.receive(head_only=True)
    assert await agent.piece() == b"some"
    asked.set()
    assert await agent.reader.read() == b""


@pytest.mark.parametrize("end", ["close", "reset"])
async def test_a_model_that_breaks_off_before_its_head_is_a_502_that_says_so(
    start_model, start_gateway, shim, end
) -> None:
    async def break_off(exchange) -> None:
        getattr(exchange, end)()

    model = await start_model(break_off)
    gateway = await start_gateway(model)
    response = await gateway.post("/ng-rollout/r1/v1/messages", b'{"messages":[]}', shim.headers())
    assert (response.status, response.error["code"]) == (502, "history_delta_upstream_failed")
    assert b'"type": "error"' in response.body
    assert model.url in response.error["message"]
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"this is no HTTP\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_a_response_that_is_not_http_is_a_502(start_model, start_gateway, answer: bytes) -> None:
    async def respond(exchange) -> None:
        await exchange.write(answer)
        await exchange.reader.read()

    gateway = await start_gateway(await start_model(respond))
    assert (await gateway.post("/v1/x", None, method="GET")).status == 502


async def test_a_broken_chunk_is_a_cut_after_what_was_good(start_model, start_gateway) -> None:
    async def respond(exchange) -> None:
        await exchange.stream()
        await exchange.chunk(b"good")
        await exchange.write(b"zz\r\nbad")

    gateway = await start_gateway(await start_model(respond))
    response = await gateway.post("/v1/x", None, method="GET")
    assert (response.status, response.body, response.complete) == (200, b"good", False)


async def test_a_slow_agent_holds_the_model_back_and_loses_nothing(start_model, start_gateway, shim) -> None:
    size = 64 * 1024
    sent = 0
    total = 1500

    async def pour(exchange) -> None:
        nonlocal sent
        await exchange.stream()
        for number in range(total):
            await exchange.chunk(number.to_bytes(4, "big") * (size // 4))
            sent += 1
        await exchange.end()

    gateway = await start_gateway(await start_model(pour), max_replay_bytes=1000)
    agent = await gateway.send(CHAT, shim.chat("x"), shim.headers())
    await agent.receive(head_only=True)
    reached = -1
    while reached != sent:
        reached = sent
        await asyncio.sleep(0.2)
    assert sent < total / 2
    received = bytearray()
    while piece := await agent.piece():
        received += piece
    assert len(received) == size * total
    assert all(received[n * size : n * size + 4] == n.to_bytes(4, "big") for n in range(total))


async def test_an_agent_that_leaves_cancels_the_call(start_model, start_gateway, shim) -> None:
    model = await start_model(None)
    gateway = await start_gateway(model)
    agent = await gateway.send(CHAT, shim.chat("x"), shim.headers())
    exchange = await model.arrived.get()
    await exchange.stream()
    await exchange.chunk(b"one")
    await agent.receive(head_only=True)
    agent.close()
    await exchange.gone()
    await gateway.until(lambda: gateway.log("call"))
    assert gateway.log("call")[0]["failure"] == "the agent left"


async def test_before_the_head_too(start_model, start_gateway, shim) -> None:
    model = await start_model(None)
    gateway = await start_gateway(model)
    agent = await gateway.send(CHAT, shim.chat("x"), shim.headers())
    exchange = await model.arrived.get()
    agent.close()
    await exchange.gone()


async def test_an_agent_that_leaves_after_the_final_event_does_not_and_the_connection_is_kept(
    start_model, start_gateway, shim
) -> None:
    model = await start_model(None)
    gateway = await start_gateway(model, early_close_seconds=60.0)
    agent = await gateway.send(CHAT, shim.chat("x"), shim.headers(delivery="0" * 32))
    exchange = await model.arrived.get()
    await exchange.stream()
    await exchange.chunk(b"event: response.completed\n\n")
    await agent.receive(head_only=True)
    await agent.piece()
    agent.close()
    await gateway.until(lambda: not gateway.server._front.server.connections)
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end()
    await gateway.until(lambda: gateway.log("call"))
    assert gateway.log("call")[0]["outcome"] == "complete"
    second = await gateway.send(CHAT, shim.chat("x"), shim.headers(delivery="1" * 32))
    await (await model.arrived.get()).respond()
    assert (await second.receive()).status == 200
    assert model.connections == 1


async def test_a_response_that_goes_on_and_on_is_not_read_on_for_an_agent_that_left(
    start_model, start_gateway, shim
) -> None:
    async def pour(exchange) -> None:
        await exchange.stream()
        while True:
            await exchange.chunk(b"x" * 1000)

    gateway = await start_gateway(await start_model(pour), early_close_seconds=3600.0)
    agent = await gateway.send(CHAT, shim.chat("x"), shim.headers())
    await agent.receive(head_only=True)
    agent.close()
    await gateway.until(lambda: gateway.log("call"))
    assert gateway.log("call")[0]["failure"] == "the agent left"
