# SPDX-License-Identifier: Apache-2.0
"""Model calls of a rollout: full sends, frames, resyncs, refusals and repeated deliveries, over real sockets."""

import asyncio
import gzip
import hashlib
import json
import zlib

import pytest
from history_delta_protocol.dialect import MESSAGES, RESPONSES

CHAT = "/ng-rollout/r1/v1/chat/completions"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_a_full_send_is_held_and_a_frame_on_it_arrives_as_the_body_that_it_stands_for(
    start_model, start_gateway, shim
) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    first, second = shim.chat("hello"), shim.chat("hello", "wörld \U0001f600")
    answer = await gateway.post(CHAT, first, shim.headers(delivery="0" * 32))
    assert (answer.one("History-Delta-Version"), answer.one("History-Delta-Held")) == ("1", shim.held(first))
    answer = await gateway.post(CHAT, shim.frame(first, second), shim.frame_headers(("X", "1"), delivery="1" * 32))
    assert (answer.status, answer.body) == (200, b"{}")
    assert answer.one("History-Delta-Held") == shim.held(second)
    assert [request.body for request in model.requests] == [first, second]
    assert model.requests[1].headers == [
        (b"Host", model.url.removeprefix("http://").encode()),
        (b"Content-Type", b"application/json"),
        (b"X", b"1"),
        (b"Content-Length", b"%d" % len(second)),
    ]


@pytest.mark.parametrize(
    ("dialect", "path", "body"),
    [
        (RESPONSES, "/ng-rollout/r1/v1/responses", b'{"input" : [ {"a":1.0} ,\n{"b":"\\ud800"} ] ,"x":NaN}\n'),
        (MESSAGES, "/ng-rollout/r1/v1/messages?beta=1", b'{"messages":[1,18446744073709551616],"messages":"\xff"}'),
    ],
)
async def test_bytes_that_no_json_library_would_keep_arrive_in_every_dialect(
    start_model, start_gateway, shim, dialect, path, body
) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    full = await gateway.post(path, body, shim.headers(delivery="0" * 32))
    assert full.one("History-Delta-Held") == shim.held(body, dialect)
    frame = gzip.compress(shim.frame(None, body, dialect))
    headers = shim.frame_headers(("Content-Encoding", "GZIP"), delivery="1" * 32)
    assert (await gateway.post(path, frame, headers)).status == 200
    assert [request.body for request in model.requests] == [body, body]
    assert model.requests[1].one("Content-Encoding") is None
    assert model.requests[1].target == path.removeprefix("/ng-rollout/r1")


@pytest.mark.parametrize(
    "content_type", [None, "application/json; charset=utf-8", "text/pl\xe4in", "", "text/plain;\tcharset=x"]
)
async def test_the_agents_content_type_is_restored(start_model, start_gateway, shim, content_type) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    frame = shim.frame(None, shim.chat("x"), content_type=content_type)
    assert (await gateway.post(CHAT, frame, shim.frame_headers())).status == 200
    assert model.requests[0].one("Content-Type") == content_type


@pytest.mark.parametrize(
    "content_type",
    ["application/vnd.history-delta", "a, Application/Vnd.History-Delta;x", "a\r\nX: forged", "a\nb", "\u20ac", " a"],
)
async def test_a_content_type_that_no_request_may_have_is_refused(start_model, start_gateway, shim, content_type):
    model = await start_model()
    gateway = await start_gateway(model)
    frame = shim.frame(None, shim.chat("x"), content_type=content_type)
    answer = await gateway.post(CHAT, frame, shim.frame_headers())
    assert (answer.status, answer.error["code"]) == (400, "history_delta_malformed")
    assert "content_type" in answer.error["message"]
    assert model.requests == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"not json", "not-json"),
        (b'{"prompt":"x"}', "no-history"),
        (b'{"messages":"x"}', "no-history"),
        (b"\xff\xfe{\x00", "not-json"),
        (b"", "not-json"),
    ],
)
async def test_a_body_that_is_not_understood_passes_unheld_and_is_no_error(
    start_model, start_gateway, shim, body, reason
) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    answer = await gateway.post(CHAT, body, shim.headers())
    assert (answer.status, answer.one("History-Delta-Version"), answer.one("History-Delta-Held")) == (200, "1", None)
    assert model.requests[0].body == body
    await gateway.until(lambda: gateway.log("call"))
    assert gateway.log("call")[0]["reason"] == reason
    assert gateway.metric("full_sends_total", reason=reason) == 1


