# SPDX-License-Identifier: Apache-2.0
"""Many conversations at once through one shim and one server: nothing mixed, nothing lost, nothing waiting for another.

The model answers a round only when all of its calls have arrived, so that they really are in flight together.
"""

import hashlib
import json
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count

from support.conversation import DIALECTS, Conversation, new_rollout, receive
from support.endpoints import PATIENCE
from support.json_bodies import Body, as_history, body, said
from support.model_server import ModelCall, head

TOGETHER, ROUNDS = 20, 15
EVENTS = "Content-Type: text/event-stream"


class RoundModel:
    """What a model does with calls that come in rounds. Each answer is of one body, and like no other's."""

    def __init__(self) -> None:
        self._all_here = threading.Barrier(TOGETHER, timeout=PATIENCE)
        self._numbers = count(1)

    def __call__(self, call: ModelCall) -> None:
        answer = {"of": hashlib.sha256(call.body).hexdigest(), "number": next(self._numbers)}
        self._all_here.wait()
        if b'"stream":true' not in call.body:
            call.respond(json.dumps(answer).encode(), "Content-Type: application/json")
            return
        call.stream(EVENTS)
        for part in range(8):
            call.chunk(b"data: %s\n\n" % json.dumps(answer | {"part": part}).encode())
        call.end()


@dataclass
class Answer:
    """What an agent was told: whose answer it was, and which."""

    of: str
    number: int


def read_answer(received, streamed: bool) -> Answer:
    assert (received.status, received.ended) == (200, True), received
    if not streamed:
        return Answer(**json.loads(received.body))
    events = [json.loads(event.removeprefix(b"data: ")) for event in received.body.split(b"\n\n") if event]
    assert [event.pop("part") for event in events] == list(range(8))
    assert all(event == events[0] for event in events)
    return Answer(**events[0])


def changed(rng: random.Random, now: Body) -> Body:
    """What agents do to a history from one call to the next."""
    history = list(now.history)
    new = [(b",", said(rng.randrange(10_000), rng.choice([80, 500, 3000]))) for _ in range(rng.randint(1, 3))]
    step = rng.random()
    if step < 0.15:
        history[rng.randrange(len(history))] = (b",", said(rng.randrange(10_000), 300))
    elif step < 0.25:
        history[-1:] = new
    elif step < 0.32:
        history = history[:1]
    return replace(now, history=as_history(history + new))


class Agent:
    """A conversation, seeded, on a connection that it keeps; two of one seed and rollout send the same bytes."""

    def __init__(self, shim, seed: int, rollout: str, start_of_round: threading.Barrier) -> None:
        self._rng = random.Random(seed)
        self._endpoint = shim.agent()
        self._start_of_round = start_of_round
        dialect = list(DIALECTS)[seed % 3]
        self._path = f"/ng-rollout/{rollout}{DIALECTS[dialect]}"
        self._streamed = seed % 2 == 0
        tail = b'],"stream":%s}' % (b"true" if self._streamed else b"false")
        self._body = body(said(seed, 900), target=DIALECTS[dialect], tail=tail)
        self.sent: list[bytes] = []
        self.answers: list[Answer] = []

    def run(self) -> None:
        for _ in range(ROUNDS):
            self._start_of_round.wait()
            raw = self._body.raw
            lines = (f"POST {self._path} HTTP/1.1", "Host: agent", "Content-Type: application/json")
            self._endpoint.send(head(*lines, f"Content-Length: {len(raw)}") + raw)
            answer = read_answer(receive(self._endpoint), self._streamed)
            assert answer.of == hashlib.sha256(raw).hexdigest()
            self.sent.append(raw)
            self.answers.append(answer)
            self._body = changed(self._rng, self._body)


def test_calls_in_flight_together_each_get_their_own_answer(start):
    model = start.model(RoundModel())
    server = start.server(model)
    shim = start.shim(server.origin)
    start_of_round = threading.Barrier(TOGETHER, timeout=PATIENCE)
    rollouts = [new_rollout() for _ in range(4)]
    # The last four are twins, two and two.
    seeds = [*range(TOGETHER - 2), TOGETHER - 4, TOGETHER - 3]
    agents = [Agent(shim, seed, rollouts[seed % 4], start_of_round) for seed in seeds]
    with ThreadPoolExecutor(TOGETHER) as pool:
        for done in [pool.submit(agent.run) for agent in agents]:
            done.result()
    numbers = [answer.number for agent in agents for answer in agent.answers]
    assert sorted(numbers) == list(range(1, TOGETHER * ROUNDS + 1))
    assert Counter(model.bodies) == Counter(raw for agent in agents for raw in agent.sent)
    assert agents[-1].sent == agents[-3].sent
    assert agents[-2].sent == agents[-4].sent
    logged = [call for rollout in rollouts for call in shim.logged() if f"/{rollout}/" in call["path"]]
    assert {call["status"] for call in logged} == {200}
    assert not any(call["resynced"] for call in logged)
    assert Counter(call["kind"] for call in logged)["full"] == 0


def test_events_of_streams_that_are_open_together_arrive_one_by_one(way):
    """Each before the model has produced the next, in whichever stream: none waits for another, or for more."""
    streams = []
    for dialect in [*DIALECTS] * 3:
        agent, call = way.call(Conversation(DIALECTS[dialect], streamed=True, rollout="one-for-all"))
        call.stream(EVENTS)
        agent.read_response_head("POST")
        streams.append((agent, call))
    for number in range(5):
        for stream, (agent, call) in enumerate(streams):
            event = b"data: %d of %d\n\n" % (number, stream)
            call.chunk(event)
            assert agent.next_data() == event
    for agent, call in reversed(streams):
        call.end()
        assert agent.next_data() is None


def test_equal_calls_in_flight_together_are_each_run(way):
    """Two sub-agents that begin alike; whoever is answered first gets the first answer to be given."""
    conversation = Conversation()
    pairs = [way.call(conversation) for _ in range(4)]
    assert len({call.body for _, call in pairs}) == 1
    for number, (_, call) in reversed(list(enumerate(pairs))):
        call.respond(b"%d" % number)
    assert [receive(agent).body for agent, _ in pairs] == [b"0", b"1", b"2", b"3"]
