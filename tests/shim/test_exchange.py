# SPDX-License-Identifier: Apache-2.0
import hashlib
import json

import pytest
from support.http_text import CHAT, END, answer, chunk, get, head, post, stream
from support.link import CAPABILITIES, Sent, Server

MIB = 1024 * 1024


def exchange(agent, upstream, request, response):
    """One whole exchange on a new upstream connection: (request as received, response as received)."""
    agent.send(request)
    peer = upstream.accept()
    received = peer.read_request()
    peer.send(response)
    return received, agent.read_response(received.line[0])


def test_a_model_call_passes_unchanged_both_ways(shim, upstream):
    body = b' {"messages" : [ "\xf0\x9f\x98\x80\\ud800" ] , "n":1e999}\r\n'
    request = post(body, "X-One: 1", "x-one: 2", "Content-Type: application/json", target=CHAT + "?api-version=1&k")
    response = answer(b"abc", "Set-Cookie: a", "X-B: 1", "Set-Cookie: b", status="299 Quite fine")
    received, relayed = exchange(shim.agent(), upstream, request, response)
    assert received.line == ("POST", CHAT + "?api-version=1&k")
    assert received.headers == [
        ("Host", upstream.origin.partition("//")[2]),
        ("X-One", "1"),
        ("x-one", "2"),
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(body))),
    ]
    assert received.body == body
    assert relayed.line == (299, "Quite fine")
    assert relayed.headers == [("Set-Cookie", "a"), ("X-B", "1"), ("Set-Cookie", "b"), ("Content-Length", "3")]
    assert relayed.body == b"abc"


@pytest.mark.parametrize("target", [CHAT, "/v1/files"])
def test_the_host_stands_where_and_as_the_agent_wrote_it(shim, upstream, target):
    request = head(f"POST {target} HTTP/1.1", "accept: */*", "host: a", "X-A: b", "Content-Length: 2") + b"{}"
    received, _ = exchange(shim.agent(), upstream, request, answer(b"{}"))
    assert received.headers[:3] == [("accept", "*/*"), ("host", upstream.origin.partition("//")[2]), ("X-A", "b")]
    assert received.names() == {"accept", "host", "x-a", "content-length"}


