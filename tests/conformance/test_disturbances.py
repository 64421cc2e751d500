# SPDX-License-Identifier: Apache-2.0
"""Which request a disturbance hits, in full bodies and in frames."""

import gzip

import pytest
from history_delta_conformance.disturbances import Disturbances
from history_delta_conformance.observer import Exchange
from history_delta_conformance.scripted_model import Scenario
from history_delta_conformance.scripted_model.scenario import Disturbance, Turn


class NoTransport:
    async def lose_server_state(self):
        raise AssertionError

    switch_off = restart_shim = lose_server_state


def disturbances(*kinds, step=3):
    planned = tuple(Disturbance(step=step, kind=kind) for kind in kinds)
    return Disturbances(Scenario(name="work", prompt="", turns=(Turn("x"),), disturbances=planned), NoTransport())


def call(body, *headers, method="POST", target="/ng-rollout/r/v1/chat/completions"):
    return Exchange(0, method, target, list(headers), 0.0, body)


THIRD = b'{"messages":["[work step 1 of 5] a","[work step 2 of 5] b","result"]}'


def test_the_request_for_the_step_is_hit_once():
    planned = disturbances("drop-before")
    assert planned.at_wire(call(b'{"messages":["[work step 1 of 5] a"]}')) is None
    assert planned.at_wire(call(THIRD)).drop
    assert planned.at_wire(call(THIRD)) is None
    assert planned.pending == []


def test_a_frame_is_known_by_its_new_messages_also_when_compressed():
    frame = b'{"base":[4,"..."]}\n,"[work step 2 of 5] b","result"'
    assert disturbances("repeat").at_wire(call(frame)).repeat
    assert disturbances("repeat").at_wire(call(gzip.compress(frame), ("Content-Encoding", "gzip"))).repeat


@pytest.mark.parametrize(
    "other",
    [
        call(THIRD, method="GET"),
        call(THIRD, target="/v1/models"),
        call(THIRD.replace(b"work", b"helper")),
        call(b"not gzip", ("Content-Encoding", "gzip")),
        call(b'{"messages":["title, please"]}'),
    ],
    ids=["no-post", "no-model-call", "sub-agent", "garbage", "side-call"],
)
def test_other_requests_are_left_alone(other):
    planned = disturbances("drop-before")
    assert planned.at_wire(other) is None
    assert [disturbance.kind for disturbance in planned.pending] == ["drop-before"]


def test_the_first_step_is_a_request_without_any_marker():
    assert disturbances("drop-before", step=1).at_wire(call(b'{"messages":["go"]}')).drop


def test_only_the_shim_s_restart_happens_before_the_shim():
    planned = disturbances("drop-after", "shim-restarts")
    assert planned.at_agent(call(THIRD)).meanwhile is not None
    assert planned.at_agent(call(THIRD)) is None
    assert planned.at_wire(call(THIRD)).close_after


@pytest.mark.parametrize(
    ("kind", "what"),
    [("server-loses-state", "lose_server_state"), ("switched-off", "switch_off"), ("shim-restarts", "restart_shim")],
)
async def test_a_process_is_replaced_while_the_request_is_held(kind, what):
    class Transport(NoTransport):
        pass

    done = []

    async def act(self):
        done.append(what)

    setattr(Transport, what, act)
    scenario = Scenario(name="work", prompt="", turns=(Turn("x"),), disturbances=(Disturbance(step=3, kind=kind),))
    planned = Disturbances(scenario, Transport())
    intervention = planned.at_agent(call(THIRD)) or planned.at_wire(call(THIRD))
    await intervention.meanwhile()
    assert done == [what]
