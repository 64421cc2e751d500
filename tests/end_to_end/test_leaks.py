# SPDX-License-Identifier: Apache-2.0
"""What thousands of short rollouts leave behind in shim and server: nothing that grows with their number.

The limits are set small, so that they are reached early: from then on memory must stay where it is.
"""

import pytest
from support.conversation import Conversation, receive
from support.endpoints import Endpoint
from support.ends import ServerProcess
from support.json_bodies import body, said
from support.model_server import ModelCall, head
from support.running_agent import wait_until

MIB = 1024 * 1024
KIB = 1024
ROLLOUTS, WARMING_UP = 2000, 700
LIMITS = {
    "max_history_bytes": 4 * MIB,
    "history_idle_seconds": 1,
    "max_deliveries": 100,
    "max_replays_bytes": 256 * KIB,
    "max_pinned_rollouts": 100,
}


def answers(call: ModelCall) -> None:
    call.respond(b'{"answer":"%s"}' % (b"x" * 2000), "Content-Type: application/json")


class Rollouts:
    """Short ones, one after another, on one connection: two calls each, of 12 kB that are like no other's."""

    def __init__(self, shim) -> None:
        self._agent: Endpoint = shim.agent()
        self._number = 0

    def run(self, count: int) -> None:
        for _ in range(count):
            self._number += 1
            first = body(said(self._number, 6000), said(-self._number, 6000))
            for current in (first, first.and_then(said(self._number, 300))):
                self._call(current.raw)

    def _call(self, raw: bytes) -> None:
        lines = (f"POST /ng-rollout/short-{self._number}/v1/chat/completions HTTP/1.1", "Host: agent")
        self._agent.send(head(*lines, f"Content-Length: {len(raw)}") + raw)
        received = b""
        while not received.endswith(b'x"}'):
            received += self._agent.receive()
        assert received.startswith(b"HTTP/1.1 200 ")


GAUGES = ("histories_bytes", "histories", "deliveries", "replays_bytes", "calls_in_flight", "bytes_in_flight")


def held(server: ServerProcess) -> dict[str, float]:
    return {name: server.metric(name) for name in GAUGES}


def test_thousands_of_short_rollouts_leave_nothing_that_grows(start):
    model = start.model(answers)
    server = start.server(model, **LIMITS)
    shim = start.shim(server.origin)
    rollouts = Rollouts(shim)
    rollouts.run(WARMING_UP)
    before = {end: (end.resident_bytes(), end.descriptors(), end.threads()) for end in (server, shim)}
    rollouts.run(ROLLOUTS - WARMING_UP)
    for end, (resident, descriptors, threads) in before.items():
        assert (end.descriptors(), end.threads()) == (descriptors, threads)
        # Of each rollout that is gone 15 kB came in twice and 4 kB went out.
        assert end.resident_bytes() - resident < (ROLLOUTS - WARMING_UP) * 5000
    now = held(server)
    assert now["histories_bytes"] <= LIMITS["max_history_bytes"]
    assert now["deliveries"] <= LIMITS["max_deliveries"]
    assert now["replays_bytes"] <= LIMITS["max_replays_bytes"]
    assert (now["calls_in_flight"], now["bytes_in_flight"]) == (0, 0)
    assert server.metric('outcomes_total{outcome="complete"}') == 2 * ROLLOUTS


def test_idle_rollouts_and_answers_are_gone_with_a_later_call(start):
    server = start.server(start.model(answers), history_idle_seconds=0.1, delivery_keep_seconds=0.1)
    rollouts = Rollouts(start.shim(server.origin))
    rollouts.run(200)

    def few_are_held() -> bool:
        rollouts.run(1)
        now = held(server)
        return now["histories"] < 50 and now["deliveries"] < 100

    wait_until(few_are_held, "idle rollouts are gone")


# --- what ends badly --------------------------------------------------------------------------------------------------


def says_nothing(agent: Endpoint) -> None:
    pass


def sends_half_a_head(agent: Endpoint) -> None:
    agent.send(Conversation().request()[:60])


def sends_half_a_body(agent: Endpoint) -> None:
    agent.send(Conversation().request()[:-60])


def sends_nonsense(agent: Endpoint) -> None:
    agent.send(b"\x16\x03\x01 hello\r\n\r\n")


def calls_a_model_that_stalls(agent: Endpoint) -> None:
    agent.send(Conversation().request("X-Play: stall"))


def calls_a_model_that_cuts(agent: Endpoint) -> None:
    agent.send(Conversation().request("X-Play: cut"))
    assert receive(agent).ended is False


def calls_a_model_that_resets(agent: Endpoint) -> None:
    agent.send(Conversation().request("X-Play: reset"))
    assert receive(agent).status == 502


def leaves_amid_a_stream(agent: Endpoint) -> None:
    agent.send(Conversation().request("X-Play: drip"))
    assert agent.read_response_head("POST").line == (200, "OK")


BAD_ENDS = [says_nothing, sends_half_a_head, sends_half_a_body, sends_nonsense, calls_a_model_that_stalls]
BAD_ENDS += [calls_a_model_that_cuts, calls_a_model_that_resets, leaves_amid_a_stream]


def plays(call: ModelCall) -> None:
    play = call.request.value("X-Play")
    if play is None:
        answers(call)
    elif play == "reset":
        call.reset()
    elif play == "stall":
        call.wait_until_given_up()
    else:
        call.stream()
        call.chunk(b"data: 1\n\n")
        if play == "cut":
            call.close()
        else:
            call.wait_until_given_up()


@pytest.mark.parametrize("through", ["shim", "server"])
def test_what_ends_badly_leaves_no_socket_and_no_thread_behind(start, through):
    model = start.model(plays)
    server = start.server(model, upstream_keepalive_seconds=0.1)
    shim = start.shim(server.origin)
    ends = {"shim": shim, "server": server}
    Rollouts(shim).run(1)
    wait_until(lambda: server.metric("calls_in_flight") == 0, "nothing is in flight")
    threads, idle = shim.threads(), 8  # connections that the shim keeps
    sockets = {end: end.sockets() for end in ends.values()}
    for go in (Endpoint.close, Endpoint.reset):
        agents = [(act, ends[through].agent()) for act in BAD_ENDS for _ in range(10)]
        for act, agent in agents:
            act(agent)
        for _, agent in agents:
            go(agent)
    wait_until(lambda: shim.threads() <= threads, "the shim's threads have ended")
    for end, then in sockets.items():
        wait_until(lambda: end.sockets() <= then + idle, "sockets are closed")  # noqa: B023
    wait_until(lambda: held(server)["calls_in_flight"] == held(server)["bytes_in_flight"] == 0, "nothing is in flight")
    assert server.process.poll() is None
    assert shim.process.poll() is None
    assert [event for end in ends.values() for event in end.events("fault", "core-failed", "connection-failed")] == []
