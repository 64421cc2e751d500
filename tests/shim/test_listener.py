# SPDX-License-Identifier: Apache-2.0
import json
import os
import socket
import time

import pytest
from history_delta_shim import listener
from support.endpoints import PATIENCE, connect
from support.http_text import CHAT, answer, get, head, post


def answer_next(peer, body):
    received = peer.read_request()
    peer.send(answer(body))
    return received


def test_pipelined_requests_are_answered_in_order(shim, upstream):
    agent = shim.agent()
    agent.send(post(b"1") + get("/v1/models") + post(b"3"))
    peer = upstream.accept()
    assert answer_next(peer, b"r1").body == b"1"
    assert answer_next(peer, b"r2").line == ("GET", "/v1/models")
    assert answer_next(peer, b"r3").body == b"3"
    assert [agent.read_response("POST").body for _ in range(3)] == [b"r1", b"r2", b"r3"]


def test_a_request_may_come_byte_by_byte(shim, upstream):
    agent = shim.agent()
    for byte in post(b"{}"):
        agent.send(bytes([byte]))
    assert answer_next(upstream.accept(), b"r").body == b"{}"
    assert agent.read_response().body == b"r"


@pytest.mark.parametrize("closing", [post(b"{}", "Connection: close"), head(f"POST {CHAT} HTTP/1.0")])
def test_an_agent_that_will_not_stay_is_not_kept(shim, upstream, closing):
    agent = shim.agent()
    agent.send(closing)
    answer_next(upstream.accept(), b"r")
    relayed = agent.read_response()
    assert relayed.values("connection") == ["close"]
    assert agent.receive() == b""


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n", 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"x" * 66000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 66000 + b"\r\n\r\n", 431),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ],
)
def test_a_malformed_request_is_refused_and_ends_the_connection(shim, upstream, raw, status):
    agent = shim.agent()
    agent.send(raw + get("/smuggled"))
    refused = agent.read_response()
    assert refused.line[0] == status
    error = json.loads(refused.body)["error"]
    assert error["code"] == "history_delta_invalid_request"
    assert status not in (414, 431) or "65536" in error["message"]
    assert agent.is_ended()
    assert not upstream.has_caller()
    assert shim.next_logged("malformed-request")["status"] == status


def test_a_malformed_request_behind_a_good_one_is_refused_in_its_turn(shim, upstream):
    agent = shim.agent()
    agent.send(post(b"1") + b"nonsense\r\n\r\n")
    answer_next(upstream.accept(), b"r1")
    assert agent.read_response("POST").body == b"r1"
    assert agent.read_response().line[0] == 400


def test_connections_that_say_nothing_hinder_nobody(shim, upstream):
    silent = [shim.agent() for _ in range(50)]
    silent[0].send(b"GET / HT")
    for other in silent[1:10]:
        other.close()
    agent = shim.agent()
    agent.send(post(b"1"))
    assert answer_next(upstream.accept(), b"r1").body == b"1"
    assert agent.read_response().body == b"r1"


def test_connections_beyond_the_limit_are_told_so_and_room_is_given_back(shim, upstream):
    silent = [shim.agent() for _ in range(listener.MAX_CONNECTIONS)]
    beyond = shim.agent()
    beyond.send(post(b"1"))
    refused = beyond.read_response()
    assert refused.line[0] == 503
    assert refused.values("retry-after") == ["1"]
    assert str(listener.MAX_CONNECTIONS) in json.loads(refused.body)["error"]["message"]
    for agent in silent:
        agent.close()
    status = 503
    while status == 503:  # until the shim has seen the others go
        agent = connect(shim.port)
        agent.send(head("OPTIONS * HTTP/1.1", "Host: a"))
        status = agent.read_response().line[0]
        agent.close()
    assert status == 400


def test_a_hundred_calls_at_once_are_not_mixed_up(shim, upstream):
    agents = [shim.agent() for _ in range(100)]
    for number, agent in enumerate(agents):
        agent.send(post(b"%d" % number))
    peers = [upstream.accept() for _ in agents]
    bodies = [peer.read_request().body for peer in peers]
    for peer, body in reversed(list(zip(peers, bodies, strict=True))):
        peer.send(answer(b"to " + body))
    assert [agent.read_response().body for agent in agents] == [b"to %d" % number for number in range(100)]


def test_connections_that_have_ended_leave_nothing_behind(shim, upstream):
    def held():
        process = f"/proc/{shim.process.pid}"
        return len(os.listdir(f"{process}/fd")), len(os.listdir(f"{process}/task"))

    def settled(expected):
        deadline = time.monotonic() + PATIENCE
        while (now := held()) != expected and time.monotonic() < deadline:
            time.sleep(0.005)
        return now

    before = held()
    for number in range(300):
        agent = connect(shim.port)
        agent.send([b"", b"GET /", b"nonsense\r\n\r\n", post(b"x" * 100)[:-1]][number % 4])
        agent.reset() if number % 3 else agent.close()
    for _ in range(20):
        agent = connect(shim.port)
        agent.send(post(b"{}"))
        upstream.accept().read_request()
        agent.close()
    assert settled(before) == before


def test_running_out_of_descriptors_is_survived(start_shim, upstream):
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32)); "
    shim = start_shim("--upstream", upstream.origin, before=few)
    agents = [shim.agent() for _ in range(60)]
    assert shim.next_logged("accept-failed")
    for agent in agents:
        agent.close()
    agent = shim.agent()
    agent.send(post(b"1"))
    answer_next(upstream.accept(), b"r1")
    assert agent.read_response().body == b"r1"


def test_an_address_that_is_taken_is_an_error():
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        listener.bind(*taken.getsockname())


def test_ipv6_can_be_listened_on():
    with listener.bind("::1", 0) as sock:
        assert sock.getsockname()[0] == "::1"
