# SPDX-License-Identifier: Apache-2.0
"""How a request gets to the upstream, and what happens where it does not."""

import pytest
from support.http_text import CHAT, answer, get, head, post, stream

MIB = 1024 * 1024
BIG = b"x" * (8 * MIB)  # more than the sockets between agent and upstream take up


def test_a_connection_is_used_again(shim, upstream):
    agent = shim.agent()
    agent.send(post(b"1"))
    peer = upstream.accept()
    for number in (b"1", b"2", b"3"):
        assert peer.read_request().body == number
        peer.send(answer(b"r" + number))
        assert agent.read_response().body == b"r" + number
        agent.send(post(b"%d" % (int(number) + 1)))


def test_another_agents_call_uses_it_again_too(shim, upstream):
    first = shim.agent()
    first.send(post(b"1"))
    peer = upstream.accept()
    peer.read_request()
    peer.send(answer(b"r1"))
    assert first.read_response().body == b"r1"
    shim.next_logged()
    shim.agent().send(post(b"2"))
    assert peer.read_request().body == b"2"


def test_concurrent_calls_never_share_a_connection(shim, upstream):
    first, second = shim.agent(), shim.agent()
    first.send(post(b"first"))
    first_peer = upstream.accept()
    assert first_peer.read_request().body == b"first"
    first_peer.send(stream())  # begun, and held open
    assert first.read_response_head("POST").line[0] == 200
    second.send(post(b"second"))
    second_peer = upstream.accept()
    assert second_peer.read_request().body == b"second"
    second_peer.send(answer(b"to the second"))
    assert second.read_response().body == b"to the second"
    first_peer.send(b"5\r\nfirst\r\n0\r\n\r\n")
    assert first.next_data() == b"first"
    assert first.next_data() is None


@pytest.mark.parametrize(
    "response",
    [
        answer(b"r", "Connection: close"),
        answer(b"r") + b"HTTP/1.1 200 OK\r\n",  # bytes that nobody asked for
        head("HTTP/1.0 200 OK", "Content-Length: 1") + b"r",
    ],
)
def test_a_connection_that_will_not_stay_in_order_is_not_used_again(shim, upstream, response):
    agent = shim.agent()
    agent.send(post(b"1"))
    peer = upstream.accept()
    peer.read_request()
    peer.send(response)
    assert agent.read_response().body == b"r"
    assert peer.is_ended()
    agent.send(post(b"2"))
    assert upstream.accept().read_request().body == b"2"


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_connection_that_died_while_idle_is_seen_before_it_is_used(shim, upstream, how):
    agent = shim.agent()
    agent.send(post(b"1"))
    peer = upstream.accept()
    peer.read_request()
    peer.send(answer(b"r1"))
    agent.read_response()
    shim.next_logged()
    getattr(peer, how)()
    agent.send(post(b"2"))
    again = upstream.accept()
    assert again.read_request().body == b"2"
    again.send(answer(b"r2"))
    assert agent.read_response().body == b"r2"


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("send", [lambda agent: agent.send(post(b"{}")), lambda agent: agent.send(get("/v1/models"))])
def test_what_may_have_been_acted_on_is_not_sent_again(shim, upstream, how, send):
    agent = shim.agent()
    send(agent)
    peer = upstream.accept()
    peer.read_request()
    getattr(peer, how)()
    data, was_reset = agent.receive_all()
    assert (data, was_reset) == (b"", True)
    assert not upstream.has_caller()
    assert shim.next_logged()["outcome"] == "broken"


@pytest.mark.parametrize(
    "response",
    [
        b"nonsense\r\n\r\n",
        head("HTTP/1.1 101 Switching Protocols", "Upgrade: x"),
        head("HTTP/1.1 200 OK", "Content-Length: 1", "Content-Length: 2"),
        head("HTTP/1.1 200 OK", "X: " + "y" * 70000),
    ],
)
def test_a_response_that_makes_no_sense_is_a_broken_one(shim, upstream, response):
    agent = shim.agent()
    agent.send(post(b"{}"))
    peer = upstream.accept()
    peer.read_request()
    peer.send(response)
    assert agent.receive_all() == (b"", True)
    assert not upstream.has_caller()


