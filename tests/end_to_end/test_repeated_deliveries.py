# SPDX-License-Identifier: Apache-2.0
"""One request of an agent delivered several times by what lies between shim and server: the model runs it once.

The first half goes through a relay that repeats every delivery; in the second the test speaks to the server itself.
"""

import json
import os
import socket
from collections.abc import Iterator

import pytest
from support.conversation import DIALECTS, Conversation, Received, new_rollout, receive
from support.duplicator import Duplicator
from support.endpoints import Endpoint
from support.ends import ServerProcess
from support.model_server import ModelCall, ModelServer, head

EVENTS = "Content-Type: text/event-stream"
ANSWER = b'{"id":"an answer"}'
PIECES = [b"data: %d\n\n" % number for number in range(3)]


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as model:
        yield model


@pytest.fixture(scope="module")
def server(model, tmp_path_factory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), model.origin) as server:
        yield server


@pytest.fixture
def duplicator(server) -> Iterator[Duplicator]:
    with Duplicator(server.origin) as duplicator:
        yield duplicator


@pytest.fixture
def shim(start, duplicator):
    return start.shim(duplicator.origin)


# --- through a relay that repeats every delivery ----------------------------------------------------------------------


def answer_in_pieces(call: ModelCall) -> None:
    call.stream(EVENTS)
    for piece in PIECES:
        call.chunk(piece)
    call.end()


def answer_as_a_whole(call: ModelCall) -> None:
    call.respond(ANSWER, "X-Own: 1", "X-Own: 2")


def fail(call: ModelCall) -> None:
    call.respond(b'{"error":"overloaded"}', "Retry-After: 1", status="529 Overloaded")


def cut(call: ModelCall) -> None:
    call.stream(EVENTS)
    for piece in PIECES[:2]:
        call.chunk(piece)
    call.close()


def say_nothing(call: ModelCall) -> None:
    call.reset()


# What the model does, and what the agent sees of it: status, body (None: an error of the server's), whether it ended.
ANSWERS = [
    (answer_in_pieces, (200, b"".join(PIECES), True)),
    (answer_as_a_whole, (200, ANSWER, True)),
    (fail, (529, b'{"error":"overloaded"}', True)),
    (cut, (200, b"".join(PIECES[:2]), False)),
    (say_nothing, (502, None, True)),
]


def read_back(answer: bytes) -> Received:
    """Chunks may be drawn where the server likes, another time elsewhere: what is compared is what they carry."""
    ours, theirs = socket.socketpair()
    theirs.sendall(answer)
    theirs.close()
    return receive(Endpoint(ours))


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_call_runs_once_and_its_deliveries_get_the_same_bytes(model, duplicator, shim, dialect, answer, expected):
    conversation = Conversation(DIALECTS[dialect])
    ran = len(model.calls)
    for _ in range(3):
        agent = shim.agent()
        agent.send(conversation.request())
        answer(model.next_call())
        received = receive(agent)
        agent.close()
        [first, at_once, afterwards] = map(read_back, duplicator.settled()[-1].answers)
        assert first.body == received.body
        assert first == at_once == afterwards
        status, body, ended = expected
        assert (received.status, received.body, received.ended) == (status, body or received.body, ended)
        conversation.turn()
    assert model.bodies[ran:] == conversation.sent
    assert [call["kind"] for call in shim.logged_on(conversation.path, 3)] == ["self-contained", "delta", "delta"]


def test_a_delivery_that_is_sent_in_full_after_a_resync_runs_once_as_well(model, duplicator, shim, start):
    """Its frame comes three times, and its body does."""
    conversation = Conversation()
    agent = shim.agent()
    agent.send(conversation.request())
    model.next_call().respond(ANSWER)
    assert receive(agent).body == ANSWER
    ran = len(model.calls)
    duplicator.settled()
    duplicator.target = start.server(model).origin
    conversation.turn()
    agent.send(conversation.request())
    model.next_call().respond(ANSWER)
    assert receive(agent).body == ANSWER
    [refused, resent] = duplicator.settled()[1:]
    assert refused.request.value("History-Delta-Delivery") == resent.request.value("History-Delta-Delivery")
    *at_once, afterwards = map(read_back, refused.answers)
    assert [answer.status for answer in at_once] == [409, 409]
    # By then the body may have come: the frame can be rebuilt, and its call is known.
    assert afterwards.status == 409 or afterwards.body == ANSWER
    assert [read_back(answer).body for answer in resent.answers] == [ANSWER] * 3
    assert model.bodies[ran:] == conversation.sent[1:]


# --- by hand ----------------------------------------------------------------------------------------------------------


