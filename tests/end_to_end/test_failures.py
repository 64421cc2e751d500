# SPDX-License-Identifier: Apache-2.0
"""Every status and failure of a model through shim and server: what the agent sees of it, and the call after it.

Each test is one conversation of three calls: one that succeeds, the one in question, and the next. The model must have
received each of them once and to the byte, and what follows the first must have crossed the wire as what is new.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from support.conversation import DIALECTS, Conversation, receive
from support.endpoints import Endpoint
from support.model_server import ModelCall, head
from support.watched_wire import FRAME

JSON = "Content-Type: application/json"
EVENTS = "Content-Type: text/event-stream; charset=utf-8"
# What a model's server may send along; the third and fourth are a stranger's use of names that are not its own.
HEADERS = (
    "X-Request-Id: 1",
    "x-request-id: 2",
    "History-Delta-Held: 1 snILDNe5WQzLbCbwrZSeFNlCdCeTBXC27JpNXYLHe8U",
    "history-delta-resync: unknown-base",
    "Set-Cookie: a=1; Path=/",
    "Set-Cookie: b=2",
    "Server: a model",
)
PIECES = [b'data: {"id":"1"}\n\n', b'data: {"text":"\xc3\xa9\xe2\x80\xa8"}\n\n', b"data: [DONE]\n\n"]
DOCUMENT = b'{"error": {"message": "caf\xc3\xa9", "type": "some", "code": null, "param": 1e999}}\n'

FAILURES = ["400 Bad Request", "401 Unauthorized", "404 Not Found", "409 Conflict", "422 Unprocessable Content"]
FAILURES += ["500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "529 Overloaded By Its Own"]
STATUSES = [
    ("200 OK", ()),
    ("201 Created For Once", ()),
    *((status, ()) for status in FAILURES),
    ("429 Too Many Requests", ()),
    ("429 Too Many Requests", ("Retry-After: 7", "retry-after-ms: 6500")),
    ("503 Service Unavailable", ("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT",)),
    ("299", ()),
]


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture(params=DIALECTS)
def target(request: pytest.FixtureRequest) -> str:
    return DIALECTS[request.param]


@dataclass
class Turn:
    """The call in question: the agent that waits, and the model that is to do something about it."""

    conversation: Conversation
    agent: Endpoint
    call: ModelCall


@contextmanager
def second_turn(way, target: str, streamed: bool) -> Iterator[Turn]:
    """Before and after it, a turn that must work; at the end the whole conversation is held against what crossed."""
    conversation = Conversation(target, streamed)
    at_model, on_wire = len(way.model.calls), len(way.wire.kinds)
    way.succeed(conversation)
    conversation.turn()
    turn = Turn(conversation, *way.call(conversation))
    yield turn
    turn.agent.close()
    conversation.turn()
    way.succeed(conversation)
    assert way.model.bodies[at_model:] == conversation.sent
    kinds = way.wire.kinds[on_wire:]
    # The first goes out whole, packed into a frame; what is held of a call is held whatever became of it.
    assert kinds == [FRAME, FRAME, FRAME]
    logged = way.shim.logged_on(conversation.path, 3)
    assert sorted(call["kind"] for call in logged) == ["delta", "delta", "self-contained"]


def given(*headers: str) -> list[tuple[str, str]]:
    """What of a model's headers is the agent's to see."""
    return [
        (name, value)
        for name, _, value in (header.partition(": ") for header in headers)
        if not name.lower().startswith("history-delta-")
    ]


@pytest.mark.parametrize(("status", "more"), STATUSES, ids=lambda value: str(value)[:20] or "none")
def test_a_status_reaches_the_agent_with_its_headers_and_its_body_as_they_are(way, target, streamed, status, more):
    with second_turn(way, target, streamed) as turn:
        headers = (EVENTS if streamed else JSON, *HEADERS, *more)
        if streamed:
            turn.call.stream(*headers, status=status)
            for piece in PIECES:
                turn.call.chunk(piece)
            turn.call.end()
        else:
            turn.call.respond(DOCUMENT, *headers, status=status)
        received = receive(turn.agent)
        code, _, reason = status.partition(" ")
        assert received.message.line == (int(code), reason)
        assert received.headers() == given(*headers)
        assert received.body == (b"".join(PIECES) if streamed else DOCUMENT)
        assert received.ended
        framing = [("transfer-encoding", "chunked")] if streamed else [("content-length", str(len(DOCUMENT)))]
        sent = [(name.lower(), value) for name, value in received.message.headers]
        assert [pair for pair in sent if pair[0] in ("transfer-encoding", "content-length")] == framing


@pytest.mark.parametrize("status", ["200 OK", "429 Too Many Requests", "500 Internal Server Error"])
def test_the_same_agent_connection_carries_the_next_call(way, target, status):
    conversation = Conversation(target)
    agent, call = way.call(conversation)
    call.respond(DOCUMENT, JSON, status=status)
    assert receive(agent).body == DOCUMENT
    conversation.turn()
    way.succeed(conversation, agent)


@pytest.mark.parametrize("status", FAILURES)
def test_a_status_of_the_first_call_leaves_a_base_behind(way, status):
    conversation = Conversation()
    agent, call = way.call(conversation)
    call.respond(DOCUMENT, JSON, status=status)
    assert receive(agent).message.line[0] == int(status[:3])
    on_wire = len(way.wire.kinds)
    conversation.turn()
    way.succeed(conversation)
    assert way.wire.kinds[on_wire:] == [FRAME]
    assert [call["kind"] for call in way.shim.logged_on(conversation.path, 2)] == ["self-contained", "delta"]


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [ModelCall.reset, ModelCall.close], ids=["reset", "closed"])
def test_a_break_before_any_byte_is_an_error_that_says_so(way, target, streamed, end):
    with second_turn(way, target, streamed) as turn:
        end(turn.call)
        received = receive(turn.agent)
        assert received.status == 502
        assert b"127.0.0.1:%d" % way.model.port in received.body
        assert b"history_delta" in received.body


@pytest.mark.parametrize("end", [ModelCall.reset, ModelCall.close], ids=["reset", "closed"])
def test_a_stream_that_is_cut_is_cut_behind_the_same_byte(way, target, streamed, end):
    with second_turn(way, target, streamed) as turn:
        turn.call.stream(EVENTS)
        message = begin(turn, PIECES[:2])
        end(turn.call)
        assert_cut(turn.agent)
        assert message == b"".join(PIECES[:2])


def begin(turn: Turn, pieces: list[bytes]) -> bytes:
    """Have chunks sent and arrive: a reset overtakes what is still under way, at the model's own end already."""
    assert turn.agent.read_response_head("POST").line == (200, "OK")
    body = b""
    for piece in pieces:
        turn.call.chunk(piece)
        while len(body) < sum(map(len, pieces[: pieces.index(piece) + 1])):
            body += turn.agent.next_data()
    return body