def test_an_answer_before_the_request_is_complete_is_relayed(shim, upstream):
    agent = shim.agent()
    agent.send(head(f"POST {CHAT} HTTP/1.1", "Host: a", f"Content-Length: {len(BIG)}"))
    agent.send(BIG)
    peer = upstream.accept()
    peer.read_request_head()
    peer.send(answer(b"too much", status="413 Too Large"))
    relayed = agent.read_response()
    assert (relayed.line[0], relayed.body) == (413, b"too much")
    peer.receive_all()
    agent.send(post(b"2"))
    assert upstream.accept().read_request().body == b"2"


def test_an_answer_and_a_close_before_the_request_is_complete_are_relayed(shim, upstream):
    agent = shim.agent()
    agent.send(head("POST /v1/files HTTP/1.1", "Host: a", f"Content-Length: {len(BIG)}") + b"x")
    peer = upstream.accept()
    peer.read_request_head()
    peer.send(answer(b"no", "Connection: close", status="401 Unauthorized"))
    peer.close()
    relayed = agent.read_response()
    assert (relayed.line[0], relayed.body) == (401, b"no")
    assert agent.receive() == b""


def test_a_big_body_arrives_whole(shim, upstream):
    agent = shim.agent()
    for number in range(3):
        agent.send(post(BIG[number:]))
        if number == 0:
            peer = upstream.accept()
        assert peer.read_request().body == BIG[number:]
        peer.send(answer(b"r"))
        assert agent.read_response().body == b"r"


def test_informational_responses_pass_but_for_100(shim, upstream):
    agent = shim.agent()
    agent.send(post(b"{}"))
    peer = upstream.accept()
    peer.read_request()
    peer.send(head("HTTP/1.1 100 Continue") + head("HTTP/1.1 103 Early Hints", "Link: </x>", "History-Delta-X: 1"))
    assert agent.receive_until(b"\r\n\r\n") == b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    peer.send(answer(b"r"))
    assert agent.read_response().body == b"r"


@pytest.mark.parametrize("target", [CHAT, "/v1/files"])
@pytest.mark.parametrize("interim", ["100 Continue", "103 Early Hints"])
def test_an_informational_response_stops_no_upload(shim, upstream, target, interim):
    agent = shim.agent()
    whole = target == CHAT  # such a body goes upstream once it is complete, another one as it comes
    agent.send(head(f"POST {target} HTTP/1.1", "Host: a", f"Content-Length: {len(BIG)}") + (BIG if whole else b"x"))
    peer = upstream.accept()
    peer.read_request_head()
    peer.send(head(f"HTTP/1.1 {interim}"))
    agent.send(b"" if whole else BIG[1:])
    received = b""
    while data := peer.next_data():
        received += data
    assert received == BIG
    peer.send(answer(b"r"))
    if interim.startswith("103"):
        assert agent.receive_until(b"\r\n\r\n") == b"HTTP/1.1 103 Early Hints\r\n\r\n"
    assert agent.read_response().body == b"r"
    agent.send(post(b"2"))
    assert peer.read_request().body == b"2"  # the connection is in order


def test_an_old_agent_gets_no_informational_response(shim, upstream):
    agent = shim.agent()
    agent.send(head("GET /v1/models HTTP/1.0"))
    peer = upstream.accept()
    peer.read_request()
    peer.send(head("HTTP/1.1 103 Early Hints") + answer(b"r"))
    assert agent.receive_until(b"\r\n").startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("how", ["close", "reset", "end"])
def test_an_agent_that_leaves_before_the_response_cancels_the_call(shim, upstream, how):
    agent = shim.agent()
    agent.send(post(b"{}"))
    peer = upstream.accept()
    peer.read_request()
    getattr(agent, how)()
    assert peer.is_ended()
    assert shim.next_logged()["outcome"] == "agent-left"


def test_an_agent_that_leaves_behind_pipelined_bytes_cancels_too(shim, upstream):
    agent = shim.agent()
    agent.send(post(b"{}"))
    peer = upstream.accept()
    peer.read_request()
    agent.send(post(b"next"))
    agent.close()
    assert peer.is_ended()


def test_an_agent_that_leaves_while_a_big_body_is_stuck_cancels_too(shim, upstream):
    agent = shim.agent()
    agent.send(post(BIG))
    peer = upstream.accept()
    peer.read_request_head()  # and no more of it
    agent.close()
    assert shim.next_logged()["outcome"] == "agent-left"
    peer.receive_all()
    assert not upstream.has_caller()
