# SPDX-License-Identifier: Apache-2.0
"""A shim whose address leads elsewhere from one call to the next: to a server that is switched off, to one that knows
nothing, to a plain model, to things that cannot read frames, to a balancer's own errors.

No agent may notice more than what a plain proxy would show it, no frame may reach a model, and no call may run twice.
"""

import json
from collections.abc import Iterator

import pytest
from history_delta_protocol.wire import FRAME_MEDIA_TYPE
from support.balancer import Balancer
from support.conversation import DIALECTS, Conversation, new_rollout, receive
from support.endpoints import Endpoint
from support.ends import OFF, ServerProcess, ShimProcess
from support.model_server import ModelCall, ModelServer, head

ANSWER = b'{"id":"an answer"}'
REFUSAL = b'{"detail":"cannot read this"}'


def answers(call: ModelCall) -> None:
    call.respond(ANSWER, "Content-Type: application/json")


def is_frame(call: ModelCall) -> bool:
    return (call.request.value("Content-Type") or "").lower().startswith(FRAME_MEDIA_TYPE)


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(answers) as model:
        yield model


@pytest.fixture(scope="module")
def server(model, tmp_path_factory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), model.origin) as server:
        yield server


@pytest.fixture(scope="module")
def server_off(model, tmp_path_factory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("off"), model.origin, env=OFF) as server:
        yield server


@pytest.fixture(scope="module")
def other_server(model, tmp_path_factory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("other"), model.origin) as server:
        yield server


@pytest.fixture
def balancer(server) -> Iterator[Balancer]:
    with Balancer(server.origin) as balancer:
        yield balancer


@pytest.fixture
def shim(start, balancer) -> ShimProcess:
    return start.shim(balancer.origin)


class Talk:
    """One conversation through the shim, each call on a connection of its own."""

    def __init__(self, shim: ShimProcess, model: ModelServer, target: str = DIALECTS["chat"]) -> None:
        self.shim, self.model = shim, model
        self.conversation = Conversation(target)
        self._at_model = len(model.calls)

    def call(self):
        agent = self.shim.agent()
        agent.send(self.conversation.request())
        received = receive(agent)
        agent.close()
        self.conversation.turn()
        return received

    def works(self, times: int = 1) -> None:
        for _ in range(times):
            received = self.call()
            assert (received.status, received.body, received.ended) == (200, ANSWER, True)

    def each_ran_once(self) -> bool:
        return self.model.bodies[self._at_model :] == self.conversation.sent

    def kinds(self) -> list[tuple[str, bool]]:
        """Of all calls so far: what was sent at last, and whether that was the second sending."""
        logged = self.shim.logged_on(self.conversation.path, len(self.conversation.sent))
        return [(call["kind"], call["resynced"]) for call in logged]


NEW, DELTA, FULL, RESENT = ("self-contained", False), ("delta", False), ("full", False), ("full", True)


@pytest.fixture
def talk(shim, model) -> Talk:
    """A conversation of which the server holds two calls."""
    talk = Talk(shim, model)
    talk.works(2)
    assert talk.kinds() == [NEW, DELTA]
    return talk


# --- servers of ours --------------------------------------------------------------------------------------------------


def test_a_server_that_is_switched_off_gets_the_call_in_full_and_those_after_it(talk, balancer, server_off):
    balancer.lead_to(server_off.origin)
    talk.works(3)
    assert talk.kinds() == [NEW, DELTA, RESENT, FULL, FULL]
    assert talk.each_ran_once()
    assert not any(is_frame(call) for call in talk.model.calls)


def test_a_server_that_is_switched_on_later_is_found_out_by_its_answers(start, balancer, server, server_off, model):
    balancer.lead_to(server_off.origin)
    talk = Talk(start.shim(balancer.origin), model)
    talk.works(2)
    balancer.lead_to(server.origin)
    talk.works(3)
    assert talk.kinds() == [FULL, FULL, FULL, DELTA, DELTA]
    assert talk.each_ran_once()


