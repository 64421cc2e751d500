# SPDX-License-Identifier: Apache-2.0
"""Which model server gets a call, what happens where none can be reached, and what is never sent."""

import asyncio
import json
import socket
import ssl
import subprocess

import pytest
from history_delta_server.call import Call, Framing
from history_delta_server.dispatch import Dispatcher, FrameRefused, Outgoing
from history_delta_server.kinds import UPSTREAMS
from history_delta_server.pool import ConnectionPool
from history_delta_server.upstreams import Upstreams

PATH = "/ng-rollout/{}/v1/chat/completions"


def closed_port() -> str:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{sock.getsockname()[1]}"


def full_queue(listener: socket.socket) -> list[socket.socket]:
    """Make a listener whose queue is full: it does not answer those who connect."""
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
    return fillers


async def test_an_unreachable_model_is_a_502_at_once_that_names_the_address(start_gateway, shim) -> None:
    url = closed_port()
    gateway = await start_gateway(url)
    response = await gateway.post("/ng-rollout/r/v1/messages", b'{"messages":[]}', shim.headers())
    assert (response.status, response.one("History-Delta-Version")) == (502, "1")
    assert response.error["code"] == "history_delta_upstream_unreachable"
    assert url in response.error["message"]
    assert response.one("History-Delta-Held") is not None
    await gateway.until(lambda: gateway.log("call"))
    assert gateway.log("call")[0]["outcome"] == "unreachable"


async def test_where_no_connection_came_about_another_model_is_tried(start_model, start_gateway, shim) -> None:
    model = await start_model()
    dead = closed_port()
    gateway = await start_gateway(dead, model)
    for number in range(4):
        response = await gateway.post(PATH.format(number), shim.chat("x"), shim.headers())
        assert response.status == 200
    assert len(model.requests) == 4


async def test_with_all_of_them_down_the_502_names_all(start_gateway, shim) -> None:
    first, second = closed_port(), closed_port()
    gateway = await start_gateway(first, second)
    response = await gateway.post(PATH.format("r"), shim.chat("x"), shim.headers())
    assert response.status == 502
    assert first in response.error["message"]
    assert second in response.error["message"]


async def test_a_request_that_may_have_run_is_sent_to_no_other(start_model, start_gateway, shim) -> None:
    async def breaks_off(exchange) -> None:
        exchange.close()

    first, second = await start_model(breaks_off), await start_model(breaks_off)
    gateway = await start_gateway(first, second)
    assert (await gateway.post(PATH.format("r"), shim.chat("x"), shim.headers())).status == 502
    assert len(first.requests) + len(second.requests) == 1


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
async def test_nothing_is_sent_twice_where_a_kept_connection_dies(start_model, start_gateway, method) -> None:
    async def dies_at_the_second(exchange) -> None:
        if len(model.requests) == 1:
            await exchange.respond()
        else:
            exchange.close()

    model = await start_model(dies_at_the_second)
    gateway = await start_gateway(model)
    body = None if method == "GET" else b"x"
    assert (await gateway.post("/v1/x", body, method=method)).status == 200
    assert (await gateway.post("/v1/x", body, method=method)).status == 502
    assert (len(model.requests), model.connections) == (2, 1)


async def test_a_kept_connection_that_the_model_closed_is_not_used(start_model, start_gateway) -> None:
    async def closes(exchange) -> None:
        await exchange.respond()
        exchange.close()

    model = await start_model(closes)
    gateway = await start_gateway(model)
    pool = gateway.server.app._dispatcher._pool
    for _ in range(3):
        assert (await gateway.post("/v1/x", None, method="GET")).status == 200
        await gateway.until(lambda: not pool._open)
    assert model.connections == 3


