# SPDX-License-Identifier: Apache-2.0
"""How a response gets to the agent: as it comes, and broken where it is broken."""

import collections
import itertools
import shutil
import subprocess
import threading

import h11
import httpx
import pytest
from support.http_text import CHAT, END, answer, chunk, get, head, post, stream
from support.needs import needs


@pytest.fixture
def call(shim, upstream):
    """An agent and an upstream with a request between them."""
    agent = shim.agent()
    agent.send(post(b"{}"))
    peer = upstream.accept()
    peer.read_request()
    return agent, peer


def test_a_stream_arrives_event_by_event(call):
    agent, peer = call
    peer.send(stream())
    relayed = agent.read_response_head("POST")
    assert relayed.values("transfer-encoding") == ["chunked"]
    for number in range(20):
        event = b"data: %d\n\n" % number
        peer.send(chunk(event))
        assert agent.next_data() == event  # before the next one has been produced
    peer.send(END)
    assert agent.next_data() is None


def test_a_piece_of_a_chunk_is_not_held_back(call):
    agent, peer = call
    peer.send(stream() + b"a\r\nda")
    agent.read_response_head("POST")
    assert agent.next_data() == b"da"


def test_trailers_arrive_without_those_that_are_ours(call):
    agent, peer = call
    peer.send(stream("Trailer: X-Sum") + chunk(b"a") + b"0\r\nX-Sum: 1\r\nHistory-Delta-Held: 1 x\r\nHost: h\r\n\r\n")
    relayed = agent.read_response()
    assert relayed.trailers == [("x-sum", "1")]


def test_a_length_stays_a_length_and_comes_in_pieces(call):
    agent, peer = call
    peer.send(head("HTTP/1.1 200 OK", "Content-Length: 6") + b"one")
    relayed = agent.read_response_head("POST")
    assert relayed.values("content-length") == ["6"]
    assert agent.next_data() == b"one"
    peer.send(b"two")
    assert agent.next_data() == b"two"
    assert agent.next_data() is None


def test_a_body_up_to_the_end_of_its_connection_becomes_chunks(call):
    agent, peer = call
    peer.send(head("HTTP/1.1 200 OK", "Content-Type: text/plain") + b"one")
    relayed = agent.read_response_head("POST")
    assert relayed.headers == [("Content-Type", "text/plain"), ("Transfer-Encoding", "chunked")]
    assert agent.next_data() == b"one"
    peer.send(b"two")
    assert agent.next_data() == b"two"
    peer.close()
    assert agent.next_data() is None


def test_an_old_agent_gets_it_to_the_end_of_its_own(shim, upstream):
    agent = shim.agent()
    agent.send(head("GET /v1/models HTTP/1.0"))
    peer = upstream.accept()
    peer.read_request()
    peer.send(head("HTTP/1.0 200 OK", "Content-Type: text/plain") + b"one")
    peer.close()
    assert agent.receive_all() == (
        head("HTTP/1.1 200 OK", "Content-Type: text/plain", "Connection: close") + b"one",
        False,
    )


@pytest.mark.parametrize("how", ["close", "reset", "nonsense"])
def test_a_broken_stream_is_cut_behind_all_that_came(call, how):
    agent, peer = call
    peer.send(stream() + chunk(b"one") + chunk(b"two"))
    received = agent.receive_until(b"two\r\n")
    if how == "nonsense":
        peer.send(chunk(b"three") + b"nonsense\r\n")
    else:
        getattr(peer, how)()
    rest, was_reset = agent.receive_all()
    assert received.endswith(b"\r\n\r\n" + chunk(b"one") + chunk(b"two")) or received.endswith(chunk(b"onetwo"))
    assert rest == (chunk(b"three") if how == "nonsense" else b"")
    assert not was_reset  # a reset could take bytes away that are still on their way


def test_a_short_body_is_cut_behind_all_that_came(call):
    agent, peer = call
    peer.send(head("HTTP/1.1 200 OK", "Content-Length: 6") + b"one")
    peer.close()
    data, was_reset = agent.receive_all()
    assert data.endswith(b"\r\n\r\none")
    assert not was_reset


def test_a_cut_is_seen_although_the_agent_has_pipelined(call):
    agent, peer = call
    agent.send(post(b"next"))
    peer.send(stream() + chunk(b"one"))
    peer.close()
    data, was_reset = agent.receive_all()
    assert data.endswith(chunk(b"one"))
    assert not was_reset


def test_a_broken_stream_to_an_old_agent_is_a_reset_behind_all_that_came(shim, upstream):
    agent = shim.agent()
    agent.send(head(f"POST {CHAT} HTTP/1.0", "Content-Length: 2") + b"{}")
    peer = upstream.accept()
    peer.read_request()
    data = b"x" * 100000
    peer.send(stream() + chunk(data))
    peer.close()
    received, was_reset = agent.receive_all()
    assert received.endswith(b"\r\n\r\n" + data)
    assert was_reset