def assert_cut(agent: Endpoint) -> None:
    """No end that HTTP takes for one, and an end of the connection in good order all the same."""
    rest, was_reset = agent.receive_all()
    assert (rest, was_reset) == (b"", False)


@pytest.mark.parametrize("cut", range(1, 8))
def test_a_stream_that_is_cut_within_a_chunk_gives_the_agent_all_that_came(way, cut):
    with second_turn(way, DIALECTS["chat"], True) as turn:
        turn.call.stream(EVENTS)
        turn.call.send(b"7\r\n1234567\r\n7\r\n1234567\r\n"[: 3 + 7 + 2 + 3 + cut])
        turn.call.close()
        received = receive(turn.agent)
        assert (received.body, received.ended) == (b"1234567" + b"1234567"[:cut], False)


@pytest.mark.parametrize("present", [0, 1, len(DOCUMENT) - 1])
@pytest.mark.parametrize("end", [ModelCall.reset, ModelCall.close], ids=["reset", "closed"])
def test_a_body_shorter_than_its_length_is_shorter_at_the_agent(way, target, present, end):
    with second_turn(way, target, False) as turn:
        turn.call.send(head("HTTP/1.1 200 OK", JSON, f"Content-Length: {len(DOCUMENT)}") + DOCUMENT[:present])
        message = turn.agent.read_response_head("POST")
        while len(message.body) < present:
            message.body += turn.agent.next_data()
        end(turn.call)
        assert_cut(turn.agent)
        assert message.values("Content-Length") == [str(len(DOCUMENT))]
        assert message.body == DOCUMENT[:present]


