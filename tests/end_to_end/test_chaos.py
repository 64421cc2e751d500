# SPDX-License-Identifier: Apache-2.0
"""Conversations while connections break by chance, between shim and server and between server and model.

Whatever breaks where: no call runs twice, none runs with other bytes than the agent's, and no agent is given a part of
an answer for a whole one, or another's answer.
"""

import hashlib
import os
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest
from support.chaos_relay import ChaosRelay
from support.conversation import DIALECTS, Conversation, Received, receive
from support.model_server import ModelCall

SEEDS = [int(seed) for seed in os.environ.get("HISTORY_DELTA_CHAOS_SEEDS", "1,2,3").split(",")]
NOWHERE = "http://127.0.0.1:1"
AGENTS, CALLS, AFTERWARDS = 6, 12, 3


class Answers:
    """Names the body that it answers, in a few pieces of a few hundred bytes, whole or as a stream."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self, call: ModelCall) -> None:
        answer = answer_to(call.body, next(self._numbers))
        if b'"stream":true' in call.body:
            call.stream("Content-Type: text/event-stream")
            for at in range(0, len(answer), 700):
                call.chunk(answer[at : at + 700])
            call.end()
        else:
            call.respond(answer, "Content-Type: application/json")


def answer_to(body: bytes, number: int) -> bytes:
    return b"%s %d " % (hashlib.sha256(body).hexdigest().encode(), number) + b"x" * 2000 + b" end"


def check(received: Received | None, body: bytes) -> bool:
    """Whether it is the whole answer. If not, it must be seen to be none."""
    digest = hashlib.sha256(body).hexdigest().encode()
    if received is None:
        return False
    if received.status != 200:
        assert received.status in (502, 503), received
        return False
    assert digest.startswith(received.body[:64])
    assert received.body.endswith(b" end") or not received.ended, received
    return received.ended


def converse(shim, seed: int, calls: int, conversation: Conversation | None = None) -> tuple[Conversation, int]:
    """Calls of a conversation, each on a connection of its own; how many were answered."""
    conversation = conversation or Conversation(list(DIALECTS.values())[seed % 3], streamed=seed % 2 == 0)
    answered = 0
    for _ in range(calls):
        agent = shim.agent()
        agent.send(conversation.request())
        try:
            received = receive(agent)
        except (ConnectionResetError, AssertionError):  # it ended before a head
            received = None
        agent.close()
        answered += check(received, conversation.sent[-1])
        if random.Random(seed + len(conversation.sent)).random() < 0.7:
            conversation.turn()
    return conversation, answered


@pytest.mark.parametrize("seed", SEEDS)
def test_what_breaks_by_chance_is_seen_to_be_broken_and_nothing_is_run_twice(start, seed):
    model = start.model(Answers())
    with ChaosRelay(model.origin, seed, 9000) as to_model, ChaosRelay(NOWHERE, seed + 1, 9000) as to_server:
        server = start.server(to_model, upstream_retry_seconds=0.01)
        to_server.target = server.origin
        shim = start.shim(to_server.origin)
        with ThreadPoolExecutor(AGENTS) as pool:
            talks = list(pool.map(lambda number: converse(shim, seed * 100 + number, CALLS), range(AGENTS)))
        assert to_model.broken
        assert to_server.broken
        answered = sum(count for _, count in talks)
        assert 0 < answered < AGENTS * CALLS
        to_model.calm_down()
        to_server.calm_down()
        for number, (conversation, _) in enumerate(talks):
            _, count = converse(shim, number, AFTERWARDS, conversation)
            assert count == AFTERWARDS
    sent = Counter(body for conversation, _ in talks for body in conversation.sent)
    ran = Counter(model.bodies)
    assert not ran - sent
    assert server.process.poll() is None
    faults = [event for end in (server, shim) for event in end.events("fault", "core-failed", "connection-failed")]
    assert faults == []