async def test_an_encoded_body_is_not_taken_apart(start_model, start_gateway, shim) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    body = gzip.compress(shim.chat("x"))
    answer = await gateway.post(CHAT, body, shim.headers(("Content-Encoding", "gzip")))
    assert answer.one("History-Delta-Held") is None
    assert (model.requests[0].body, model.requests[0].one("Content-Encoding")) == (body, "gzip")
    await gateway.until(lambda: gateway.metric("full_sends_total", reason="content-encoding"))


async def test_what_is_held_is_said_with_error_statuses_of_the_model_too(start_model, start_gateway, shim) -> None:
    async def answer(exchange) -> None:
        await exchange.respond(b"busy", b"409 Conflict")

    gateway = await start_gateway(await start_model(answer))
    body = shim.chat("x")
    answered = await gateway.post(CHAT, body, shim.headers())
    assert (answered.status, answered.body) == (409, b"busy")
    assert answered.one("History-Delta-Held") == shim.held(body)
    assert answered.one("History-Delta-Resync") is None


async def test_an_unknown_base_is_a_resync_and_the_same_delivery_then_runs_in_full(
    start_model, start_gateway, shim
) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    before, body = shim.chat("a"), shim.chat("a", "b")
    refused = await gateway.post(CHAT, shim.frame(before, body), shim.frame_headers())
    assert (refused.status, refused.error["code"]) == (409, "gym_history_resync")
    assert (refused.one("History-Delta-Resync"), refused.one("History-Delta-Version")) == ("unknown-base", "1")
    assert model.requests == []
    why = ("History-Delta-Full", "resync:unknown-base")
    assert (await gateway.post(CHAT, body, shim.headers(why))).status == 200
    assert [request.body for request in model.requests] == [body]
    assert model.requests[0].one("History-Delta-Full") is None
    await gateway.until(lambda: gateway.log("call"))
    assert gateway.metric("resyncs_total", reason="unknown-base") == 1
    assert gateway.metric("full_sends_total", reason="resync:unknown-base") == 1
    assert gateway.log("answer")[0]["reason"] == "unknown-base"


async def test_one_rollout_never_sees_what_another_holds(start_model, start_gateway, shim) -> None:
    gateway = await start_gateway(await start_model())
    body = shim.chat("a")
    await gateway.post(CHAT, body, shim.headers())
    frame = shim.frame(body, shim.chat("a", "b"))
    other = await gateway.post("/ng-rollout/r2/v1/chat/completions", frame, shim.frame_headers())
    assert other.one("History-Delta-Resync") == "unknown-base"


@pytest.mark.parametrize(
    ("change", "status", "code", "named"),
    [
        (lambda data: b"{}\n", 400, "history_delta_malformed", "missing"),
        (lambda data: b"no line at all", 400, "history_delta_malformed", "line"),
        (lambda data: data + b"x", 400, "history_delta_malformed", "left over"),
        (lambda data: data[:-1], 400, "history_delta_malformed", "wanted"),
        (lambda data: b" " * 70_000 + data, 413, "history_delta_too_large", "max_frame_line_bytes"),
    ],
)
async def test_a_malformed_frame_is_a_400_and_one_over_a_limit_a_413(
    start_model, start_gateway, shim, change, status, code, named
) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    answer = await gateway.post(CHAT, change(shim.frame(None, shim.chat("x"))), shim.frame_headers())
    assert (answer.status, answer.error["code"], answer.one("History-Delta-Version")) == (status, code, "1")
    assert named in answer.error["message"]
    assert model.requests == []


