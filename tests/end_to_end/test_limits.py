# SPDX-License-Identifier: Apache-2.0
"""Where a limit lies, through both ends: what is over one is refused in words that name it, or passed on unheld."""

import gzip
import json
import os
import threading

import pytest
from history_delta_protocol.wire import FRAME_MEDIA_TYPE
from support.conversation import DIALECTS, Conversation, new_rollout, receive
from support.endpoints import PATIENCE, Endpoint, ListeningEndpoint
from support.model_server import head
from support.watched_wire import FRAME, FULL

MIB = 1024 * 1024
IN_FLIGHT = 32


def noise(size: int) -> bytes:
    """A message that cannot be compressed below half of it."""
    return b'"' + os.urandom(size // 2).hex().encode() + b'"'


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("more", [0, 3 * MIB], ids=["small", "large"])
def test_one_call_more_than_may_be_in_flight_is_told_to_come_again(way, dialect, more):
    """Also where its body is still under way when it is refused."""
    conversation = Conversation(DIALECTS[dialect])
    waiting = [way.call(conversation) for _ in range(IN_FLIGHT)]
    extra = Conversation(DIALECTS[dialect], rollout=conversation.rollout)
    extra.say(noise(more))
    agent = way.shim.agent()
    agent.send(extra.request())
    refused = receive(agent)
    assert (refused.status, refused.message.values("Retry-After"), refused.ended) == (429, ["1"], True)
    error = json.loads(refused.body)
    assert (error.get("type") == "error") is (dialect == "messages")
    assert error["error"]["code"] == "history_delta_busy"
    assert "max_calls_in_flight" in error["error"]["message"]
    assert str(IN_FLIGHT) in error["error"]["message"]
    for held, call in waiting:
        call.respond(b"{}")
        assert receive(held).body == b"{}"
    ran = len(way.model.calls)
    extra.turn()
    way.succeed(extra)
    extra.turn()
    way.succeed(extra)
    assert way.model.bodies[ran:] == extra.sent[1:]


def test_another_rollout_is_not_held_up(way):
    crowd = Conversation()
    waiting = [way.call(crowd) for _ in range(IN_FLIGHT)]
    way.succeed(Conversation())
    for agent, call in waiting:
        call.respond(b"{}")
        agent.close()


@pytest.mark.parametrize(("size", "kinds"), [(20 * MIB, [FRAME, FRAME]), (33 * MIB, [FULL, FULL])])
def test_a_large_body_passes_in_full_or_as_what_is_new_of_it(way, size, kinds):
    """Beyond what either end holds of a body there is no delta, and no error."""
    conversation = Conversation(DIALECTS["responses"])
    conversation.say(noise(size))
    ran, crossed = len(way.model.calls), len(way.wire.kinds)
    way.succeed(conversation)
    conversation.turn()
    way.succeed(conversation)
    assert way.model.bodies[ran:] == conversation.sent
    assert way.wire.kinds[crossed:] == kinds


def test_a_model_that_refuses_a_large_body_by_its_head_is_heard(start):
    """It closes with the body unread, which resets what is still being sent to it."""
    model = ListeningEndpoint()
    shim = start.shim(start.server(model).origin)
    conversation = Conversation()
    conversation.say(noise(8 * MIB))
    agent = shim.agent()
    sending = threading.Thread(target=agent.send, args=(conversation.request(),), daemon=True)
    sending.start()
    at_model = model.accept()
    at_model.read_request_head()
    at_model.send(head("HTTP/1.1 413 Too Large", "Content-Length: 4", "Connection: close") + b"long")
    at_model.close()
    received = receive(agent)
    assert (received.status, received.body, received.ended) == (413, b"long", True)
    sending.join()
    model.close()


# --- bombs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bomb() -> bytes:
    """A gzip member of some 200 kB that stands for 192 MiB."""
    return gzip.compress(bytes(192 * MIB), 6)


def send_frame(agent: Endpoint, rollout: str, frame: bytes) -> None:
    ours = ("History-Delta-Version: 1", f"Content-Type: {FRAME_MEDIA_TYPE}", "Content-Encoding: gzip")
    lines = (f"POST /ng-rollout/{rollout}/v1/chat/completions HTTP/1.1", "Host: server", *ours)
    agent.send(head(*lines, f"Content-Length: {len(frame)}") + frame)


def test_a_frame_that_unpacks_to_more_than_a_body_may_have_is_refused_while_it_unpacks(start, bomb):
    server = start.server(start.model(), max_body_bytes=4 * MIB)
    agents = [server.agent() for _ in range(8)]
    server.forget_peak()
    before = server.resident_bytes()
    for agent in agents:
        send_frame(agent, "r1", bomb)
    for agent in agents:
        refused = receive(agent)
        assert refused.status == 413
        assert "max_body_bytes" in json.loads(refused.body)["error"]["message"]
    assert server.resident_bytes(peak=True) - before < 64 * MIB


def test_frames_that_unpack_together_are_bounded_together(start, bomb):
    """Each of them is within the limit on a body. What is over that on all of a rollout is told to come again."""
    server = start.server(start.model())
    alone = server.agent()
    server.forget_peak()
    send_frame(alone, "r1", bomb)
    assert receive(alone).status == 413  # its line has no end
    one = server.resident_bytes(peak=True)
    agents = [server.agent() for _ in range(8)]
    for agent in agents:
        send_frame(agent, "r1", bomb)
    statuses = [receive(agent).status for agent in agents]
    assert set(statuses) <= {413, 429}
    assert 429 in statuses
    assert server.resident_bytes(peak=True) - one < 160 * MIB


# --- what two could read differently ----------------------------------------------------------------------------------

POST = "POST /ng-rollout/r1/v1/chat/completions HTTP/1.1"
CHUNKED = "Transfer-Encoding: chunked"
SMUGGLED = b"POST /smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
AMBIGUOUS = {
    "a length beside chunks": head(POST, "Host: a", "Content-Length: 5", CHUNKED) + LAST_CHUNK,
    "chunks beside a length": head(POST, "Host: a", CHUNKED, "Content-Length: 5") + LAST_CHUNK,
    "two lengths": head(POST, "Host: a", "Content-Length: 0", "Content-Length: 5") + b"hello",
    "one length twice": head(POST, "Host: a", "Content-Length: 5", "Content-Length: 5") + b"hello",
    "a list of lengths": head(POST, "Host: a", "Content-Length: 5, 5") + b"hello",
    "a signed length": head(POST, "Host: a", "Content-Length: +5") + b"hello",
    "a negative length": head(POST, "Host: a", "Content-Length: -5") + b"hello",
    "a length in hex": head(POST, "Host: a", "Content-Length: 0x5") + b"hello",
    "a length with an underscore": head(POST, "Host: a", "Content-Length: 0_5") + b"hello",
    "an empty length": head(POST, "Host: a", "Content-Length:"),
    "a length that overflows": head(POST, "Host: a", "Content-Length: 18446744073709551621") + b"hello",
    "chunks twice": head(POST, "Host: a", CHUNKED, CHUNKED) + LAST_CHUNK,
    "chunked among others": head(POST, "Host: a", "Transfer-Encoding: gzip, chunked") + LAST_CHUNK,
    "chunked before others": head(POST, "Host: a", "Transfer-Encoding: chunked, identity") + LAST_CHUNK,
    "nearly chunked": head(POST, "Host: a", "Transfer-Encoding: xchunked") + LAST_CHUNK,
    "chunked behind a vertical tab": head(POST, "Host: a", "Transfer-Encoding: \x0bchunked") + LAST_CHUNK,
    "chunks in HTTP/1.0": head(POST.replace("1.1", "1.0"), "Host: a", CHUNKED) + LAST_CHUNK,
    "a space before the colon": head(POST, "Host: a", "Transfer-Encoding : chunked") + LAST_CHUNK,
    "a folded header": head(POST, "Host: a", "Transfer-Encoding:", " chunked") + LAST_CHUNK,
    "bare line feeds": head(POST, "Host: a", "Content-Length: 0").replace(b"\r\n", b"\n"),
    "one bare line feed": head(POST, "Host: a\nContent-Length: 5") + b"hello",
    "a bare carriage return": head(POST, "Host: a", "X: a\rContent-Length: 5") + b"hello",
    "a zero byte": head(POST, "Host: a", "X: a\0b", "Content-Length: 0"),
    "a space in a name": head(POST, "Host: a", "Content-Length 5: 1", "Content-Length: 0"),
    "no name": head(POST, "Host: a", ": a", "Content-Length: 0"),
    "two hosts": head(POST, "Host: a", "Host: b", "Content-Length: 0"),
    "no host": head(POST, "Content-Length: 0"),
    "another version": head(POST.replace("1.1", "2.0"), "Host: a", "Content-Length: 0"),
    "no version": b"POST /ng-rollout/r1/v1/chat/completions\r\n\r\n",
    "a chunk in hex with a prefix": head(POST, "Host: a", CHUNKED) + b"0x3\r\nabc\r\n" + LAST_CHUNK,
    "a signed chunk": head(POST, "Host: a", CHUNKED) + b"+3\r\nabc\r\n" + LAST_CHUNK,
    "a chunk that overflows": head(POST, "Host: a", CHUNKED) + b"10000000000000003\r\nabc\r\n" + LAST_CHUNK,
    "a chunk that is longer than it says": head(POST, "Host: a", CHUNKED) + b"3\r\nabcd\r\n" + LAST_CHUNK,
    "a line feed behind a chunk's size": head(POST, "Host: a", CHUNKED) + b"3\nabc\r\n" + LAST_CHUNK,
    "a line feed behind a chunk": head(POST, "Host: a", CHUNKED) + b"3\r\nabc\n" + LAST_CHUNK,
    "a line feed in an extension": head(POST, "Host: a", CHUNKED) + b"3;a\nb\r\nabc\r\n" + LAST_CHUNK,
    "a folded trailer": head(POST, "Host: a", CHUNKED) + b"0\r\nX: a\r\n b\r\n\r\n",
    "a line too long": head("POST /" + 70_000 * "a" + "/v1/chat/completions HTTP/1.1", "Host: a", "Content-Length: 0"),
    "a field too long": head(POST, "Host: a", "X: " + 70_000 * "a", "Content-Length: 0"),
}


@pytest.mark.parametrize("end", ["shim", "server"])
@pytest.mark.parametrize("request_", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
def test_what_two_could_read_differently_is_refused_and_nothing_behind_it_is_read(way, end, request_):
    agent = getattr(way, end).agent()
    agent.send(request_ + SMUGGLED)
    refused, _ = agent.receive_all()
    [status_line, *more] = [line for line in refused.split(b"\r\n") if line.startswith(b"HTTP/")]
    assert more == []
    assert int(status_line.split(b" ")[1]) in (400, 414, 431, 501, 505)
    conversation = Conversation(rollout=new_rollout())
    agent, call = way.call(conversation)
    # The first that reaches the model since then: neither that one did, nor what stood behind it.
    assert call.body == conversation.sent[0]
    call.respond(b"{}")
    agent.close()


# --- what is held and what is under way -------------------------------------------------------------------------------


def test_a_server_that_can_hold_too_little_of_a_rollout_costs_full_sends_and_no_errors(start):
    way = start.way(max_rollout_history_bytes=6000)
    conversation = Conversation()
    for _ in range(20):
        way.succeed(conversation)
        conversation.turn()
    assert way.model.bodies == conversation.sent
    assert len(way.wire.kinds) <= 20 + 6  # at most a refused frame before some of the full sends


def test_rollouts_that_push_each_other_out_cost_full_sends_and_no_errors(start):
    """One after another, more of them than can be held: whichever comes next was pushed out longest ago."""
    way = start.way(max_history_bytes=30_000)
    conversations = [Conversation() for _ in range(8)]
    for _ in range(8):
        for conversation in conversations:
            way.succeed(conversation)
            conversation.turn()
    for number, conversation in enumerate(conversations):
        assert way.model.bodies[number::8] == conversation.sent
        logged = way.shim.logged_on(conversation.path, 8)
        assert {call["status"] for call in logged} == {200}
        assert sum(call["resynced"] for call in logged) <= 3
    # What a call under way adds is looked at with the next one.
    assert way.server.metric("histories_bytes") <= 30_000 + 10_000


@pytest.mark.parametrize("through", ["shim", "server"])
def test_an_agent_that_does_not_read_holds_its_model_back_and_loses_nothing(way, through):
    """What is under way of an answer is bounded at both ends, however much there is of it."""
    agent = getattr(way, through).agent()
    agent.send(Conversation(streamed=True).request())
    call = way.model.next_call()
    before = [end.resident_bytes() for end in (way.server, way.shim)]
    call.stream("Content-Type: text/event-stream")
    held_back = threading.Event()
    # Small enough to be taken at once where anything is, and together more than the system's buffers on the way.
    pieces = [bytes([number % 251]) * 16_384 for number in range(8000)]

    def play() -> None:
        for piece in pieces:
            while not call.can_send():
                held_back.set()
            call.chunk(piece)
        call.end()

    model = threading.Thread(target=play, daemon=True)
    model.start()
    assert held_back.wait(PATIENCE), "nothing held the model back"
    for end, resident in zip((way.server, way.shim), before, strict=True):
        assert end.resident_bytes() - resident < 24 * MIB
    received = receive(agent)
    model.join(PATIENCE)
    assert received.ended
    assert received.body == b"".join(pieces)
    agent.close()
