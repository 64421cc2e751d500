# SPDX-License-Identifier: Apache-2.0
"""Whatever agents send and whatever the server loses: the model gets what was sent, once, and a frame never costs more.

Both cores joined in memory, every decision real, no sockets and no clock.
"""

import itertools
import random
from dataclasses import replace

import pytest
from history_delta_protocol import wire
from history_delta_server.history import HistoryLimits
from history_delta_shim import core
from history_delta_shim.headers import header_value
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, precondition, rule
from support.accounting import check_forgets_all, check_server, check_shim
from support.json_bodies import CHAT, MESSAGES, RESPONSES, Body, as_history, bodies, body, pairs, raw_bodies, said
from support.link import Link, Server, decode
from support.wandering import wander

TARGETS = {"/ng-rollout/r1" + CHAT: CHAT, RESPONSES: RESPONSES, MESSAGES: MESSAGES, "/ng-rollout/r2" + CHAT: CHAT}
AGENT_HEADERS = [("content-type", "application/json; charset=utf-8"), ("X-Many", "1"), ("X-Many", "2")]
ROOMY = HistoryLimits()
TINY = HistoryLimits(rollout_bytes=6_000, worker_bytes=12_000, items=3)


def send(link: Link, raw: bytes, target: str, *, may_resync: bool = True) -> core.ModelCall:
    """One call, with all that must hold of every call."""
    before = len(link.server.at_model)
    exchange = link.call(raw, target, AGENT_HEADERS)
    assert link.server.at_model[before:] == [raw]
    crossed = link.sent[-1]
    assert len(crossed) <= (2 if may_resync else 1), exchange.reason
    for sent in crossed:
        if sent.is_frame:
            assert len(sent.body) < len(raw)
        else:
            assert sent.body == raw
            assert sent.headers[: len(AGENT_HEADERS)] == AGENT_HEADERS
    assert not any(sent.is_frame for sent in crossed[1:])
    ids = {header_value(sent.headers, wire.DELIVERY_HEADER) for sent in crossed}
    assert ids == {exchange.delivery}
    check_server(link.server.store)
    check_shim(link.shim)
    return exchange


paths = st.sampled_from(sorted(TARGETS))
several = st.lists(st.builds(said, st.integers(1, 60), st.integers(100, 900)), min_size=3, max_size=9)