@pytest.mark.parametrize("setting", ["max_body_bytes", "max_rollout_bytes_in_flight"])
async def test_a_frame_of_a_body_over_the_limit_is_a_413_that_names_limit_and_setting(
    start_model, start_gateway, shim, setting: str
) -> None:
    gateway = await start_gateway(await start_model(), **{setting: 1000})
    for frame, headers in (
        (shim.frame(None, shim.chat("x" * 1000)), []),
        (b"x" * 1001, []),
        (gzip.compress(b"x" * 100_000), [("Content-Encoding", "gzip")]),
    ):
        answer = await gateway.post(CHAT, frame, shim.frame_headers(*headers))
        assert (answer.status, answer.error["code"]) == (413, "history_delta_too_large")
        assert f"1000 (setting {setting})" in answer.error["message"]


async def test_a_length_over_the_limit_is_a_413_also_where_it_is_not_what_the_frame_makes(
    start_model, start_gateway, shim
) -> None:
    gateway = await start_gateway(await start_model(), max_rollout_bytes_in_flight=1000)
    frame = shim.frame(None, shim.chat("x"))
    length = b",%d]}" % len(shim.chat("x"))
    assert frame.count(length) == 1
    answer = await gateway.post(CHAT, frame.replace(length, b",1001]}"), shim.frame_headers())
    assert (answer.status, answer.error["code"]) == (413, "history_delta_too_large")


async def test_a_gzip_bomb_is_stopped_while_it_is_unpacked(start_model, start_gateway, shim) -> None:
    """100 MB in 100 kB, unpacked beside the event loop, which goes on meanwhile."""
    gateway = await start_gateway(await start_model(), max_body_bytes=1_000_000)
    answer = await gateway.post(
        CHAT, gzip.compress(bytes(100_000_000), 9), shim.frame_headers(("Content-Encoding", "gzip"))
    )
    assert answer.status == 413


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", lambda data: data),
        ("gzip", lambda data: gzip.compress(data)[:-1]),
        ("gzip", lambda data: gzip.compress(data) * 2),
        ("gzip", zlib.compress),
        ("br", lambda data: data),
        ("gzip, gzip, deflate", gzip.compress),
    ],
)
async def test_a_frame_that_does_not_unpack_is_a_400(start_model, start_gateway, shim, encoding, pack) -> None:
    gateway = await start_gateway(await start_model())
    frame = pack(shim.frame(None, shim.chat("x")))
    answer = await gateway.post(CHAT, frame, shim.frame_headers(("Content-Encoding", encoding)))
    assert (answer.status, answer.error["code"]) == (400, "history_delta_malformed")


async def test_a_body_too_large_to_hold_streams_through_unheld(start_model, start_gateway, shim) -> None:
    model = await start_model()
    gateway = await start_gateway(model, max_held_body_bytes=10_000)
    body = shim.chat("x" * 300_000)
    answer = await gateway.post(CHAT, body, shim.headers())
    assert (answer.status, answer.one("History-Delta-Held")) == (200, None)
    assert (model.requests[0].body, model.requests[0].one("Content-Length")) == (body, str(len(body)))
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(body[i : i + 999]), body[i : i + 999]) for i in range(0, len(body), 999))
    agent = await gateway.connect()
    await agent.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    await agent.send(chunked + b"0\r\n\r\n")
    assert (await agent.receive()).status == 200
    assert (model.requests[1].body, model.requests[1].one("Transfer-Encoding")) == (body, "chunked")
    await gateway.until(lambda: len(gateway.log("call")) == 2)
    assert [line["reason"] for line in gateway.log("call")] == ["too-large"] * 2
    assert [line["body_bytes"] for line in gateway.log("call")] == [len(body)] * 2
    assert gateway.metric("bytes_in_flight") == 0