def test_a_server_that_knows_nothing_costs_one_full_send(talk, balancer, other_server):
    balancer.lead_to(other_server.origin)
    talk.works(3)
    assert talk.kinds() == [NEW, DELTA, RESENT, DELTA, DELTA]
    assert talk.each_ran_once()


def test_two_servers_by_turns_cost_full_sends_and_in_the_end_no_frames(talk, balancer, server, other_server):
    """A balancer that does not keep a rollout where it is: bad for the savings, harmless for the agent."""
    for _ in range(10):
        balancer.lead_to(other_server.origin)
        talk.works()
        balancer.lead_to(server.origin)
        talk.works()
    assert talk.each_ran_once()
    # Three refused, eight in full, three refused, and 16 in full, of which the first six are looked at here.
    assert talk.kinds() == [NEW, DELTA, *[RESENT] * 3, *[FULL] * 8, *[RESENT] * 3, *[FULL] * 6]


# --- what is no server of ours ----------------------------------------------------------------------------------------


def refuses_frames(status: str):
    def behave(call: ModelCall) -> None:
        if is_frame(call):
            call.respond(REFUSAL, "Content-Type: application/json", "Connection: close", status=status)
        else:
            answers(call)

    return behave


CANNOT_READ = ["400 Bad Request", "404 Not Found", "405 Method Not Allowed", "409 Conflict", "411 Length Required"]
CANNOT_READ += ["415 Unsupported Media Type", "422 Unprocessable Content", "501 Not Implemented"]


@pytest.mark.parametrize("status", CANNOT_READ)
def test_a_plain_model_that_refuses_a_frame_gets_the_call_in_full(talk, balancer, start, status):
    """Its refusals are no answers to the agent's call, so that the agent sees none of them."""
    plain = start.model(refuses_frames(status))
    balancer.lead_to(plain.origin)
    talk.works(3)
    assert talk.kinds() == [NEW, DELTA, RESENT, FULL, FULL]
    assert [is_frame(call) for call in plain.calls] == [True, False, False, False]
    assert plain.bodies[1:] == talk.conversation.sent[2:]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plain_model_from_the_beginning_gets_plain_calls(start, dialect):
    plain = start.model(answers)
    talk = Talk(start.shim(plain.origin), plain, DIALECTS[dialect])
    talk.works(3)
    assert talk.kinds() == [FULL, FULL, FULL]
    assert talk.each_ran_once()
    assert [request.target for request in plain.others] == ["/v1/.well-known/history-delta"]


UNCERTAIN = ["500 Internal Server Error", "502 Bad Gateway", "503 Service Unavailable", "504 Gateway Timeout"]


@pytest.mark.parametrize("status", UNCERTAIN)
def test_a_balancers_own_error_is_passed_on_and_nothing_is_sent_again(talk, balancer, server, start, status):
    """The call may have run behind it."""
    ill = start.model(lambda call: call.respond(REFUSAL, "X-From: balancer", "Retry-After: 3", status=status))
    balancer.lead_to(ill.origin)
    received = talk.call()
    assert received.message.line == (int(status[:3]), status[4:])
    assert received.headers() == [("X-From", "balancer"), ("Retry-After", "3")]
    assert (received.body, received.ended) == (REFUSAL, True)
    assert len(ill.calls) == 1
    balancer.lead_to(server.origin)
    talk.works(2)
    assert talk.kinds() == [NEW, DELTA, DELTA, FULL, DELTA]


@pytest.mark.parametrize("status", UNCERTAIN)
def test_what_fails_at_frames_and_not_at_bodies_costs_one_call(talk, balancer, start, status):
    """A plain model that falls over what it cannot read: an agent's retries must come through."""
    ill = start.model(refuses_frames(status))
    balancer.lead_to(ill.origin)
    assert talk.call().status == int(status[:3])
    talk.works(3)
    assert talk.kinds() == [NEW, DELTA, DELTA, FULL, FULL, FULL]