def test_after_a_cut_the_next_call_works(shim, upstream, call):
    _, peer = call
    peer.send(stream() + chunk(b"one"))
    peer.close()
    assert shim.next_logged()["outcome"] == "broken"
    agent = shim.agent()
    agent.send(post(b"2"))
    again = upstream.accept()
    again.read_request()
    again.send(answer(b"r2"))
    assert agent.read_response().body == b"r2"


def test_an_agent_that_leaves_after_the_final_event_has_not_cancelled(shim, upstream, call):
    agent, peer = call
    peer.send(stream() + chunk(b"data: [DONE]\n\n"))
    agent.receive_until(b"[DONE]\n\n")
    agent.close()
    peer.send(END)
    assert shim.next_logged()["outcome"] == "complete"
    shim.agent().send(post(b"2"))
    assert peer.read_request().body == b"2"  # its connection has been kept


@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_agent_that_leaves_in_the_middle_cancels(shim, call, how):
    agent, peer = call
    peer.send(stream() + chunk(b"data: 1\n\n"))
    agent.receive_until(b"1\n\n")
    getattr(agent, how)()
    assert peer.is_ended()
    assert shim.next_logged()["outcome"] == "agent-left"


def test_an_agent_that_leaves_a_stream_that_goes_on_cancels_by_bytes(call):
    agent, peer = call
    peer.send(stream() + chunk(b"data: 1\n\n"))
    agent.receive_until(b"1\n\n")
    agent.close()
    endless = itertools.repeat(chunk(b"x" * 10000))
    with pytest.raises(ConnectionError):
        collections.deque(map(peer.send, endless), maxlen=0)


def test_a_slow_agent_holds_its_upstream_back_and_loses_nothing(shim, upstream, call):
    agent, peer = call
    peer.send(stream())
    piece = b"x" * 65536
    sender = threading.Thread(target=lambda: [peer.send(chunk(piece)) for _ in range(200)] and peer.send(END))
    sender.start()
    other = shim.agent()  # served meanwhile
    other.send(get("/v1/models"))
    second = upstream.accept()
    second.read_request()
    second.send(answer(b"[]"))
    assert other.read_response().body == b"[]"
    assert agent.read_response("POST").body == piece * 200
    sender.join()


def serve_once(upstream, response):
    """In another thread: answer one request with that, and reset the connection."""

    def serve():
        peer = upstream.accept()
        peer.read_request()
        peer.send(response)
        peer.reset()

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


BROKEN = {
    "chunked": stream() + chunk(b"data: 1\n\n"),
    "until close": head("HTTP/1.1 200 OK") + b"data: 1\n\n",
    "length": head("HTTP/1.1 200 OK", "Content-Length: 99") + b"data: 1\n\n",
}


@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN)
def test_h11_takes_a_cut_for_an_error(shim, upstream, response):
    thread = serve_once(upstream, response)
    agent = shim.agent()
    agent.send(post(b"{}"))
    agent.read_response_head("POST")
    assert agent.next_data() == b"data: 1\n\n"
    with pytest.raises(h11.RemoteProtocolError):
        agent.next_data()
    thread.join()


@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN)
def test_httpx_takes_a_cut_for_an_error_and_keeps_what_came(shim, upstream, response):
    thread = serve_once(upstream, response)
    received = []
    with httpx.Client(trust_env=False) as client, client.stream("POST", shim.ready["url"] + CHAT, content=b"{}") as got:
        with pytest.raises(httpx.RemoteProtocolError):
            received.extend(got.iter_raw())
        assert b"".join(received) == b"data: 1\n\n"
    thread.join()


FETCH = """
const received = [];
try {
  const response = await fetch(process.argv[1], {method: "POST", body: "{}"});
  for await (const piece of response.body) received.push(Buffer.from(piece));
  console.log("ended");
} catch (error) {
  console.log("failed " + (error.cause ?? error).code);
}
console.log(Buffer.concat(received).toString());
"""


def fetch(url):
    """What node's fetch (undici) makes of it: (how it ended, what it had received)."""
    node = shutil.which("node")
    needs(node, "node")
    ran = subprocess.run([node, "--input-type=module", "-e", FETCH, url], capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stderr
    ending, _, received = ran.stdout.partition("\n")
    return ending, received.strip()


@pytest.mark.parametrize("response", BROKEN.values(), ids=BROKEN)
def test_nodes_fetch_takes_a_cut_for_an_error_and_keeps_what_came(shim, upstream, response):
    thread = serve_once(upstream, response)
    assert fetch(shim.ready["url"] + CHAT) == ("failed UND_ERR_SOCKET", "data: 1")
    thread.join()


def test_nodes_fetch_takes_a_whole_response_for_one(shim, upstream):
    thread = serve_once(upstream, stream() + chunk(b"data: 1\n\n") + END)
    assert fetch(shim.ready["url"] + CHAT) == ("ended", "data: 1")
    thread.join()