async def test_a_body_without_a_shim_is_held_under_its_reason(start_model, start_gateway, shim) -> None:
    gateway = await start_gateway(await start_model())
    answer = await gateway.post(CHAT, shim.chat("x"), [("Content-Type", "application/json")])
    assert answer.one("History-Delta-Held") == shim.held(shim.chat("x"))
    await gateway.until(lambda: gateway.metric("full_sends_total", reason="no-shim") == 1)


async def test_too_many_calls_in_flight_are_a_429_that_says_when_to_come_back(start_model, start_gateway, shim) -> None:
    release = asyncio.Event()

    async def wait(exchange) -> None:
        await release.wait()
        await exchange.respond()

    model = await start_model(wait)
    gateway = await start_gateway(model, max_calls_in_flight=2)
    waiting = [await gateway.send(CHAT, shim.chat("x"), shim.headers(delivery=c * 32)) for c in "01"]
    await gateway.until(lambda: len(model.requests) == 2)
    refused = await gateway.post(CHAT, shim.chat("x"), shim.headers(delivery="2" * 32))
    assert (refused.status, refused.error["code"], refused.one("Retry-After")) == (429, "history_delta_busy", "1")
    assert "2 (setting max_calls_in_flight)" in refused.error["message"]
    release.set()
    assert [(await agent.receive()).status for agent in waiting] == [200, 200]
    await gateway.until(lambda: gateway.metric("calls_in_flight") == 0)
    assert (await gateway.post(CHAT, shim.chat("x"), shim.headers(delivery="2" * 32))).status == 200
    assert gateway.metric("answered_total", reason="history_delta_busy") == 1


async def model_that_waits_after_its_first_answer(start_model):
    """The model, and the event that lets it answer the others."""
    release = asyncio.Event()

    async def wait(exchange) -> None:
        if len(model.requests) > 1:
            await release.wait()
        await exchange.respond()

    model = await start_model(wait)
    return model, release


async def test_small_frames_buy_no_more_traffic_than_may_be_in_flight(start_model, start_gateway, shim) -> None:
    model, release = await model_that_waits_after_its_first_answer(start_model)
    gateway = await start_gateway(model, max_rollout_bytes_in_flight=2_500_000)
    body = shim.chat("x" * 1_000_000)
    await gateway.post(CHAT, body, shim.headers())
    frame = shim.frame(body, body)
    assert len(frame) < 500
    waiting = [await gateway.send(CHAT, frame, shim.frame_headers(delivery=c * 32)) for c in "12"]
    await gateway.until(lambda: len(model.requests) == 3)
    refused = await gateway.post(CHAT, frame, shim.frame_headers(delivery="3" * 32))
    assert (refused.status, refused.one("Retry-After")) == (429, "1")
    assert "2500000 (setting max_rollout_bytes_in_flight)" in refused.error["message"]
    release.set()
    assert [(await agent.receive()).status for agent in waiting] == [200, 200]
    assert [sha256(request.body) for request in model.requests] == [sha256(body)] * 3
    await gateway.until(lambda: gateway.metric("bytes_in_flight") == 0)


async def test_a_frame_that_is_too_much_is_refused_before_anything_is_made_of_it(
    start_model, start_gateway, shim
) -> None:
    model, release = await model_that_waits_after_its_first_answer(start_model)
    gateway = await start_gateway(model, max_rollout_bytes_in_flight=2_500_000)
    body, longer = shim.chat("x" * 1_500_000), shim.chat("x" * 1_500_000, "y")
    await gateway.post(CHAT, body, shim.headers())
    waiting = await gateway.send(CHAT, shim.frame(body, body), shim.frame_headers(delivery="1" * 32))
    await gateway.until(lambda: len(model.requests) == 2)
    held = gateway.metric("histories_messages")
    refused = await gateway.post(CHAT, shim.frame(body, longer), shim.frame_headers(delivery="2" * 32))
    assert (refused.status, refused.error["code"]) == (429, "history_delta_busy")
    assert gateway.metric("histories_messages") == held
    release.set()
    assert (await waiting.receive()).status == 200