@pytest.mark.parametrize("method", ["GET", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_and_paths_pass_too(shim, upstream, method):
    request = head(f"{method} /v1/models/x?y=z HTTP/1.1", "Host: a", "X-A: b")
    received, relayed = exchange(shim.agent(), upstream, request, answer(b"{}", status="404 Not Found"))
    assert received.line == (method, "/v1/models/x?y=z")
    assert received.names() == {"host", "x-a"}
    assert (relayed.line[0], relayed.body) == (404, b"{}")


def test_a_response_to_head_has_its_length_and_no_body(shim, upstream):
    agent = shim.agent()
    request = head("HEAD /v1/models HTTP/1.1", "Host: a")
    _, relayed = exchange(agent, upstream, request, head("HTTP/1.1 200 OK", "Content-Length: 999"))
    assert relayed.values("content-length") == ["999"]
    assert relayed.body == b""
    agent.send(get("/again"))


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_a_status_without_a_body_keeps_the_connection(shim, upstream, status):
    agent = shim.agent()
    for _ in range(2):
        agent.send(get("/v1/models"))
        if _ == 0:
            peer = upstream.accept()
        peer.read_request()
        peer.send(head(f"HTTP/1.1 {status}", "ETag: x"))
        assert agent.read_response().line[0] == int(status[:3])


def test_hop_by_hop_headers_and_ours_stay_behind(shim, upstream):
    theirs = ["Connection: X-Hop", "X-Hop: 1", "Keep-Alive: 5", "TE: trailers", "History-Delta-Held: 1 x"]
    received, relayed = exchange(
        shim.agent(), upstream, post(b"{}", *theirs, "X-End: 1"), answer(b"{}", *theirs, "X-End: 2")
    )
    assert received.names() == {"host", "x-end", "content-length"}
    assert relayed.names() == {"x-end", "content-length"}


def test_a_chunked_body_of_a_model_call_arrives_with_its_length(shim, upstream):
    request = head(f"POST {CHAT} HTTP/1.1", "Host: a", "Trailer: X-T", "Transfer-Encoding: chunked")
    request += chunk(b'{"messages"') + b"4;ext=1\r\n:[]}\r\n" + b"0\r\nX-T: 1\r\n\r\n"
    received, _ = exchange(shim.agent(), upstream, request, answer(b"{}"))
    assert received.body == b'{"messages":[]}'
    assert received.names() == {"host", "content-length"}


def test_a_chunked_body_of_another_call_is_streamed_with_its_trailers(shim, upstream):
    agent = shim.agent()
    agent.send(head("POST /v1/files HTTP/1.1", "Host: a", "Trailer: X-T", "Transfer-Encoding: chunked") + chunk(b"one"))
    peer = upstream.accept()
    request = peer.read_request_head()
    assert peer.next_data() == b"one"  # before the rest has been sent
    agent.send(chunk(b"two") + b"0\r\nX-T: 1\r\nContent-Length: 1\r\n\r\n")
    rest = peer.receive_until(b"\r\n\r\n")
    assert request.values("transfer-encoding") == ["chunked"]
    assert rest == chunk(b"two") + b"0\r\nX-T: 1\r\n\r\n"
    peer.send(answer(b"{}"))
    assert agent.read_response().body == b"{}"
    logged = shim.next_logged()
    assert (logged["reason"], logged["sent_bytes"]) == ("not-a-model-call", 6)


def test_a_body_over_the_limit_is_streamed(shim, upstream):
    agent = shim.agent()
    size = 33 * MIB
    agent.send(head(f"POST {CHAT} HTTP/1.1", "Host: a", f"Content-Length: {size}") + b"x")
    peer = upstream.accept()
    assert peer.read_request_head().values("content-length") == [str(size)]
    peer.send(answer(b"{}", status="413 Too Large"))  # although it has not been sent
    refused = agent.read_response()
    assert refused.line[0] == 413
    assert refused.values("connection") == ["close"]
    assert shim.next_logged()["reason"] == "too-large"


def test_a_chunked_body_that_grows_over_the_limit_is_streamed(shim, upstream):
    agent = shim.agent()
    piece = b"x" * MIB
    agent.send(head(f"POST {CHAT} HTTP/1.1", "Host: a", "Transfer-Encoding: chunked"))
    for _ in range(33):
        agent.send(chunk(piece))
    peer = upstream.accept()
    request = peer.read_request_head()
    agent.send(END)
    digest = hashlib.sha256()
    while data := peer.next_data():
        digest.update(data)
    assert request.values("transfer-encoding") == ["chunked"]
    assert digest.digest() == hashlib.sha256(piece * 33).digest()
    peer.send(answer(b"{}"))
    assert agent.read_response().body == b"{}"
    logged = shim.next_logged()
    assert (logged["reason"], logged["sent_bytes"], logged["body_bytes"]) == ("too-large", 33 * MIB, 33 * MIB)


def test_expect_is_answered_by_the_shim_and_stays_there(shim, upstream):
    agent = shim.agent()
    agent.send(head(f"POST {CHAT} HTTP/1.1", "Host: a", "Expect: 100-continue", "Content-Length: 2"))
    assert agent.receive_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    received, _ = exchange(agent, upstream, b"{}", answer(b"{}"))
    assert received.names() == {"host", "content-length"}


def test_expect_is_not_answered_where_the_body_came_along(shim, upstream):
    agent = shim.agent()
    agent.send(post(b"{}", "Expect: 100-continue"))
    peer = upstream.accept()
    assert "expect" not in peer.read_request().names()
    peer.send(answer(b"{}"))
    assert agent.receive_until(b"\r\n").startswith(b"HTTP/1.1 200")


def test_expect_of_an_old_agent_is_not_answered(shim, upstream):
    agent = shim.agent()
    agent.send(head(f"POST {CHAT} HTTP/1.0", "Expect: 100-continue", "Content-Length: 2"))
    agent.send(b"{}")
    peer = upstream.accept()
    peer.read_request()
    peer.send(answer(b"{}"))
    assert agent.receive_until(b"\r\n").startswith(b"HTTP/1.1 200")


def test_an_old_agent_gets_its_response_to_the_end_of_the_connection(shim, upstream):
    agent = shim.agent()
    agent.send(head(f"POST {CHAT} HTTP/1.0", "Content-Length: 2") + b"{}")
    peer = upstream.accept()
    assert peer.read_request().values("host") == [upstream.origin.partition("//")[2]]
    peer.send(stream() + chunk(b"one") + chunk(b"two") + END)
    data, was_reset = agent.receive_all()
    assert data.endswith(b"Connection: close\r\n\r\nonetwo")
    assert b"Transfer-Encoding" not in data
    assert not was_reset


@pytest.mark.parametrize("upgrade", ["websocket", "h2c, websocket", "TLS/1.2"])
def test_an_upgrade_is_refused_at_once(shim, upstream, upgrade):
    agent = shim.agent()
    agent.send(get("/v1/responses", "Connection: Upgrade", f"Upgrade: {upgrade}"))
    refused = agent.read_response()
    assert refused.line[0] == 426
    assert refused.values("upgrade") == ["HTTP/1.1"]
    assert not upstream.has_caller()


def test_an_offer_of_http_2_is_ignored(shim, upstream):
    request = post(b"{}", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    received, _ = exchange(shim.agent(), upstream, request, answer(b"{}"))
    assert received.names() == {"host", "content-length"}


@pytest.mark.parametrize(
    ("target", "shape"),
    [
        ("/v1/chat/completions", lambda body: body["error"]),
        ("/v1/responses", lambda body: body["error"]),
        ("/v1/messages", lambda body: body["type"] == "error" and body["error"]),
        ("/v1/models", lambda body: body["error"]),
    ],
)
def test_an_upstream_that_cannot_be_reached_is_named_in_the_dialects_shape(shim, upstream, target, shape):
    upstream.close()
    agent = shim.agent()
    agent.send(post(b"{}", target=target))
    refused = agent.read_response()
    assert refused.line[0] == 503
    assert refused.values("retry-after") == ["1"]
    error = shape(json.loads(refused.body))
    assert error["code"] == "history_delta_unavailable"
    assert f"127.0.0.1:{upstream.port}" in error["message"]
    assert shim.next_logged()["outcome"] == "unreachable"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET http://elsewhere/x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST /v1/messages HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nContent-Length: 0\r\n\r\n", 417),
    ],
)
def test_what_is_not_served_is_refused(shim, upstream, request_, status):
    agent = shim.agent()
    agent.send(request_)
    refused = agent.read_response()
    assert refused.line[0] == status
    assert json.loads(refused.body)["error"]["code"] == "history_delta_invalid_request"
    assert not upstream.has_caller()


@pytest.mark.parametrize("target", [CHAT, "/v1/files"])
def test_a_malformed_body_is_refused_and_never_completed_upstream(shim, upstream, target):
    agent = shim.agent()
    agent.send(head(f"POST {target} HTTP/1.1", "Host: a", "Transfer-Encoding: chunked") + b"3\r\nabcd\r\n0\r\n\r\n")
    assert agent.read_response().line[0] == 400
    assert agent.is_ended()
    if target != CHAT:
        data, _ = upstream.accept().receive_all()
        assert not data.endswith(b"0\r\n\r\n")


def test_an_agent_that_leaves_inside_its_request_reaches_no_model(shim, upstream):
    agent = shim.agent()
    agent.send(post(b"x" * 100)[:-50])
    agent.close()
    assert shim.next_logged()["outcome"] == "agent-left"
    assert not upstream.has_caller()


def test_the_log_tells_sizes_and_reasons_and_no_secret(shim, upstream):
    request = post(b'{"secret-body"}', "Authorization: Bearer secret-key", target=CHAT + "?key=secret-query")
    exchange(shim.agent(), upstream, request, answer(b"secret-answer"))
    logged = shim.next_logged()
    expected = {"kind": "pass-through", "reason": "disabled", "method": "POST", "path": CHAT, "status": 200}
    assert logged.items() >= expected.items()
    assert (logged["body_bytes"], logged["sent_bytes"], logged["outcome"]) == (15, 15, "complete")
    assert (logged["delivery"], logged["resynced"]) == (None, False)
    assert "secret" not in json.dumps(logged)
    assert "sha256" not in logged


def test_the_bodys_hash_is_logged_on_request(start_shim, upstream):
    shim = start_shim("--upstream", upstream.origin, "--log-body-hash")
    exchange(shim.agent(), upstream, post(b'{"a":1}'), answer(b"{}"))
    assert shim.next_logged()["sha256"] == hashlib.sha256(b'{"a":1}').hexdigest()


class SpeakingUpstream:
    """A server with the real core behind one upstream connection, on which it serves request after request."""

    def __init__(self, upstream):
        self._upstream = upstream
        self._peer = None
        self.server = Server()

    def read(self):
        self._peer = self._peer or self._upstream.accept()
        return self._peer.read_request()

    def send(self, response):
        self._peer.send(response)

    def serve(self):
        """Take one request and answer as the server would; the request."""
        received = self.read()
        if received.line[0] == "GET":
            self.send(answer(CAPABILITIES))
            return self.serve()
        status, headers = self.server.receive(received.line[1], Sent(received.headers, received.body))
        self.send(answer(b"answer", *map(": ".join, headers), status=f"{status} X"))
        return received


def history(length):
    messages = ",".join(f'{{"role":"user","content":"message {n} {"x" * 500}"}}' for n in range(length))
    return f'{{"model":"m","messages":[{messages}],"tools":[]}}'.encode()


@pytest.fixture
def server(upstream):
    return SpeakingUpstream(upstream)


@pytest.fixture
def agent(speaking_shim):
    return speaking_shim.agent()


def test_what_is_new_crosses_and_the_whole_reaches_the_model(agent, speaking_shim, server):
    crossed = []
    for length in range(1, 6):
        agent.send(post(history(length), "Content-Type: application/json"))
        crossed.append(server.serve())
        relayed = agent.read_response()
        assert relayed.body == b"answer"
        assert relayed.names() == {"content-length"}
    assert server.server.at_model == [history(length) for length in range(1, 6)]
    assert {request.values("content-type")[0] for request in crossed[1:]} == {"application/vnd.history-delta"}
    assert all(len(request.body) < 700 for request in crossed)
    logged = [speaking_shim.next_logged() for _ in range(5)]
    assert [record["kind"] for record in logged] == ["self-contained", *["delta"] * 4]
    assert [record["delivery"] for record in logged] == [r.values("history-delta-delivery")[0] for r in crossed]
    assert [record["sent_bytes"] for record in logged] == [len(request.body) for request in crossed]
    assert [record["body_bytes"] for record in logged] == [len(history(length)) for length in range(1, 6)]


def test_the_shim_names_one_rollout_for_all_calls_without_a_prefix(agent, server):
    rollouts = set()
    for length in (1, 2):
        agent.send(post(history(length)))
        rollouts.add(server.serve().values("history-delta-rollout")[0])
        agent.read_response()
    assert len(rollouts) == 1


def test_the_rollout_that_was_given_is_named(start_shim, upstream, server):
    env = {"HISTORY_DELTA_ENABLED": "1", "HISTORY_DELTA_ROLLOUT": "r-1"}
    start_shim("--upstream", upstream.origin, env=env).agent().send(post(history(1)))
    assert server.serve().values("history-delta-rollout") == ["r-1"]


def test_a_resync_is_answered_by_the_whole_body_and_the_agent_sees_none(agent, speaking_shim, server):
    agent.send(post(history(1)))
    server.serve()
    agent.read_response()
    server.server.forget_everything()
    agent.send(post(history(2)))
    assert server.serve().body != history(2)
    assert server.serve().body == history(2)
    relayed = agent.read_response()
    assert (relayed.line[0], relayed.body) == (200, b"answer")
    assert server.server.at_model == [history(1), history(2)]
    assert [speaking_shim.next_logged()["resynced"] for _ in range(2)] == [False, True]


def test_a_second_resync_is_refused_with_a_503(agent, server):
    resync = answer(b"{}", "History-Delta-Version: 1", "History-Delta-Resync: mismatch", status="409 Conflict")
    agent.send(post(history(1)))
    assert server.read().line[0] == "GET"
    server.send(answer(CAPABILITIES))
    for _ in range(2):
        server.read()
        server.send(resync)
    refused = agent.read_response()
    assert refused.line[0] == 503
    assert refused.values("retry-after") == ["1"]
    assert json.loads(refused.body)["error"]["code"] == "history_delta_unavailable"


def test_a_conflict_of_the_models_own_is_relayed(agent, server):
    agent.send(post(history(1)))
    assert server.read().line[0] == "GET"
    server.send(answer(CAPABILITIES))
    server.read()
    server.send(answer(b"mine", "History-Delta-Version: 1", status="409 Conflict"))
    relayed = agent.read_response()
    assert (relayed.line[0], relayed.body) == (409, b"mine")


def test_a_resync_whose_body_does_not_end_costs_its_connection_only(agent, upstream, server):
    agent.send(post(history(1)))
    assert server.read().line[0] == "GET"
    server.send(answer(CAPABILITIES))
    server.read()
    server.send(stream("History-Delta-Version: 1", "History-Delta-Resync: mismatch").replace(b"200 OK", b"409 No"))
    again = upstream.accept()
    assert again.read_request().body == history(1)
    again.send(answer(b"r"))
    assert agent.read_response().body == b"r"


def test_a_plain_model_gets_whole_bodies_and_no_frame(agent, speaking_shim, server):
    for length in (1, 2, 3):
        agent.send(post(history(length)))
        received = server.read()
        if length == 1:
            assert received.line == ("GET", "/v1/.well-known/history-delta")
            server.send(answer(b"what?", status="404 Not Found"))
            received = server.read()
        assert received.body == history(length)
        server.send(answer(b"r"))
        assert agent.read_response().body == b"r"
        assert speaking_shim.next_logged()["reason"] == "peer-does-not-speak"


def test_a_model_that_took_the_servers_place_gets_the_whole_body_at_once(agent, server):
    agent.send(post(history(1)))
    server.serve()
    agent.read_response()
    agent.send(post(history(2)))
    assert server.read().values("content-type") == ["application/vnd.history-delta"]
    server.send(answer(b"cannot read that", status="400 Bad Request"))
    assert server.read().body == history(2)
    server.send(answer(b"r"))
    relayed = agent.read_response()
    assert (relayed.line[0], relayed.body) == (200, b"r")


def test_a_failure_of_the_core_costs_the_saving_and_not_the_call(start_shim, upstream):
    breaking = "import history_delta_shim.core as c; c.Core.start = lambda *a: 1 / 0; "
    shim = start_shim("--upstream", upstream.origin, before=breaking)
    in_chunks = head(f"POST {CHAT} HTTP/1.1", "Host: a", "Transfer-Encoding: chunked") + chunk(b"{}") + END
    for request in (post(b"{}"), in_chunks):
        received, relayed = exchange(shim.agent(), upstream, request, answer(b"r", "Connection: close"))
        assert (received.body, relayed.body) == (b"{}", b"r")
    assert shim.next_logged("core-failed")["error"].startswith("ZeroDivisionError at exchange.py")


def test_a_failure_of_the_core_after_the_answer_does_not_lose_it(start_shim, upstream):
    breaking = "import history_delta_shim.core as c; c.ModelCall.answered = lambda *a: 1 / 0; "
    shim = start_shim("--upstream", upstream.origin, before=breaking)
    _, relayed = exchange(shim.agent(), upstream, post(b"{}"), answer(b"r", "Connection: close"))
    assert (relayed.line[0], relayed.body) == (200, b"r")
    assert shim.next_logged("core-failed")["error"].startswith("ZeroDivisionError at exchange.py")


def test_a_log_that_nobody_reads_stops_no_call(start_shim, upstream):
    shim = start_shim("--upstream", upstream.origin, "--log-file", "-")  # standard error, a pipe
    agent = shim.agent()
    calls = 400  # more than the pipe takes lines of
    for number in range(calls):
        agent.send(get("/v1/models"))
        if number == 0:
            peer = upstream.accept()
        peer.read_request()
        peer.send(answer(b"%d" % number))
        assert agent.read_response().body == b"%d" % number
    shim.process.terminate()
    lines = [json.loads(line) for line in shim.process.stderr]
    assert 0 < sum(line["event"] == "call" for line in lines) < calls


def test_a_path_is_logged_as_far_as_a_log_takes_it(shim, upstream):
    exchange(shim.agent(), upstream, get("/" + "p" * 5000), answer(b"{}"))
    assert shim.next_logged()["path"] == "/" + "p" * 199


class TestABodyThatIsNotHeld:
    """Its call has a name, so that a server knows it as it knows every other."""

    SIZE = 33 * MIB

    def test_its_call_is_named(self, speaking_shim, upstream):
        agent = speaking_shim.agent()
        agent.send(head(f"POST {CHAT} HTTP/1.1", "Host: a", "History-Delta-X: 1", f"Content-Length: {self.SIZE}"))
        peer = upstream.accept()
        request = peer.read_request_head()
        logged_of = {"full": request.values("history-delta-full"), "version": request.values("history-delta-version")}
        assert logged_of == {"full": ["too-large"], "version": ["1"]}
        assert request.values("history-delta-rollout")
        assert not request.values("history-delta-x")
        assert request.values("content-length") == [str(self.SIZE)]
        peer.send(answer(b"{}", "History-Delta-Version: 1", "History-Delta-Held: 1 x", "Connection: close"))
        assert agent.read_response().names() == {"content-length", "connection"}
        logged = speaking_shim.next_logged()
        assert [logged["delivery"]] == request.values("history-delta-delivery")
        assert (logged["kind"], logged["reason"]) == ("full", "too-large")

    def test_one_for_which_others_leave_no_room_is_told_apart(self, speaking_shim, upstream):
        waiting = [speaking_shim.agent() for _ in range(2)]
        for agent in waiting:
            agent.send(head(f"POST {CHAT} HTTP/1.1", "Host: a", f"Content-Length: {30 * MIB}", "Expect: 100-continue"))
            agent.receive_until(b"\r\n\r\n")
            agent.send(b"x")
        agent = speaking_shim.agent()
        agent.send(head(f"POST /ng-rollout/r1{CHAT} HTTP/1.1", "Host: a", f"Content-Length: {5 * MIB}") + b"x")
        peer = upstream.accept()
        request = peer.read_request_head()
        assert request.values("history-delta-full") == ["too-large"]
        assert not request.values("history-delta-rollout")  # the path names it
        peer.send(answer(b"{}", "Connection: close"))
        assert agent.read_response().body == b"{}"
        assert speaking_shim.next_logged()["reason"] == "over-memory-budget"

    def test_a_resync_of_it_is_refused(self, speaking_shim, upstream):
        agent = speaking_shim.agent()
        agent.send(head(f"POST {CHAT} HTTP/1.1", "Host: a", f"Content-Length: {self.SIZE}"))
        peer = upstream.accept()
        peer.read_request_head()
        peer.send(answer(b"{}", "History-Delta-Version: 1", "History-Delta-Resync: base", status="409 Conflict"))
        assert agent.read_response().line[0] == 503

    def test_without_the_protocol_it_has_none(self, shim, upstream):
        agent = shim.agent()
        agent.send(head(f"POST {CHAT} HTTP/1.1", "Host: a", f"Content-Length: {self.SIZE}"))
        peer = upstream.accept()
        assert peer.read_request_head().names() == {"host", "content-length"}
        peer.send(answer(b"{}", "Connection: close"))
        agent.read_response()
        assert shim.next_logged()["kind"] == "pass-through"


def test_a_held_body_stands_in_memory_once(shim, upstream):
    size = 30 * MIB
    agent = shim.agent()
    agent.send(post(b"{}"))
    peer = upstream.accept()
    peer.read_request()
    before = shim.resident_bytes()
    peer.send(answer(b"{}", "Connection: close"))
    agent.read_response()
    agent.send(post(b"x" * size))
    peer = upstream.accept()
    received = peer.read_request()
    assert len(received.body) == size
    assert shim.resident_bytes() - before < 1.5 * size
    peer.send(answer(b"{}"))
    assert agent.read_response().body == b"{}"