class Agents(RuleBasedStateMachine):
    """Several conversations of two shims in front of one server, which may lose what it holds at any moment."""

    sent = Bundle("sent")

    @initialize(target=sent, path=paths, first=several, tiny_server=st.booleans(), tiny_shim=st.booleans())
    def begin(self, path: str, first: list[bytes], tiny_server: bool, tiny_shim: bool) -> object:
        self.server = Server(limits=TINY if tiny_server else ROOMY)
        limits = core.Limits(conversation_bytes=20_000, item_bytes=4_000, body_bytes=20_000) if tiny_shim else None
        self.links = [Link(self.server, limits), Link(self.server, limits)]
        # A server that loses nothing never asks for a resync: a wrong frame would hide behind one.
        self.may_resync = tiny_server
        return self.call(path, body(*first, target=TARGETS[path]))

    def call(self, target: str, sent: Body | bytes, shim: int = 0) -> object:
        send(self.links[shim], sent.raw if isinstance(sent, Body) else sent, target, may_resync=self.may_resync)
        return (target, sent) if isinstance(sent, Body) else multiple()

    @rule(target=sent, data=st.data(), path=paths)
    def starts(self, data, path):
        return self.call(path, data.draw(bodies(TARGETS[path])))

    @rule(data=st.data(), path=paths)
    def sends_anything(self, data, path):
        self.call(path, data.draw(raw_bodies(TARGETS[path])))

    @rule(target=sent, of=sent, new=st.lists(pairs, min_size=1, max_size=3), shim=st.sampled_from([0, 0, 0, 1]))
    def goes_on(self, of, new, shim):
        path, last = of
        return self.call(path, replace(last, history=as_history([*last.history, *new])), shim)

    @rule(target=sent, of=sent, new=several)
    def goes_on_for_long(self, of, new):
        path, last = of
        history = [*last.history, *((b",", message) for message in new)]
        return self.call(path, replace(last, history=as_history(history)))

    @rule(target=sent, of=sent, data=st.data())
    def edits(self, of, data):
        path, last = of
        history = list(last.history)
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(history)))
            history[at : at + data.draw(st.integers(0, 2))] = data.draw(st.lists(pairs, max_size=2))
        return self.call(path, replace(last, history=as_history(history)))

    @rule(target=sent, of=sent, count=st.integers(1, 2), put_in=st.sampled_from([b' "x":1,', b" ", b'"cache":{},']))
    def rewrites_the_last_in_part(self, of, count, put_in):
        path, last = of
        kept, rewritten = last.history[:-count], last.history[-count:]
        changed = [(separator, message.replace(b"{", b"{" + put_in, 1)) for separator, message in rewritten]
        return self.call(path, replace(last, history=(*kept, *changed)))

    @rule(target=sent, of=sent, keep=st.integers(0, 4))
    def truncates(self, of, keep):
        path, last = of
        return self.call(path, replace(last, history=last.history[:keep]))

    @rule(target=sent, of=sent, first=st.integers(0, 2), final=st.integers(0, 2), summary=pairs)
    def compacts(self, of, first, final, summary):
        path, last = of
        rest = last.history[first:]
        history = [*last.history[:first], summary, *rest[len(rest) - final :]]
        return self.call(path, replace(last, history=as_history(history)))

    @rule(target=sent, of=sent, data=st.data())
    def changes_the_envelope(self, of, data):
        path, last = of
        other = data.draw(bodies(TARGETS[path]))
        head, tail = data.draw(
            st.sampled_from([(other.head, last.tail), (last.head, other.tail), (other.head, other.tail)])
        )
        return self.call(path, replace(last, head=head, tail=tail))

    @rule(of=sent, shim=st.integers(0, 1))
    def sends_the_same_again(self, of, shim):
        self.call(of[0], of[1], shim)

    @rule(of=sent, key=st.sampled_from([CHAT, RESPONSES]))
    def sends_it_elsewhere(self, of, key):
        self.call(key, of[1])

    @precondition(lambda self: self.server.enabled)
    @rule()
    def the_server_forgets(self):
        self.server.forget_everything()
        self.may_resync = True

    @rule(of=sent)
    def the_server_is_switched_off_for_a_while(self, of):
        self.may_resync = True
        self.server.enabled = False
        self.call(*of)
        self.call(*of)
        self.server.enabled = True

    @rule(seconds=st.sampled_from([1, 70, 700]))
    def time_passes(self, seconds):
        for link in self.links:
            link.now += seconds

    def teardown(self):
        if hasattr(self, "server"):
            check_forgets_all(self.server.store)


TestAgents = Agents.TestCase
TestAgents.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


SMALL_SHIM = core.Limits(conversation_bytes=60_000, item_bytes=8_000, body_bytes=40_000)


@pytest.mark.parametrize("limits", [ROOMY, TINY], ids=["roomy server", "tiny server"])
@pytest.mark.parametrize("shim", [None, SMALL_SHIM], ids=["roomy shim", "small shim"])
@pytest.mark.parametrize("seed", range(2))
def test_long_walks(seed, limits, shim):
    link = Link(Server(limits=limits), shim)
    for target, raw in wander(random.Random(seed), 300):
        send(link, raw, target, may_resync=limits is TINY)
    assert {"delta", "self-contained"} <= kinds_of(link)
    check_forgets_all(link.server.store)


def kinds_of(link: Link) -> set[str]:
    """What kinds of frames crossed."""
    frames = [decode(sent) for crossed in link.sent for sent in crossed if sent.is_frame]
    return {"delta" if sent.base_count else "self-contained" for sent in frames}


def test_a_walk_with_losses_of_all_kinds():
    """The server forgets, and is switched off and on, again and again."""
    rng = random.Random(9)
    link = Link(Server(limits=TINY))
    for target, raw in wander(rng, 600):
        if rng.random() < 0.05:
            link.server.forget_everything()
        if rng.random() < 0.05:
            link.server.enabled = not link.server.enabled
        link.now += rng.choice([0.1, 1, 30])
        send(link, raw, target)
    assert kinds_of(link) == {"delta", "self-contained"}


def test_identical_calls_reach_the_model_once_each():
    """Two sub-agents with one prompt, or a retry: each call is answered for itself, and costs no more than the line."""
    link = Link()
    first = body(*(said(n, 2000) for n in range(5)))
    ids = {send(link, first.raw, CHAT, may_resync=False).delivery for _ in range(6)}
    assert len(ids) == 6
    assert link.server.at_model == [first.raw] * 6
    assert all(len(crossed[0].body) <= 400 for crossed in link.sent[1:])


