# SPDX-License-Identifier: Apache-2.0
"""Processes that come and go, in good order or not, between the calls of a conversation and amid them."""

import json
import os
import signal
import sys

import pytest
from support.conversation import DIALECTS, Conversation, receive
from support.endpoints import PATIENCE, Endpoint, connect
from support.ends import OFF, ON
from support.model_server import ModelCall, ModelServer
from support.running_agent import AGENT, RunningAgent, base_environment, is_alive, wait_until
from support.watched_wire import FRAME, FULL

EVENTS = "Content-Type: text/event-stream"
FIRST = b"data: first\n\n"


@pytest.fixture
def at_work(start):
    """A conversation of which two calls are held, on a way of its own."""
    way = start.way()
    conversation = Conversation(DIALECTS["responses"], streamed=True)
    for _ in range(2):
        way.succeed(conversation)
        conversation.turn()
    return way, conversation


def comes_back(start, way, **settings):
    """The server again, at the address that it had."""
    way.server = start.server(way.model, port=way.server.port, **settings)


# --- the server -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_starts_again_has_forgotten_everything_and_that_costs_one_full_send(start, at_work, how):
    way, conversation = at_work
    getattr(way.server, how)()
    comes_back(start, way)
    for _ in range(2):
        way.succeed(conversation)
        conversation.turn()
    assert way.model.bodies == conversation.sent
    assert way.wire.kinds == [FRAME, FRAME, FRAME, FULL, FRAME]
    assert way.server.metric('resyncs_total{reason="unknown-base"}') == 1
    assert way.server.metric('full_sends_total{reason="resync:unknown-base"}') == 1


def test_a_server_that_starts_again_switched_off_gets_plain_calls(start, at_work):
    way, conversation = at_work
    way.server.stop()
    comes_back(start, way, env=OFF)
    for _ in range(2):
        way.succeed(conversation)
        conversation.turn()
    assert way.model.bodies == conversation.sent
    assert way.wire.kinds == [FRAME, FRAME, FRAME, FULL, FULL]


def test_a_server_that_is_switched_on_later_gets_frames_once_it_has_answered(start):
    way = start.way(env=OFF)
    conversation = Conversation()
    way.succeed(conversation)
    way.server.stop()
    comes_back(start, way, env=ON)
    for _ in range(3):
        conversation.turn()
        way.succeed(conversation)
    assert way.model.bodies == conversation.sent
    assert way.wire.kinds == [FULL, FULL, FRAME, FRAME]
    # It has not been asked what codings it takes.
    assert [call.header("Content-Encoding") for call in way.wire.model_calls[2:]] == [None, None]


def test_a_server_that_is_killed_amid_a_call_breaks_it_off_behind_what_had_come(start, at_work):
    way, conversation = at_work
    agent, call = way.call(conversation)
    call.stream(EVENTS)
    call.chunk(FIRST)
    message = agent.read_response_head("POST")
    assert (message.line, agent.next_data()) == ((200, "OK"), FIRST)
    way.server.kill()
    assert agent.receive_all() == (b"", False)
    call.over()
    comes_back(start, way)
    conversation.turn()
    way.succeed(conversation)
    assert way.model.bodies == conversation.sent
    assert way.wire.kinds == [FRAME, FRAME, FRAME, FRAME, FULL]


def test_a_server_that_is_killed_before_it_has_answered_breaks_the_connection_and_nothing_runs_again(start, at_work):
    way, conversation = at_work
    agent, call = way.call(conversation)
    way.server.kill()
    assert agent.is_ended()
    call.over()
    comes_back(start, way)
    conversation.turn()
    way.succeed(conversation)
    assert way.model.bodies == conversation.sent
    # What broke off may have been the frame's fault, so that the next goes in full at once.
    assert way.wire.kinds == [FRAME, FRAME, FRAME, FULL]


def test_a_server_that_is_stopped_ends_what_is_under_way_and_takes_no_more(start):
    model = start.model()
    server = start.server(model)
    shim = start.shim(server.origin)
    agent, late = shim.agent(), shim.agent()
    agent.send(Conversation(streamed=True).request())
    call = model.next_call()
    call.stream(EVENTS)
    call.chunk(FIRST)
    agent.read_response_head("POST")
    assert agent.next_data() == FIRST
    server.signal(signal.SIGTERM)
    wait_until(lambda: not is_listening(server.port), "the server takes no more")
    late.send(Conversation().request())
    assert receive(late).status == 503
    call.chunk(FIRST)
    call.end()
    assert agent.next_data() == FIRST
    assert agent.next_data() is None
    assert server.process.wait(PATIENCE) == 0


