# SPDX-License-Identifier: Apache-2.0
"""Requests through the server that are no model calls of a rollout, as they stand on both wires."""

import asyncio

import pytest

CHAT = "/ng-rollout/r1/v1/chat/completions"
ODD_HEADERS = [
    ("X-a", "1"),
    ("x-A", "2"),
    ("X-a", "3"),
    ("Accept-Encoding", "gzip, br"),
    ("Cookie", "a=b; c=d"),
    ("X-Utf8", "é\U0001f600"),
    ("X-Empty", ""),
    ("X-Quoted", '"a, b"; c'),
]


def encoded(headers) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers]


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def enabled(request) -> bool:
    return request.param


async def test_a_request_goes_through_with_every_byte_of_head_and_body(start_model, start_gateway, enabled) -> None:
    model = await start_model()
    gateway = await start_gateway(model, enabled=enabled)
    body = bytes(range(256)) * 40
    path = "/v1/em%2Fbed//dings/..x?q=%20a&b=%C3%A9;#f"
    await gateway.post(path, body, ODD_HEADERS, method="PUT")
    request = model.requests[0]
    host = model.url.removeprefix("http://").encode()
    assert request.start_line == b"PUT " + path.encode() + b" HTTP/1.1"
    assert request.headers == [
        (b"Host", host),
        *encoded(ODD_HEADERS),
        (b"Content-Length", b"%d" % len(body)),
    ]
    assert request.body == body


async def test_header_values_that_are_not_utf8_survive_in_both_directions(start_model, start_gateway) -> None:
    async def answer(exchange) -> None:
        await exchange.respond(b"", headers=b"X-Latin: caf\xe9\xff\r\n")

    model = await start_model(answer)
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    await agent.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\nX-Latin: \xe9\xfe\r\n\r\n")
    response = await agent.receive()
    assert (b"X-Latin", b"\xe9\xfe") in model.requests[0].headers
    assert (b"X-Latin", b"caf\xe9\xff") in response.headers


async def test_a_response_comes_back_with_every_byte_and_nothing_added(start_model, start_gateway, enabled) -> None:
    headers = (
        b"Set-Cookie: a=1; Path=/\r\nX-b: 1\r\nset-cookie: b=2\r\nx-B: 2\r\nContent-Encoding: gzip\r\n"
        b"History-Delta-Version: 9\r\nHistory-Delta-Held: 1 x\r\n"
        b"Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
    )

    async def answer(exchange) -> None:
        await exchange.respond(b"\x1f\x8bnot gzip at all\0\xff", b"299 Strange but true", headers)

    model = await start_model(answer)
    gateway = await start_gateway(model, enabled=enabled)
    response = await gateway.post("/v1/models", None, method="GET")
    assert response.start_line == b"HTTP/1.1 299 Strange but true"
    assert response.headers == [
        (b"Set-Cookie", b"a=1; Path=/"),
        (b"X-b", b"1"),
        (b"set-cookie", b"b=2"),
        (b"x-B", b"2"),
        (b"Content-Encoding", b"gzip"),
        (b"Content-Length", b"19"),
    ]
    assert response.body == b"\x1f\x8bnot gzip at all\0\xff"


async def test_our_own_headers_stay_here(start_model, start_gateway, enabled) -> None:
    model = await start_model()
    gateway = await start_gateway(model, enabled=enabled)
    headers = [("History-Delta-Rollout", "r1"), ("history-delta-anything", "x"), ("X", "1")]
    response = await gateway.post("/v1/models", None, headers, method="GET")
    assert [name for name, _ in model.requests[0].headers] == [b"Host", b"X"]
    assert response.all("History-Delta-Version") == []


