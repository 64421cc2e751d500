# SPDX-License-Identifier: Apache-2.0
"""Whatever agents send and whatever the server loses: the model gets what was sent, once, and a frame never costs more.

Both cores joined in memory, every decision real, no sockets and no clock.
"""

from dataclasses import replace

from history_delta_protocol import wire
from history_delta_server.history import HistoryLimits
from history_delta_shim import core
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, precondition, rule
from support.accounting import check_forgets_all, check_server, check_shim
from support.json_bodies import CHAT, MESSAGES, RESPONSES, Body, as_history, bodies, body, pairs, raw_bodies, said
from support.link import Link, Server

TARGETS = {"/ng-rollout/r1" + CHAT: CHAT, RESPONSES: RESPONSES, MESSAGES: MESSAGES, "/ng-rollout/r2" + CHAT: CHAT}
AGENT_HEADERS = [("content-type", "application/json; charset=utf-8"), ("X-Many", "1"), ("X-Many", "2")]
ROOMY = HistoryLimits()
TINY = HistoryLimits(rollout_bytes=6_000, worker_bytes=12_000, items=3)


def send(link: Link, raw: bytes, target: str, *, may_resync: bool = True) -> core.Exchange:
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
    ids = {core.header_value(sent.headers, wire.DELIVERY_HEADER) for sent in crossed}
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
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