def is_listening(port: int) -> bool:
    try:
        connect(port).close()
    except ConnectionRefusedError:
        return False
    except ConnectionResetError:  # while it is being closed
        return True
    return True


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_shim_that_was_there_first_says_what_it_cannot_reach_and_works_once_it_can(start, dialect):
    model = start.model()
    server = start.server(model)
    shim = start.shim(server.origin)
    server.stop()
    conversation = Conversation(DIALECTS[dialect])
    agent = shim.agent()
    agent.send(conversation.request())
    refused = receive(agent)
    assert (refused.status, refused.message.values("Retry-After")) == (503, ["1"])
    error = json.loads(refused.body)
    assert error["error"]["code"] == "history_delta_unavailable"
    assert f"127.0.0.1:{server.port}" in error["error"]["message"]
    assert (error.get("type") == "error") is (dialect == "messages")
    start.server(model, port=server.port)
    for _ in range(2):
        conversation.turn()
        agent.send(conversation.request())
        model.next_call().respond(b"{}")
        assert receive(agent).body == b"{}"
    assert model.bodies == conversation.sent[1:]
    assert [call["kind"] for call in shim.logged_on(conversation.path, 3)] == ["full", "full", "delta"]


# --- the shim ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(archive, start, tmp_path):
    """``run`` round an agent that idles: the test speaks in its place, at the address that the agent was given."""
    model = start.model()
    wire = start.wire(start.server(model).origin)
    environ = base_environment(tmp_path) | {"OPENAI_BASE_URL": wire.origin}
    command = [sys.executable, str(archive), "run", "--upstream", wire.origin, "--", *AGENT]
    with RunningAgent(command, environ, tmp_path) as agent:
        yield agent, model, wire
        assert agent.exit() == 0


def call_from(agent: RunningAgent, model: ModelServer, conversation: Conversation) -> tuple[Endpoint, ModelCall]:
    endpoint = connect(int(agent.environment("OPENAI_BASE_URL").rpartition(b":")[2]))
    endpoint.send(conversation.request())
    conversation.turn()
    return endpoint, model.next_call()


def is_answered(endpoint: Endpoint, call: ModelCall) -> bool:
    call.respond(b"{}")
    received = receive(endpoint)
    endpoint.close()
    return (received.status, received.body, received.ended) == (200, b"{}", True)


def kill_the_shim_of(agent: RunningAgent) -> None:
    [pid] = wait_until(agent.shims, "a shim serves")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), "the shim is gone")


@pytest.mark.parametrize("rollout", [None, "r1"])
def test_a_shim_that_is_killed_between_calls_costs_the_agent_nothing(run, rollout):
    agent, model, wire = run
    conversation = Conversation(rollout=rollout)
    for _ in range(2):
        assert is_answered(*call_from(agent, model, conversation))
        kill_the_shim_of(agent)
        assert is_answered(*call_from(agent, model, conversation))
    assert model.bodies == conversation.sent
    # The new shim asked for capabilities, and so sends whole bodies as frames as well.
    assert wire.kinds == [FRAME] * 4
    # Where the path names no rollout, each shim goes on with the one that the run has minted.
    [named] = {call.header("History-Delta-Rollout") for call in wire.model_calls}
    assert (named is None) is (rollout is not None)


def test_a_shim_that_is_killed_amid_a_call_breaks_that_call_alone(run):
    agent, model, _ = run
    conversation = Conversation()
    assert is_answered(*call_from(agent, model, conversation))
    endpoint, call = call_from(agent, model, conversation)
    kill_the_shim_of(agent)
    assert endpoint.is_ended()
    call.wait_until_given_up()
    call.over()
    assert is_answered(*call_from(agent, model, conversation))
    assert model.bodies == conversation.sent


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_shim_that_is_stopped_ends_what_is_under_way(start, stop):
    way = start.way()
    conversation = Conversation(streamed=True)
    agent, call = way.call(conversation)
    call.stream(EVENTS)
    call.chunk(FIRST)
    agent.read_response_head("POST")
    assert agent.next_data() == FIRST
    way.shim.signal(stop)
    wait_until(lambda: not is_listening(way.shim.port), "the shim takes no more")
    call.chunk(FIRST)
    call.end()
    assert agent.next_data() == FIRST
    assert agent.next_data() is None
    assert way.shim.process.wait(PATIENCE) == 0