@pytest.mark.parametrize("extra", [b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison", b"x"])
async def test_bytes_behind_a_response_reach_no_other_call(start_model, start_gateway, extra) -> None:
    async def poisons(exchange) -> None:
        if len(model.requests) == 1:
            await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}" + extra)
        else:
            await exchange.respond(b"mine")

    model = await start_model(poisons)
    gateway = await start_gateway(model)
    assert (await gateway.post("/v1/x", None, method="GET")).body == b"{}"
    assert (await gateway.post("/v1/x", None, method="GET")).body == b"mine"
    assert model.connections == 2


async def test_late_bytes_on_an_idle_connection_reach_no_other_call(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    pool = gateway.server.app._dispatcher._pool
    await gateway.post("/v1/x", None, method="GET")
    await (await model.arrived.get()).write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
    await gateway.until(lambda: not pool._open)
    assert (await gateway.post("/v1/x", None, method="GET")).body == b"{}"


async def test_a_response_before_the_requests_end_is_relayed_and_the_connection_not_reused(
    start_model, start_gateway
) -> None:
    async def refuse(reader, writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\n{}")
        connections.append(writer)

    connections: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        gateway = await start_gateway(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        agent = await gateway.connect()
        await agent.send(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx")
        assert (await agent.receive()).status == 413
        await gateway.until(lambda: not gateway.server.app._dispatcher._pool._open)
        for connection in connections:
            connection.close()


async def test_an_idle_connection_is_closed_before_a_common_server_would(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model, upstream_keepalive_seconds=0.05)
    await gateway.post("/v1/x", None, method="GET")
    await (await model.arrived.get()).gone()


@pytest.fixture
def certificate(tmp_path) -> tuple[str, str]:
    """The paths of a certificate for localhost that nobody has signed, and of its key."""
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    made = ["openssl", "req", "-x509", *kind, "-keyout", key, "-out", certificate, *subject]
    subprocess.run(made, check=True, capture_output=True)
    return certificate, key


async def test_a_model_server_behind_tls_is_verified(start_gateway, certificate, monkeypatch) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*certificate)

    async def answer(reader, writer) -> None:
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        untrusting = await start_gateway(url)
        refused = await untrusting.post("/v1/x", b"{}")
        assert (refused.status, "certificate" in refused.error["message"].lower()) == (502, True)
        monkeypatch.setenv("SSL_CERT_FILE", certificate[0])
        trusting = await start_gateway(url)
        assert (await trusting.post("/v1/x", b"{}")).body == b"secret"


async def test_a_rollout_stays_with_its_model_server(start_model, start_gateway, shim) -> None:
    models = [await start_model(), await start_model(), await start_model()]
    gateway = await start_gateway(*models)
    for turn in range(5):
        for rollout in "abc":
            await gateway.post(PATH.format(rollout), shim.chat(rollout, str(turn)), shim.headers(delivery=None))
    homes = [{json.loads(request.body)["messages"][0]["content"] for request in model.requests} for model in models]
    assert sorted(homes, key=sorted) == [{"a"}, {"b"}, {"c"}]


async def test_calls_under_way_are_spread(start_model, start_gateway, shim) -> None:
    models = [await start_model(None), await start_model(None)]
    gateway = await start_gateway(*models)
    for number in range(4):
        await gateway.send(PATH.format(number), shim.chat("x"), shim.headers())
        await gateway.until(lambda sent=number + 1: sum(len(model.requests) for model in models) == sent)
    assert [len(model.requests) for model in models] == [2, 2]


@pytest.mark.parametrize("value", [b"application/vnd.history-delta", b"APPLICATION/vnd.History-Delta ; x=y"])
async def test_a_frame_is_refused_at_the_last_step_too(value: bytes) -> None:
    dispatcher = Dispatcher(Upstreams(UPSTREAMS.read("http://127.0.0.1:1")), ConnectionPool())
    call = Call(asyncio.get_running_loop().call_later)
    headers = [(b"Content-Type", value)]
    for path in ("/v1/chat/completions", "/V1/EMBEDDINGS", "/"):
        outgoing = Outgoing("POST", path, headers, b"frame", Framing.LENGTH, None)
        with pytest.raises(FrameRefused):
            dispatcher.send(outgoing, call)
    assert dispatcher.calls_in_flight == 0


async def test_an_agent_that_leaves_while_we_connect_has_not_been_served(start_gateway, shim) -> None:
    with socket.socket() as listener:
        fillers = full_queue(listener)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        gateway = await start_gateway(url, early_close_seconds=0.01)
        agent = await gateway.send(PATH.format("r"), shim.chat("x"), shim.headers())
        await gateway.until(lambda: gateway.server.app.calls_in_flight)
        agent.close()
        await gateway.until(lambda: gateway.log("call"))
        assert gateway.log("call")[0]["outcome"] == "unreachable"
        assert gateway.metric("deliveries") == 0
        for filler in fillers:
            filler.close()


async def test_connecting_takes_no_longer_than_allowed(start_gateway) -> None:
    with socket.socket() as listener:
        fillers = full_queue(listener)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        gateway = await start_gateway(url, upstream_connect_seconds=0.2)
        response = await gateway.post("/v1/x", None, method="GET")
        assert response.status == 502
        assert "no connection within 0.2 s" in response.error["message"]
        for filler in fillers:
            filler.close()