async def test_a_frame_stands_for_no_more_than_a_rollout_may_have_in_flight(start_model, start_gateway, shim) -> None:
    model = await start_model()
    gateway = await start_gateway(model, max_rollout_bytes_in_flight=1_000_000)
    body = shim.chat("x" * 1_500_000)
    assert (await gateway.post(CHAT, body, shim.headers())).status == 200
    told = json.loads((await gateway.post("/v1/.well-known/history-delta", None, method="GET")).body)
    assert told["limits"]["body_bytes"] == 1_000_000
    refused = await gateway.post(CHAT, shim.frame(body, body), shim.frame_headers(delivery="1" * 32))
    assert (refused.status, refused.error["code"]) == (413, "history_delta_too_large")
    assert "1000000 (setting max_rollout_bytes_in_flight)" in refused.error["message"]
    assert len(model.requests) == 1


async def test_a_call_counts_as_in_flight_until_the_model_is_done_with_it(start_model, start_gateway, shim) -> None:
    model = await start_model(None)
    gateway = await start_gateway(model)
    agent = await gateway.send(CHAT, shim.chat("x"), shim.headers())
    await gateway.until(lambda: model.requests)
    assert gateway.metric("calls_in_flight") == 1
    agent.close()
    await gateway.until(lambda: gateway.metric("calls_in_flight") == 0)
    assert gateway.metric("outcomes_total", outcome="broken") == 1


async def test_the_hash_of_a_rebuilt_body_is_logged_where_asked_for(start_model, start_gateway, shim) -> None:
    gateway = await start_gateway(await start_model(), log_body_hash=True)
    first, second = shim.chat("a"), shim.chat("a", "b")
    await gateway.post(CHAT, first, shim.headers(delivery="0" * 32))
    await gateway.post(CHAT, shim.frame(first, second), shim.frame_headers(delivery="1" * 32))
    await gateway.until(lambda: len(gateway.log("call")) == 2)
    full, delta = gateway.log("call")
    assert [full["sha256"], delta["sha256"]] == [sha256(first), sha256(second)]
    assert (full["kind"], delta["kind"]) == ("full", "delta")
    assert delta["body_bytes"] == len(second)
    assert delta["received_bytes"] == len(shim.frame(first, second))
    assert {"delivery", "rollout", "path", "status", "rebuild_ms", "upstream", "duration_ms"} <= set(delta)
    assert gateway.metric("saved_bytes_total") == max(0, len(second) - delta["received_bytes"])
    assert gateway.metric("rebuild_seconds_count") == 2