class Delivery:
    """A full send under an id of its own, as often as one likes."""

    def __init__(self, body: bytes = b'{"messages":[1,2,3]}') -> None:
        self.id = os.urandom(16).hex()
        self.rollout = new_rollout()
        self.body = body

    def send(self, agent: Endpoint, body: bytes | None = None, path: str = "/v1/chat/completions") -> Endpoint:
        body = self.body if body is None else body
        ours = ("History-Delta-Version: 1", f"History-Delta-Delivery: {self.id}")
        lines = (f"POST /ng-rollout/{self.rollout}{path} HTTP/1.1", "Host: server", *ours)
        agent.send(head(*lines, f"Content-Length: {len(body)}") + body)
        return agent


def reuse_is_refused(agent: Endpoint) -> bool:
    refused = receive(agent)
    return (refused.status, json.loads(refused.body)["error"]["code"]) == (422, "history_delta_delivery_reused")


def test_another_content_under_the_same_id_is_refused_while_the_first_runs_and_afterwards(model, server):
    delivery = Delivery()
    first = delivery.send(server.agent())
    call = model.next_call()
    others = [(b'{"messages":[1,2,4]}', "/v1/chat/completions"), (delivery.body + b" ", "/v1/chat/completions")]
    others += [(delivery.body, "/v1/messages"), (delivery.body, "/v1/chat/completions?x")]
    for body, path in others:
        assert reuse_is_refused(delivery.send(server.agent(), body, path))
    call.respond(ANSWER)
    assert receive(first).body == ANSWER
    for body, path in others:
        assert reuse_is_refused(delivery.send(server.agent(), body, path))
    ran = len(model.calls)
    assert receive(delivery.send(server.agent())).body == ANSWER
    assert len(model.calls) == ran


def test_the_same_id_in_another_rollout_is_another_delivery(model, server):
    delivery = Delivery()
    for answer in (b"1", b"2"):
        agent = delivery.send(server.agent())
        model.next_call().respond(answer)
        assert receive(agent).body == answer
        delivery.rollout = new_rollout()


def test_the_call_goes_on_for_the_delivery_that_stays(model, server):
    delivery = Delivery()
    first = delivery.send(server.agent())
    call = model.next_call()
    call.stream(EVENTS)
    call.chunk(PIECES[0])
    assert first.read_response_head("POST").line == (200, "OK")
    assert first.next_data() == PIECES[0]
    second = delivery.send(server.agent())
    second.read_response_head("POST")
    assert second.next_data() == PIECES[0]
    first.reset()
    # Twice as much as would be read on for nobody.
    for _ in range(32):
        call.chunk(PIECES[1] * 512)
    call.end()
    rest = b""
    while (data := second.next_data()) is not None:
        rest += data
    assert rest == PIECES[1] * 512 * 32


def test_a_delivery_repeated_because_its_connection_broke_joins_the_call_that_is_still_running(model, server):
    delivery = Delivery()
    first = delivery.send(server.agent())
    call = model.next_call()
    first.reset()
    second = delivery.send(server.agent())
    call.respond(ANSWER)
    received = receive(second)
    assert (received.status, received.body, received.ended) == (200, ANSWER, True)


@pytest.mark.parametrize("answered", [True, False], ids=["amid its answer", "before any"])
def test_a_delivery_repeated_after_its_call_was_given_up_is_not_run_again(model, server, answered):
    delivery = Delivery()
    first = delivery.send(server.agent())
    call = model.next_call()
    if answered:
        call.stream(EVENTS)
        call.chunk(PIECES[0])
        first.read_response_head("POST")
        assert first.next_data() == PIECES[0]
    first.close()
    call.wait_until_given_up()
    call.over()
    ran = len(model.calls)
    again = receive(delivery.send(server.agent()))
    if answered:
        assert (again.status, again.body, again.ended) == (200, PIECES[0], False)
    else:
        assert again.status == 502
    assert len(model.calls) == ran


def test_a_response_too_large_to_keep_is_cut_before_its_first_byte_and_not_run_again(model, start):
    server = start.server(model, max_replay_bytes=1000)
    delivery = Delivery()
    agent = delivery.send(server.agent())
    model.next_call().respond(b"x" * 2000)
    assert receive(agent).body == b"x" * 2000
    ran = len(model.calls)
    assert delivery.send(server.agent()).is_ended()
    assert len(model.calls) == ran


def test_a_delivery_that_reached_no_model_is_run_when_it_comes_again(start):
    model = start.model()
    model.stop()
    server = start.server(model, upstream_retry_seconds=0.01)
    delivery = Delivery()
    assert receive(delivery.send(server.agent())).status == 502
    back = start.model(port=model.port)
    agent = delivery.send(server.agent())
    back.next_call().respond(ANSWER)
    assert receive(agent).body == ANSWER
