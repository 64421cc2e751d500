# SPDX-License-Identifier: Apache-2.0
"""What bounds requests that are no model calls of a rollout. What stands on the wire is test_app.py's business."""

import asyncio

import pytest

STREAMED = {"pass-through": "/v1/files", "streamed model call": "/ng-rollout/r1/v1/chat/completions"}


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def enabled(request) -> bool:
    return request.param


async def test_one_more_than_allowed_is_a_429_that_names_the_setting(start_model, start_gateway, enabled) -> None:
    model = await start_model(None)
    gateway = await start_gateway(model, enabled=enabled, max_pass_throughs_in_flight=1)
    first = await gateway.send("/v1/models", None, method="GET")
    exchange = await model.arrived.get()
    assert gateway.metric("pass_throughs_in_flight") == 1
    refused = await gateway.post("/v1/models", None, method="GET")
    assert (refused.status, refused.one("Retry-After")) == (429, "1")
    assert "max_pass_throughs_in_flight" in refused.error["message"]
    await exchange.respond()
    assert (await first.receive()).status == 200
    second = await gateway.send("/v1/models", None, method="GET")
    exchange = await model.arrived.get()
    second.close()
    await exchange.gone()
    await gateway.until(lambda: gateway.metric("pass_throughs_in_flight") == 0)
    assert len(model.requests) == 2


async def test_those_refused_leave_no_trace_in_the_count(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model(), agent_pause_seconds=0.05)
    agent = await gateway.connect()
    await agent.send(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    assert (await agent.receive()).status == 408
    assert gateway.metric("pass_throughs_in_flight") == 0


@pytest.mark.parametrize("framing", [b"Content-Length: 100", b"Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", STREAMED.values(), ids=STREAMED)
async def test_no_model_is_connected_to_for_a_body_that_does_not_begin(
    start_model, start_gateway, path, framing
) -> None:
    model = await start_model()
    gateway = await start_gateway(model, agent_pause_seconds=0.1, max_held_body_bytes=10)
    agent = await gateway.connect()
    await agent.send(b"POST %b HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n" % (path.encode(), framing))
    response = await agent.receive()
    assert (response.status, response.error["code"], response.one("Connection")) == (408, "request_timeout", "close")
    assert "agent_pause_seconds" in response.error["message"]
    assert model.connections == 0


@pytest.mark.parametrize("path", STREAMED.values(), ids=STREAMED)
async def test_a_body_that_stops_in_its_middle_ends_its_call(start_gateway, path) -> None:
    gone = asyncio.Event()

    async def upstream(reader, writer) -> None:
        await reader.read()
        gone.set()
        writer.close()

    server = await asyncio.start_server(upstream, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        gateway = await start_gateway(url, agent_pause_seconds=0.1, max_held_body_bytes=10)
        agent = await gateway.connect()
        await agent.send(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" % path.encode() + b"x" * 50)
        async with asyncio.timeout(10):
            await gone.wait()
        assert (await agent.receive()).status == 502


async def test_an_empty_chunked_body_goes_on_as_one(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    await agent.send(b"POST /v1/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
    assert (await agent.receive()).status == 200
    assert (model.requests[0].one("Transfer-Encoding"), model.requests[0].body) == ("chunked", b"")


@pytest.mark.parametrize("path", ["/v1/files", "/ng-rollout/r1/v1/chat/completions"])
async def test_an_upload_that_its_agent_gave_up_counts_as_that_alone(start_model, start_gateway, path) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    await agent.send(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" % path.encode())
    await gateway.until(lambda: any(handler._current_request for handler in gateway.server._front.server.connections))
    agent.close()
    await gateway.until(lambda: gateway.log("left"))
    assert gateway.log("left")[0]["outcome"] == "agent-left"
    assert gateway.log("call") == gateway.log("answer") == gateway.log("full-send") == []
    assert gateway.metric("outcomes_total", outcome="agent-left") == 1
    for kind in ("full", "pass-through"):
        assert gateway.metric("calls_total", kind=kind) == 0
    samples = [s for metric in gateway.server.app.metrics.registry.collect() for s in metric.samples]
    assert not [sample for sample in samples if "None" in sample.labels.values()]
    assert model.connections == 0