async def test_a_get_without_a_body_gets_none(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    await gateway.post("/v1/models", None, method="GET")
    assert model.requests[0].one("Content-Length") is None
    assert model.requests[0].one("Transfer-Encoding") is None


async def test_a_chunked_body_stays_chunked_and_streams(start_model, start_gateway, enabled) -> None:
    """Its first chunk is at the model before the agent has sent the last."""
    seen: asyncio.Queue[bytes] = asyncio.Queue()

    async def upstream(reader, writer) -> None:
        await reader.readuntil(b"\r\n\r\n")
        while (size := int((await reader.readuntil(b"\r\n")).strip(), 16)) or True:
            seen.put_nowait((await reader.readexactly(size + 2))[:-2])
            if not size:
                break
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    server = await asyncio.start_server(upstream, "127.0.0.1", 0)
    async with server:
        gateway = await start_gateway(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", enabled=enabled)
        agent = await gateway.connect()
        await agent.send(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        async with asyncio.timeout(10):
            assert await seen.get() == b"one"
        await agent.send(b"3\r\ntwo\r\n0\r\n\r\n")
        assert (await agent.receive()).status == 200
        assert [await seen.get(), await seen.get()] == [b"two", b""]


async def test_a_request_whose_body_breaks_off_gets_no_end_at_the_model(start_model, start_gateway) -> None:
    received = bytearray()
    ended = asyncio.Event()

    async def upstream(reader, writer) -> None:
        while data := await reader.read(65536):
            received.extend(data)
            started.set()
        ended.set()

    started = asyncio.Event()
    server = await asyncio.start_server(upstream, "127.0.0.1", 0)
    async with server:
        gateway = await start_gateway(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        agent = await gateway.connect()
        await agent.send(b"POST /v1/files HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        async with asyncio.timeout(10):
            await started.wait()
            agent.close()
            await ended.wait()
    assert not received.endswith(b"0\r\n\r\n")


async def test_the_rollouts_prefix_is_stripped_or_kept_and_the_base_path_joined(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model.url + "/api/", enabled=False)
    await gateway.post("/ng-rollout/r1/training-token-capture/v1/responses?x=1", b"{}")
    assert model.requests[0].target == "/api/v1/responses?x=1"
    gateway = await start_gateway(model.url + "/api", keep_rollout_prefix=True)
    await gateway.post("/ng-rollout/r1/training-token-capture/v1/responses?x=1", b"{}")
    assert model.requests[1].target == "/api/ng-rollout/r1/training-token-capture/v1/responses?x=1"


async def test_no_request_chooses_its_upstream(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    await agent.send(b"GET http://127.0.0.1:1/v1/models HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n")
    assert (await agent.receive()).status == 200
    assert model.requests[0].target == "/v1/models"


async def test_the_operators_credential_replaces_the_sandboxes(start_model, start_gateway, enabled) -> None:
    model = await start_model()
    gateway = await start_gateway(model, enabled=enabled, upstream_api_key="real-key")
    sent = [("authorization", "Bearer sandbox"), ("x-api-key", "sandbox")]
    await gateway.post("/ng-rollout/r1/v1/messages", b"{}", sent)
    await gateway.post(CHAT, b"{}", sent)
    await gateway.post("/v1/models", None, method="GET")
    await gateway.post("/ng-rollout/r1/v1/messages/count_tokens?beta=1", b"{}", sent)
    messages, chat, models, count = model.requests
    assert (messages.one("Authorization"), messages.one("x-api-key")) == ("Bearer real-key", "real-key")
    assert (chat.one("Authorization"), chat.one("x-api-key")) == ("Bearer real-key", None)
    assert models.one("Authorization") == "Bearer real-key"
    assert count.one("x-api-key") == "real-key"
    assert "real-key" not in gateway._log.getvalue()
    assert "sandbox" not in gateway._log.getvalue()


async def test_head_204_and_304_have_no_body(start_model, start_gateway) -> None:
    async def answer(exchange) -> None:
        if exchange.request.start_line.startswith(b"HEAD"):
            await exchange.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nX: 1\r\n\r\n")
        elif exchange.request.target == "/204":
            await exchange.write(b"HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n")
        else:
            await exchange.write(b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 99\r\n\r\n')

    model = await start_model(answer)
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    await agent.send(b"HEAD /x HTTP/1.1\r\nHost: x\r\n\r\n")
    head = await agent.receive(head_only=True)
    assert head.headers == [(b"Content-Length", b"1234"), (b"X", b"1")]
    await agent.send(b"GET /204 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await agent.receive()).headers == [(b"X", b"1")]
    await agent.send(b"GET /304 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await agent.receive()).headers == [(b"ETag", b'"x"'), (b"Content-Length", b"99")]
    assert model.connections == 1


async def test_interim_responses_and_trailers_do_not_disturb(start_model, start_gateway) -> None:
    async def answer(exchange) -> None:
        await exchange.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")
        await exchange.write(b"HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n")
        await exchange.write(b"3;ext=1\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n")

    model = await start_model(answer)
    gateway = await start_gateway(model)
    for _ in range(2):
        response = await gateway.post("/v1/models", None, method="GET")
        assert (response.status, response.body, response.complete) == (200, b"abc", True)
        assert response.headers == [(b"Transfer-Encoding", b"chunked")]


async def test_an_expectation_is_met_by_us(start_model, start_gateway, enabled) -> None:
    model = await start_model()
    gateway = await start_gateway(model, enabled=enabled)
    agent = await gateway.connect()
    await agent.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n".encode())
    assert (await agent.receive(head_only=True)).status == 100
    await agent.send(b"{}")
    assert (await agent.receive()).status == 200
    assert model.requests[0].one("Expect") is None
    assert model.requests[0].body == b"{}"


async def test_a_refusal_answers_an_expectation_without_waiting_for_the_body(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model())
    agent = await gateway.connect()
    await agent.send(
        b"POST /ng-rollout/-/v1/x HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"
    )
    response = await agent.receive()
    assert (response.status, response.one("Connection")) == (400, "close")


async def test_an_http_1_0_agent_is_never_told_to_go_on(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model())
    agent = await gateway.connect()
    await agent.send(b"POST /v1/x HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}")
    assert (await agent.receive()).status == 200


async def test_http_1_0_agents_are_served(start_model, start_gateway) -> None:
    async def answer(exchange) -> None:
        if exchange.request.target == "/length":
            await exchange.respond(b"abc")
        else:
            await exchange.stream()
            await exchange.chunk(b"abc")
            await exchange.end()

    gateway = await start_gateway(await start_model(answer))
    agent = await gateway.connect()
    await agent.send(b"GET /length HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    response = await agent.receive()
    assert (response.start_line, response.one("Connection"), response.body) == (
        b"HTTP/1.0 200 OK",
        "keep-alive",
        b"abc",
    )
    await agent.send(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    response = await agent.receive()
    assert (response.one("Transfer-Encoding"), response.one("Connection"), response.body) == (None, "close", b"abc")


async def test_long_heads_pass_and_over_long_ones_are_refused(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    for size, status in ((60_000, 200), (70_000, 431)):
        response = await gateway.post("/v1/models", None, [("X", "x" * size)], method="GET")
        assert response.status == status
    assert len(model.requests) == 1
    assert (await gateway.post("/v1/" + "x" * 60_000, None, method="GET")).status == 200


@pytest.mark.parametrize(
    "head",
    [
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"POST /x HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
        b"POST /x HTTP/1.1\nHost: x\n\n",
        b"POST /x HTTP/1.1\r\nHost : x\r\n\r\n",
    ],
)
async def test_what_smuggles_is_a_400_and_goes_nowhere(start_model, start_gateway, head: bytes) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    await agent.send(head)
    refused = await agent.receive()
    assert (refused.status, refused.error["code"]) == (400, "malformed_http")
    assert (refused.one("Connection"), refused.one("History-Delta-Version")) == ("close", "1")
    assert b"aiohttp" not in b" ".join(value for _, value in refused.headers) + refused.body
    assert model.requests == []
    assert gateway.metric("answered_total", reason="malformed-http") == 1


async def test_what_is_idle_for_too_long_goes_without_a_call_that_sees_to_it(start_model, start_gateway, shim) -> None:
    gateway = await start_gateway(await start_model(), history_idle_seconds=0.001, delivery_keep_seconds=0.001)
    await gateway.post(CHAT, shim.chat("x"), shim.headers())
    assert (gateway.metric("histories"), gateway.metric("deliveries")) == (1, 1)

    def nothing_left() -> bool:
        gateway.server.app.expire()
        return gateway.metric("histories_bytes") == gateway.metric("deliveries") == 0

    await gateway.until(nothing_left)


async def test_a_broken_chunked_body_of_a_model_call_is_a_400(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    await agent.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    await agent.send(b"zz\r\n")
    assert (await agent.receive()).status == 400
    assert model.requests == []


async def test_one_whose_first_chunks_were_good_gets_no_end_at_the_model(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model, agent_pause_seconds=0.2)
    agent = await gateway.connect()
    await agent.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n".encode())
    await gateway.until(lambda: gateway.metric("bytes_in_flight") == 2)
    await agent.send(b"zz\r\n")
    assert (await agent.receive()).status in (400, 408)
    assert model.requests == []


async def test_keep_alive_serves_many_requests_on_one_connection_each_side(start_model, start_gateway, shim) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    for number in range(20):
        body = shim.chat(f"call {number}")
        await agent.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (await agent.receive()).status == 200
    assert len(model.requests) == 20
    assert model.connections == 1


async def test_pipelined_requests_are_answered_in_order(start_model, start_gateway) -> None:
    async def answer(exchange) -> None:
        await exchange.respond(exchange.request.target.encode())

    gateway = await start_gateway(await start_model(answer))
    agent = await gateway.connect()
    await agent.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(5)))
    assert [(await agent.receive()).body for _ in range(5)] == [b"/0", b"/1", b"/2", b"/3", b"/4"]


async def test_what_is_answered_here_never_reaches_a_model(start_model, start_gateway, enabled) -> None:
    model = await start_model()
    gateway = await start_gateway(model, enabled=enabled)
    upgrade = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "x")]
    websocket = await gateway.post("/ng-rollout/r1/v1/responses", None, upgrade, method="GET")
    assert (websocket.status, websocket.one("Upgrade")) == (426, "HTTP/1.1")
    reserved = await gateway.post("/v1/.history-delta/deliveries/x", None, method="DELETE")
    assert (reserved.status, reserved.error["code"]) == (404, "not_found")
    capabilities = await gateway.post("/ng-rollout/r1/v1/.well-known/history-delta", None, method="GET")
    assert capabilities.status == (200 if enabled else 404)
    frame = await gateway.post(CHAT, b"x", [("Content-Type", "Application/Vnd.History-Delta; a=b")])
    assert frame.status == (400 if enabled else 409)
    assert frame.one("History-Delta-Version") == "1"
    assert frame.one("History-Delta-Resync") == (None if enabled else "disabled")
    assert model.requests == []


async def test_capabilities_say_version_encodings_and_limits(start_model, start_gateway) -> None:
    import json

    gateway = await start_gateway(await start_model(), max_body_bytes=1234, max_frame_line_bytes=55)
    response = await gateway.post("/v1/.well-known/history-delta", None, method="GET")
    assert json.loads(response.body) == {
        "version": 1,
        "encodings": ["gzip"],
        "limits": {"frame_line_bytes": 55, "body_bytes": 1234, "messages": 100000, "pieces": 64},
    }
    assert response.one("History-Delta-Version") == "1"


async def test_each_pass_through_is_counted_by_its_reason(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model())
    await gateway.post("/v1/chat/completions", b"{}")
    await gateway.post("/v1/models", None, method="GET")
    await gateway.until(lambda: len(gateway.log("call")) == 2)
    assert gateway.metric("pass_throughs_total", reason="no-rollout") == 1
    assert gateway.metric("pass_throughs_total", reason="no-model-call") == 1
    assert gateway.metric("calls_total", kind="pass-through") == 2
    first = gateway.log("call")[0]
    assert (first["kind"], first["reason"], first["body_bytes"], first["status"]) == (
        "pass-through",
        "no-rollout",
        2,
        200,
    )


async def test_the_log_never_holds_a_query(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model())
    await gateway.post("/v1/models?key=secret", None, method="GET")
    await gateway.until(lambda: gateway.log("call"))
    assert gateway.log("call")[0]["path"] == "/v1/models"
    assert "secret" not in gateway._log.getvalue()


async def test_a_fault_of_ours_in_the_middle_of_a_response_is_a_cut(start_model, start_gateway, monkeypatch) -> None:
    model = await start_model(None)
    gateway = await start_gateway(model)
    agent = await gateway.send("/v1/models", None, method="GET")
    exchange = await model.arrived.get()
    await exchange.stream()
    await agent.receive(head_only=True)

    def fail(*args: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("history_delta_server.agent_response.AgentResponse.feed", fail)
    await exchange.chunk(b"one")
    assert await agent.reader.read() == b""
    assert gateway.log("fault")[0]["error"] == "ZeroDivisionError"


async def test_a_fault_of_ours_is_a_500_that_the_log_explains(start_model, start_gateway, monkeypatch) -> None:
    gateway = await start_gateway(await start_model())

    def fail(outgoing, call) -> None:
        raise ZeroDivisionError(outgoing.target)

    monkeypatch.setattr(gateway.server.app._dispatcher, "send", fail)
    response = await gateway.post("/v1/models?key=hidden", None, method="GET")
    assert (response.status, response.error["code"]) == (500, "history_delta_fault")
    assert gateway.log("fault")[0]["error"] == "ZeroDivisionError"
    assert "in fail" in gateway.log("fault")[0]["trace"][-1]
    assert "hidden" not in gateway._log.getvalue()


@pytest.mark.parametrize("path", ["/v1/models", CHAT, "/v1/.history-delta/x"])
async def test_an_upgrade_that_is_not_made_ends_the_connection(start_model, start_gateway, path) -> None:
    """What is sent behind it cannot be told from another protocol."""
    gateway = await start_gateway(await start_model())
    agent = await gateway.connect()
    await agent.send(
        f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: foo\r\n".encode()
        + b"Content-Length: 2\r\n\r\n{}"
        + b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
    )
    assert (await agent.receive()).one("Connection") == "close"
    async with asyncio.timeout(10):
        assert await agent.reader.read() == b""


async def test_nor_does_a_tunnel_keep_it(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model())
    agent = await gateway.connect()
    await agent.send(b"CONNECT /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await agent.receive()).one("Connection") == "close"


async def test_http_1_0_has_no_transfer_encoding(start_model, start_gateway, enabled) -> None:
    model = await start_model()
    gateway = await start_gateway(model, enabled=enabled)
    agent = await gateway.connect()
    await agent.send(f"POST {CHAT} HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n".encode())
    response = await agent.receive()
    assert (response.status, response.error["code"], response.one("Connection")) == (400, "malformed_http", "close")
    assert model.requests == []


async def test_what_the_settings_shut_is_answered_here(start_model, start_gateway, enabled) -> None:
    model = await start_model()
    gateway = await start_gateway(model, enabled=enabled, model_paths_only=True, keep_rollout_prefix=True)
    for path, status in (
        ("/admin", 404),
        ("/ng-rollout/r1/training-token-capture/v1/models", 404),
        ("/ng-rollout/r1/../../admin", 400),
        ("/ng-rollout/r1/v1/models", 200),
    ):
        assert (await gateway.post(path, None, method="GET")).status == status
    assert len(model.requests) == 1
