# SPDX-License-Identifier: Apache-2.0
"""What bounds a connection from a sandbox before there is a request."""

import asyncio
import contextlib

import pytest

CHUNKED = b"POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"


def fields(count: int, size: int) -> bytes:
    return b"".join(b"X-%d: %b\r\n" % (number, b"y" * size) for number in range(count))


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(("count", "size"), [(1, 5000), (14, 300)], ids=["one field", "many fields"])
async def test_a_head_over_its_limit_is_a_431_that_names_it(start_model, start_gateway, count, size, at_once) -> None:
    """Whole, or as soon as it is over the limit."""
    model = await start_model()
    gateway = await start_gateway(model, max_head_bytes=4096)
    agent = await gateway.connect()
    head = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + fields(count, size)
    for piece in [head + b"\r\n"] if at_once else head.splitlines(keepends=True):
        await agent.send(piece)
    response = await agent.receive()
    assert (response.status, response.error["code"], response.one("Connection")) == (431, "head_too_large", "close")
    assert "4096" in response.error["message"]
    assert "max_head_bytes" in response.error["message"]
    assert model.requests == []


async def test_each_head_on_a_connection_has_the_whole_limit(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model(), max_head_bytes=4096)
    agent = await gateway.connect()
    for _ in range(5):
        await agent.send(b"POST /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n" + fields(3, 1000))
        await agent.send(b"\r\n")
        for _ in range(10):
            await agent.send(b"b" * 10_000)
        assert (await agent.receive()).status == 200


async def test_a_trailer_is_bounded_as_a_head_is(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model(), max_head_bytes=4096)
    agent = await gateway.send("/ng-rollout/r1/v1/responses", None, [("Transfer-Encoding", "chunked")])
    await agent.send(b"1\r\na\r\n0\r\n")
    await gateway.until(lambda: gateway.metric("bytes_in_flight") == 1)
    for field in fields(14, 300).splitlines(keepends=True):
        await agent.send(field)
    assert (await agent.receive()).status == 400


async def test_a_head_that_does_not_come_to_its_end_is_not_waited_for(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model(), agent_pause_seconds=0.1)
    agent = await gateway.connect()
    await agent.send(b"GET /v1/models HTTP/1.1\r\n")
    async with asyncio.timeout(10):
        assert await agent.reader.read() == b""


async def test_nor_is_it_waited_for_less_because_a_call_runs_before_it(start_model, start_gateway) -> None:
    model = await start_model(None)
    gateway = await start_gateway(model, agent_pause_seconds=0.05)
    agent = await gateway.connect()
    await agent.send(b"GET /one HTTP/1.1\r\nHost: x\r\n\r\n")
    exchange = await model.arrived.get()
    await agent.send(b"GET /two HTTP/1.1\r\n")
    (handler,) = gateway.server._front.server.connections
    await gateway.until(lambda: handler._head_timer is not None)
    await gateway.until(lambda: handler._head_timer is None)
    await exchange.respond(b"one")
    assert (await agent.receive()).body == b"one"


async def test_an_idle_connection_stays(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model(), agent_pause_seconds=0.05)
    agent = await gateway.connect()
    for _ in range(2):
        await agent.send(CHUNKED)
        await agent.send(b"0\r\n\r\n")
        assert (await agent.receive()).status == 200
        (handler,) = gateway.server._front.server.connections
        assert handler._head_timer is None


async def test_connections_are_bounded_and_those_beyond_are_closed(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model(), max_connections=2)
    first, second = await gateway.connect(), await gateway.connect()
    await gateway.until(lambda: len(gateway.server._front.server.connections) == 2)
    third = await gateway.connect()
    with contextlib.suppress(ConnectionResetError):
        assert await third.reader.read() == b""
    assert gateway.log("connections-refused")[0]["setting"] == "max_connections"
    first.close()
    await gateway.until(lambda: len(gateway.server._front.server.connections) == 1)
    for agent in (second, await gateway.connect()):
        await agent.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await agent.receive()).status == 200