@pytest.mark.parametrize("is_frame", [True, False])
async def test_a_body_that_stops_coming_is_a_408(start_model, start_gateway, shim, is_frame) -> None:
    model = await start_model()
    gateway = await start_gateway(model, agent_pause_seconds=0.1)
    headers = shim.frame_headers() if is_frame else shim.headers()
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    agent = await gateway.connect()
    await agent.send(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n{lines}\r\nsome".encode())
    answer = await agent.receive()
    assert (answer.status, answer.one("Connection")) == (408, "close")
    assert "0.1 s (setting agent_pause_seconds)" in answer.error["message"]
    assert model.requests == []
    await gateway.until(lambda: gateway.metric("calls_in_flight") == 0)


async def test_short_rollouts_leave_nothing_but_what_expires(start_model, start_gateway, shim) -> None:
    gateway = await start_gateway(await start_model(), history_idle_seconds=1e-9, delivery_keep_seconds=1e-9)
    agent = await gateway.connect()
    lines = "".join(f"{name}: {value}\r\n" for name, value in shim.headers())
    for number in range(500):
        body = shim.chat(f"rollout {number}")
        head = f"POST /ng-rollout/r{number}/v1/chat/completions HTTP/1.1\r\nHost: x\r\n{lines}"
        await agent.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (await agent.receive()).status == 200
    await gateway.post(CHAT, shim.chat("last"), shim.headers(delivery="f" * 32))
    await gateway.until(lambda: gateway.metric("calls_in_flight") == 0)
    assert gateway.metric("histories") == 1
    assert gateway.metric("histories_messages") == 1
    assert gateway.metric("deliveries") == 1
    assert gateway.metric("bytes_in_flight") == 0


async def test_two_identical_bodies_are_two_calls(start_model, start_gateway, shim) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    for delivery in ("0" * 32, "1" * 32, None, None):
        await gateway.post(CHAT, shim.chat("x"), shim.headers(delivery=delivery))
    assert len(model.requests) == 4


class TestRepeatedDeliveries:
    async def test_a_repeat_of_an_ended_call_is_answered_again_without_a_call(
        self, start_model, start_gateway, shim
    ) -> None:
        async def answer(exchange) -> None:
            await exchange.stream(b"X: 1\r\n")
            await exchange.chunk(b"one")
            await exchange.chunk(b"two")
            await exchange.end()

        model = await start_model(answer)
        gateway = await start_gateway(model)
        body = shim.chat("x")
        first = await gateway.post(CHAT, body, shim.headers())
        # As a frame too: it stands for the same content.
        for repeat in (
            await gateway.post(CHAT, body, shim.headers()),
            await gateway.post(CHAT, shim.frame(body, body), shim.frame_headers()),
        ):
            assert (repeat.start_line, repeat.headers, repeat.body) == (first.start_line, first.headers, b"onetwo")
            assert repeat.complete
        assert len(model.requests) == 1
        await gateway.until(lambda: gateway.metric("deliveries_repeated_total", outcome="complete") == 2)
        assert gateway.metric("calls_total", kind="full") == 1

    async def test_a_repeat_of_a_running_call_joins_it_from_its_first_byte(
        self, start_model, start_gateway, shim
    ) -> None:
        model = await start_model(None)
        gateway = await start_gateway(model)
        first = await gateway.send(CHAT, shim.chat("x"), shim.headers())
        exchange = await model.arrived.get()
        await exchange.stream()
        await exchange.chunk(b"one")
        await first.receive(head_only=True)
        assert await first.piece() == b"one"
        second = await gateway.send(CHAT, shim.chat("x"), shim.headers())
        await second.receive(head_only=True)
        assert await second.piece() == b"one"
        await exchange.chunk(b"two")
        assert [await first.piece(), await second.piece()] == [b"two", b"two"]
        await exchange.end()
        assert [await first.piece(), await second.piece()] == [b"", b""]
        assert len(model.requests) == 1

    async def test_repeats_buy_no_bytes_in_flight(self, start_model, start_gateway, shim) -> None:
        model = await start_model(None)
        body = shim.chat("x" * 10_000)
        gateway = await start_gateway(model, max_rollout_bytes_in_flight=25_000)
        for _ in range(5):
            await gateway.send(CHAT, body, shim.headers())
        await gateway.until(lambda: gateway.metric("calls_in_flight") == 5)
        await gateway.until(lambda: gateway.metric("bytes_in_flight") == len(body))
        assert len(model.requests) == 1

    async def test_a_repeat_goes_on_where_the_first_connection_died(self, start_model, start_gateway, shim) -> None:
        model = await start_model(None)
        gateway = await start_gateway(model, early_close_seconds=60.0)
        first = await gateway.send(CHAT, shim.chat("x"), shim.headers())
        exchange = await model.arrived.get()
        first.close()
        await exchange.stream()
        await exchange.chunk(b"one")
        second = await gateway.send(CHAT, shim.chat("x"), shim.headers())
        await exchange.chunk(b"two")
        await exchange.end()
        assert (await second.receive()).body == b"onetwo"
        assert len(model.requests) == 1

    @pytest.mark.parametrize("change", ["body", "path", "query"])
    async def test_other_content_under_the_same_id_is_a_422(self, start_model, start_gateway, shim, change) -> None:
        model = await start_model()
        gateway = await start_gateway(model)
        await gateway.post(CHAT, shim.chat("x"), shim.headers())
        path = {"body": CHAT, "path": "/ng-rollout/r1/v2/chat/completions", "query": CHAT + "?x"}[change]
        body = shim.chat("y") if change == "body" else shim.chat("x")
        refused = await gateway.post(path, body, shim.headers())
        assert (refused.status, refused.error["code"]) == (422, "history_delta_delivery_reused")
        assert len(model.requests) == 1

    async def test_a_repeat_of_a_failed_call_replays_what_was_received_and_is_cut(
        self, start_model, start_gateway, shim
    ) -> None:
        async def fail(exchange) -> None:
            await exchange.stream()
            await exchange.chunk(b"some")
            exchange.close()

        model = await start_model(fail)
        gateway = await start_gateway(model)
        for _ in range(2):
            answer = await gateway.post(CHAT, shim.chat("x"), shim.headers())
            assert (answer.status, answer.body, answer.complete) == (200, b"some", False)
        assert len(model.requests) == 1

    async def test_a_response_too_large_to_keep_is_cut_when_repeated_and_never_executed(
        self, start_model, start_gateway, shim
    ) -> None:
        async def answer(exchange) -> None:
            await exchange.respond(b"x" * 100_000)

        model = await start_model(answer)
        gateway = await start_gateway(model, max_replay_bytes=50_000)
        assert len((await gateway.post(CHAT, shim.chat("x"), shim.headers())).body) == 100_000
        repeat = await gateway.post(CHAT, shim.chat("x"), shim.headers())
        assert (repeat.start_line, repeat.was_reset) == (b"", True)
        assert len(model.requests) == 1
        await gateway.until(lambda: gateway.metric("deliveries_repeated_total", outcome="repeat-not-kept") == 1)

    async def test_a_streamed_request_is_never_executed_twice(self, start_model, start_gateway, shim) -> None:
        model = await start_model()
        gateway = await start_gateway(model, max_held_body_bytes=1000)
        body = shim.chat("x" * 5000)
        first = await gateway.post(CHAT, body, shim.headers())
        repeat = await gateway.post(CHAT, body, shim.headers())
        assert (first.status, repeat.status, len(model.requests)) == (200, 200, 1)

    async def test_a_call_that_never_ran_is_not_known(self, start_model, start_gateway, shim) -> None:
        model = await start_model()
        await model.stop()
        gateway = await start_gateway(model)
        assert (await gateway.post(CHAT, shim.chat("x"), shim.headers())).status == 502
        # At the same address once more.
        server = await asyncio.start_server(model._serve, "127.0.0.1", int(model.url.rpartition(":")[2]))
        async with server:
            assert (await gateway.post(CHAT, shim.chat("x"), shim.headers())).status == 200
        assert len(model.requests) == 1

    async def test_the_same_id_in_another_rollout_is_another_delivery(self, start_model, start_gateway, shim) -> None:
        model = await start_model()
        gateway = await start_gateway(model)
        for rollout in ("r1", "r2"):
            await gateway.post(f"/ng-rollout/{rollout}/v1/chat/completions", shim.chat(rollout), shim.headers())
        assert len(model.requests) == 2


@pytest.mark.parametrize(("slice_seconds", "gives_way"), [(0.0, True), (3600.0, False)])
@pytest.mark.parametrize("framed", [False, True])
async def test_a_large_body_gives_way_to_other_calls(
    start_model, start_gateway, shim, monkeypatch, slice_seconds, gives_way, framed
) -> None:
    monkeypatch.setattr("history_delta_server.model_call._SLICE_SECONDS", slice_seconds)
    monkeypatch.setattr("history_delta_server.rebuild._STEP_BYTES", 16)
    gateway = await start_gateway(await start_model())
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(others())
    body = shim.chat(*("x" for _ in range(2000)))
    sent, sent_headers = (shim.frame(None, body), shim.frame_headers()) if framed else (body, shim.headers())
    answer = await gateway.post(CHAT, sent, sent_headers)
    running.cancel()
    assert answer.one("History-Delta-Held") == shim.held(body)
    assert (turns > 2000) is gives_way