def test_a_body_that_its_connection_ends_is_ended_by_a_last_chunk(way, target, streamed):
    with second_turn(way, target, streamed) as turn:
        turn.call.send(head("HTTP/1.1 200 OK", EVENTS, "Connection: close") + b"".join(PIECES))
        turn.call.close()
        received = receive(turn.agent)
        assert (received.status, received.body, received.ended) == (200, b"".join(PIECES), True)
        assert received.message.values("Transfer-Encoding") == ["chunked"]


def test_a_body_that_a_reset_ends_is_cut(way, target):
    with second_turn(way, target, True) as turn:
        turn.call.send(head("HTTP/1.1 200 OK", EVENTS) + PIECES[0])
        message = turn.agent.read_response_head("POST")
        while len(message.body) < len(PIECES[0]):
            message.body += turn.agent.next_data()
        turn.call.reset()
        assert_cut(turn.agent)
        assert message.body == PIECES[0]


def test_a_slow_drip_arrives_byte_by_byte(way, target):
    with second_turn(way, target, True) as turn:
        turn.call.stream(EVENTS)
        turn.agent.read_response_head("POST")
        for value in PIECES[1]:
            turn.call.chunk(bytes([value]))
            assert turn.agent.next_data() == bytes([value])
        turn.call.end()
        assert turn.agent.next_data() is None


@pytest.mark.parametrize("answer", [b"HTTP/2 200\r\n\r\n", b"nonsense\r\n\r\n", b"\0\0\0", b"HTTP/1.1 99 Low\r\n\r\n"])
def test_what_is_not_http_is_an_error_that_says_so(way, answer):
    with second_turn(way, DIALECTS["chat"], False) as turn:
        turn.call.send(answer)
        turn.call.close()
        assert receive(turn.agent).status == 502


# --- agents that leave ------------------------------------------------------------------------------------------------


def leave(agent: Endpoint) -> None:
    agent.close()


@pytest.mark.parametrize("go", [leave, Endpoint.reset], ids=["closes", "resets"])
def test_an_agent_that_leaves_a_model_that_stalls_ends_its_call(way, target, go: Callable[[Endpoint], None]):
    with second_turn(way, target, False) as turn:
        go(turn.agent)
        turn.call.wait_until_given_up()
        turn.call.over()


@pytest.mark.parametrize("go", [leave, Endpoint.reset], ids=["closes", "resets"])
def test_an_agent_that_leaves_amid_a_stream_that_stalls_ends_its_call(way, target, go: Callable[[Endpoint], None]):
    with second_turn(way, target, True) as turn:
        turn.call.stream(EVENTS)
        begin(turn, PIECES[:1])
        go(turn.agent)
        turn.call.wait_until_given_up()
        turn.call.over()


def test_an_agent_that_leaves_an_endless_stream_ends_its_call(way):
    with second_turn(way, DIALECTS["chat"], True) as turn:
        turn.call.stream(EVENTS)
        begin(turn, PIECES[:1])
        turn.agent.close()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while True:
                turn.call.chunk(b"x" * 4096)
        turn.call.over()


@pytest.mark.parametrize("go", [leave, Endpoint.reset], ids=["closes", "resets"])
def test_an_agent_that_leaves_after_the_final_event_has_not_failed(way, target, go: Callable[[Endpoint], None]):
    with second_turn(way, target, True) as turn:
        turn.call.stream(EVENTS)
        begin(turn, PIECES)
        go(turn.agent)
        turn.call.end()
    for end in (way.server, way.shim):
        assert {call["outcome"] for call in end.logged_on(turn.conversation.path, 3)} == {"complete"}