class Uplink:
    """Calls through both cores, no compression, and what each cost beside its new bytes."""

    def __init__(self) -> None:
        self.link = Link()
        self.link.shim.capabilities_answered(200, [], b'{"version": 1}')

    def costs(self, sent: Body, *new: bytes, target: str = CHAT) -> int:
        send(self.link, sent.raw, target, may_resync=False)
        return len(self.link.sent[-1][0].body) - sum(len(message) + 1 for message in new)


TOOLS = b'],"tools":[%s],"stream":true}' % (b'{"type":"function","name":"a tool"},' * 400 + b"0")


def test_side_calls_cost_the_main_conversation_nothing():
    """A title call without tools beside the first call, a summary call of the whole history without tools, a sub-agent
    with a prompt of its own: after each, the main conversation goes on for the price of what it appends."""
    uplink = Uplink()
    main = body(said(1, 9000), said(2, 500), tail=TOOLS)
    title = body(said(3, 300), said(2, 500), tail=b"]}")
    agent = body(said(4, 9000), said(5, 500), tail=TOOLS)
    for sent in (main, title, agent):
        uplink.costs(sent)
    for turn in range(10):
        main = main.and_then(said(100 + turn, 700), said(200 + turn, 300))
        assert uplink.costs(main, said(100 + turn, 700), said(200 + turn, 300)) <= 400
        summary = replace(main.and_then(said(300 + turn)), tail=b"]}")
        assert uplink.costs(summary, said(300 + turn)) <= 400
        agent = agent.and_then(said(400 + turn, 700))
        assert uplink.costs(agent, said(400 + turn, 700)) <= 400
        assert uplink.costs(title) <= 400


def test_parallel_sub_agents_with_one_prompt_cost_what_each_appends():
    """Forks of one long beginning, in turns: none takes another's base away."""
    uplink = Uplink()
    prompt = body(said(1, 12_000), said(2, 3000), tail=TOOLS)
    uplink.costs(prompt)
    agents = [prompt] * 4
    for turn, number in itertools.product(range(8), range(4)):
        new = said(1000 + 10 * turn + number, 1500)
        agents[number] = agents[number].and_then(new)
        assert uplink.costs(agents[number], new) <= 400, (turn, number)


def test_another_tail_with_each_call_is_bounded_and_always_held():
    """As Codex sends it: 9 kB, no two alike. Old ones go at both ends, and never one that a frame then names."""
    link = Link()
    histories = {target: body(said(1), said(2), target=target) for target in (CHAT, RESPONSES, MESSAGES)}
    rng = random.Random(4)
    for number in range(150):
        target = rng.choice(sorted(histories))
        tail = b'],"tools":[%s],"id":"%s"}' % (b'{"a tool":1},' * 700 + b"0", rng.randbytes(8).hex().encode())
        histories[target] = replace(histories[target].and_then(said(10 + number, 100)), tail=tail)
        send(link, histories[target].raw, target, may_resync=False)
    (rollout,) = link.server.store._rollouts.values()
    assert rollout._item_bytes <= 48 * 9_700


def test_a_main_conversation_survives_many_short_ones():
    uplink = Uplink()
    main = body(*(said(n, 2000) for n in range(20)), tail=TOOLS)
    uplink.costs(main)
    for number in range(200):
        uplink.costs(body(said(1000 + number, 300), tail=b"]}"))
    assert uplink.costs(main.and_then(said(500)), said(500)) <= 400


def test_a_growing_rollout_costs_a_thirtieth():
    """90 turns up to 500 kB: the target is 30 times fewer bytes than in full, 100 times with gzip."""
    plain, packed = Uplink(), Uplink()
    packed.link = Link()
    main = body(said(0, 9000), tail=TOOLS)
    full = 0
    for turn in range(90):
        words = b" ".join(b"line %d of the file\\n" % (turn * 7 + line % 60) for line in range(190))
        main = main.and_then(said(1000 + turn, 800), b'{"role":"tool","content":"%s"}' % words[:4700])
        full += len(main.raw)
        for uplink in (plain, packed):
            send(uplink.link, main.raw, CHAT, may_resync=False)
    assert 480_000 < len(main.raw) < 560_000
    assert full >= 30 * sum(len(crossed[0].body) for crossed in plain.link.sent)
    assert full >= 100 * sum(len(crossed[0].body) for crossed in packed.link.sent)