@pytest.mark.parametrize("end", [ModelCall.close, ModelCall.reset], ids=["closes", "resets"])
def test_what_drops_connections_with_frames_costs_one_call(talk, balancer, start, end):
    """As a firewall does that looks into content types."""
    ill = start.model(lambda call: end(call) if is_frame(call) else answers(call))
    balancer.lead_to(ill.origin)
    agent = talk.shim.agent()
    agent.send(talk.conversation.request())
    assert agent.is_ended()
    talk.works(3)
    assert talk.kinds() == [NEW, DELTA, DELTA, FULL, FULL, FULL]


def test_the_first_frame_of_all_may_fail_as_well(start, balancer, server, model):
    ill = start.model(refuses_frames("500 Internal Server Error"))
    talk = Talk(start.shim(balancer.origin), ill)
    # The capabilities come from one place, and the calls go to another.
    Talk(talk.shim, model).works()
    balancer.lead_to(ill.origin)
    assert talk.call().status == 500
    talk.works(2)
    assert talk.kinds() == [NEW, FULL, FULL]


# --- rollouts ---------------------------------------------------------------------------------------------------------


def test_two_shims_of_one_rollout_each_build_on_what_they_know(start, server, model):
    shims = [start.shim(server.origin, "--rollout", "shared-by-two") for _ in range(2)]
    talks = [Talk(shim, model) for shim in shims]
    for talk in talks:
        talk.conversation.rollout = None
    first = len(model.calls)
    for _ in range(4):
        for talk in talks:
            talk.works()
    assert [talk.kinds() for talk in talks] == [[NEW, DELTA, DELTA, DELTA]] * 2
    by_turns = zip(talks[0].conversation.sent, talks[1].conversation.sent, strict=True)
    assert model.bodies[first:] == [body for both in by_turns for body in both]


def test_a_conversation_that_moves_to_another_shim_of_its_rollout_starts_anew_there(start, server, model):
    shims = [start.shim(server.origin) for _ in range(2)]
    talk = Talk(shims[0], model)
    talk.works(3)
    talk.shim = shims[1]
    talk.works(3)
    assert talk.each_ran_once()
    kinds = [call["kind"] for call in shims[1].logged_on(talk.conversation.path, 3)]
    assert kinds == ["self-contained", "delta", "delta"]


def test_rollouts_of_one_shim_do_not_help_each_other(shim, model):
    """The same conversation in each of them is new in each of them."""
    talks = [Talk(shim, model) for _ in range(4)]
    for _ in range(3):
        for talk in talks:
            talk.works()
    assert [talk.kinds() for talk in talks] == [[NEW, DELTA, DELTA]] * 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_frame_of_one_rollout_is_worth_nothing_in_another(start, server, model, dialect):
    """Whoever knows every hash of another rollout's history learns and gets nothing by it."""
    wire = start.wire(server.origin)
    talk = Talk(start.shim(wire.origin), model, DIALECTS[dialect])
    talk.works(2)
    [_, delta] = wire.model_calls
    ran = len(model.calls)
    in_its_own, in_another = server.agent(), server.agent()
    send_again(in_its_own, delta, talk.conversation.rollout)
    assert receive(in_its_own).body == ANSWER  # of the same delivery: nothing ran
    send_again(in_another, delta, new_rollout())
    refused = receive(in_another)
    assert (refused.status, refused.message.values("History-Delta-Resync")) == (409, ["unknown-base"])
    assert json.loads(refused.body)["error"]["code"] == "gym_history_resync"
    assert refused.message.values("History-Delta-Held") == []
    assert len(model.calls) == ran


def send_again(agent: Endpoint, exchange, rollout: str) -> None:
    """The request as it crossed the wire, in that rollout."""
    path = exchange.target.split("/", 3)[3]
    headers = (f"{name}: {value}" for name, value in exchange.headers)
    agent.send(head(f"POST /ng-rollout/{rollout}/{path} HTTP/1.1", *headers) + exchange.body)
