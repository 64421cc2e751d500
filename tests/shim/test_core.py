# SPDX-License-Identifier: Apache-2.0
"""The shim's decisions call by call: what it sends, and what it does with any answer."""

import itertools
import json
import random
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from history_delta_protocol import encoding, frame, wire
from history_delta_server.history import HistoryLimits
from history_delta_shim import core
from history_delta_shim.core import Core, Limits, ModelCall
from history_delta_shim.headers import header_value
from support.accounting import check_shim
from support.interpreters import supported
from support.json_bodies import CHAT, MESSAGES, RESPONSES, Body, body, said
from support.link import CAPABILITIES, JSON_HEADERS, Link, Server, decode, held_text
from support.wandering import wander

ONE = body(*(said(n, 800) for n in range(4)))
TWO = ONE.and_then(said(10), said(11))
SPOKEN = (wire.VERSION_HEADER, "1")


def speaking(**options) -> Core:
    shim = Core(**{"rollout": "r1", **options})
    shim.capabilities_answered(200, [], CAPABILITIES)
    return shim


def start(shim: Core, sent: Body | bytes, target: str = CHAT, headers=JSON_HEADERS, method: str = "POST") -> ModelCall:
    return shim.start(method, target, headers, sent.raw if isinstance(sent, Body) else sent)


def acknowledge(exchange: ModelCall) -> None:
    assert exchange.answered(200, [SPOKEN, (wire.HELD_HEADER, held_text(exchange))]) == core.RELAY


def taught(**options) -> Core:
    """A shim whose server holds ONE."""
    shim = speaking(**options)
    acknowledge(start(shim, ONE))
    return shim


class Sent:
    """A message as the link's server wants it."""

    def __init__(self, exchange: ModelCall) -> None:
        self.headers, self.body = exchange.headers, exchange.body
        self.is_frame = header_value(exchange.headers, "Content-Type") == wire.FRAME_MEDIA_TYPE


def is_full(exchange: ModelCall) -> bool:
    media_type = header_value(exchange.headers, "content-type")
    return exchange.body == exchange.agent_body and media_type != wire.FRAME_MEDIA_TYPE


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_a_first_call_is_self_contained_and_the_next_a_delta():
    shim = speaking()
    first = start(shim, ONE)
    assert (first.kind, first.reason) == (core.SELF_CONTAINED, "no-base")
    acknowledge(first)
    second = start(shim, TWO)
    assert (second.kind, second.reason) == (core.DELTA, None)
    assert len(second.body) < len(first.body)


@pytest.mark.parametrize(
    ("method", "target", "reason"),
    [
        ("GET", CHAT, "not-a-model-call"),
        ("PUT", CHAT, "not-a-model-call"),
        ("POST", "/v1/embeddings", "not-a-model-call"),
        ("POST", CHAT + "/more", "not-a-model-call"),
        ("POST", "/ng-rollout/.bad" + CHAT, "rollout-id-invalid"),
        ("POST", "/ng-rollout/" + "x" * 201 + CHAT, "rollout-id-invalid"),
    ],
)
def test_what_is_not_ours_passes_as_it_is(method, target, reason):
    shim = taught()
    exchange = start(shim, TWO, target, method=method)
    assert (exchange.kind, exchange.reason, exchange.delivery) == (core.PASS_THROUGH, reason, None)
    assert (exchange.headers, exchange.body) == (JSON_HEADERS, TWO.raw)
    for answer in [(409, [SPOKEN, (wire.RESYNC_HEADER, "unknown-base")]), (404, []), (200, [])]:
        assert exchange.answered(*answer) == core.RELAY


def test_disabled_everything_passes_as_it_is():
    shim = Core(enabled=False)
    assert shim.capabilities_target(CHAT) is None
    exchange = start(shim, ONE)
    assert (exchange.kind, exchange.reason, exchange.delivery) == (core.PASS_THROUGH, "disabled", None)
    assert exchange.headers == JSON_HEADERS


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([*JSON_HEADERS, ("Content-Encoding", "gzip")], "content-encoding"),
        ([*JSON_HEADERS, ("content-encoding", "identity")], "content-encoding"),
        ([*JSON_HEADERS, ("content-type", "text/plain")], "content-type-repeated"),
        ([("Content-Type", "text/html\x01")], "content-type-not-restorable"),
        ([("Content-Type", "a/b\r\nX-Evil: 1")], "content-type-not-restorable"),
        ([("Content-Type", wire.FRAME_MEDIA_TYPE)], "content-type-not-restorable"),
        ([("Content-Type", "caf\u20ac")], "content-type-not-restorable"),
    ],
)
def test_what_a_frame_cannot_tell_goes_in_full(headers, reason):
    exchange = start(taught(), TWO, headers=headers)
    assert (exchange.kind, exchange.reason) == (core.FULL, reason)
    assert exchange.body == TWO.raw
    assert exchange.headers[: len(headers)] == headers


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"", "not-json"),
        (b'{"input":"text"}', "no-history"),
        (b'{"messages":"text"}', "no-history"),
        (b"\xef\xbb\xbf" + ONE.raw, "not-json"),
        (ONE.raw.decode().encode("utf-16"), "not-json"),
        (ONE.raw[:-5] + b"\xff", None),
        (b'{"messages":[%s]}' % (b"[" * 513 + b"]" * 513), "too-deep"),
    ],
)
def test_what_is_not_understood_goes_in_full(sent, reason):
    exchange = start(taught(), sent)
    if reason is None:
        # What stands behind the history is nobody's business.
        assert exchange.kind == core.DELTA
    else:
        assert (exchange.kind, exchange.reason, exchange.body) == (core.FULL, reason, sent)


def test_a_body_over_the_shim_s_own_limit_goes_in_full_and_is_not_kept():
    shim = taught(limits=Limits(body_bytes=len(ONE.raw)))
    exchange = start(shim, TWO)
    assert (exchange.kind, exchange.reason) == (core.FULL, "too-large")
    assert exchange.answered(200, [SPOKEN, (wire.HELD_HEADER, "6 " + "x" * 43)]) == core.RELAY
    assert exchange.taken is None


@pytest.mark.parametrize(("path", "named"), [("/v1/chat/completions", True), ("/ng-rollout/r1/v1/messages", False)])
def test_a_body_that_is_not_seen_has_a_delivery_and_a_rollout_and_is_no_base(path, named):
    shim = taught(rollout="r2")
    exchange = shim.start_unseen("POST", path)
    names = {name for name, _ in exchange.headers}
    rollout = {wire.ROLLOUT_HEADER} if named else set()
    assert names == {wire.VERSION_HEADER, wire.DELIVERY_HEADER, wire.FULL_HEADER} | rollout
    assert (exchange.kind, exchange.reason) == (core.FULL, "too-large")
    assert exchange.answered(200, [SPOKEN, (wire.HELD_HEADER, "6 " + "x" * 43)]) == core.RELAY
    assert exchange.taken is None


@pytest.mark.parametrize("path", ["/v1/files", "/ng-rollout/%ff/v1/messages"])
def test_what_is_no_call_of_the_protocol_s_gets_no_header_unseen_either(path):
    exchange = taught().start_unseen("POST", path)
    assert (exchange.headers, exchange.delivery, exchange.kind) == ([], None, core.PASS_THROUGH)


@pytest.mark.parametrize("limits", [{"body_bytes": 100}, {"frame_line_bytes": 100}, {"messages": 5}])
def test_what_is_over_the_server_s_limits_goes_in_full(limits):
    shim = taught()
    shim.capabilities_answered(200, [], json.dumps({"version": 1, "limits": limits}).encode())
    assert (start(shim, TWO).kind, start(shim, TWO).reason) == (core.FULL, "over-peer-limit")


@pytest.mark.parametrize("spare", [0, 1])
def test_a_frame_that_is_over_the_server_s_limit_before_it_is_compressed_goes_in_full(spare):
    """Its line is longer than nothing: a frame that names nothing held is larger than its body."""
    least = len(frame.encode(decode(start(speaking(), ONE))))
    assert least > len(ONE.raw)
    document = {"version": 1, "encodings": ["gzip"], "limits": {"body_bytes": least - 1 + spare}}
    shim = speaking()
    shim.capabilities_answered(200, [], json.dumps(document).encode())
    call = start(shim, ONE)
    assert (call.kind, call.reason) == [(core.FULL, "over-peer-limit"), (core.SELF_CONTAINED, "no-base")][spare]


@pytest.mark.parametrize("part", ["head", "message", "tail"])
def test_an_item_of_more_pieces_than_the_server_takes_goes_in_full(part):
    def with_mark(marked: str) -> bytes:
        """A long head, message and tail, of which one has a mark in its midst."""
        head, message, tail = (
            b"x" * 400 + b"!" * (name == marked) + b"x" * 400 for name in ("head", "message", "tail")
        )
        return b'{"model":"%s","messages":[{"content":"%s"},1],"user":"%s"}' % (head, message, tail)

    shim = speaking()
    acknowledge(start(shim, with_mark("nothing")))
    call = start(shim, with_mark(part))
    built = decode(call)
    item = built.edits[0].insert[0][1] if part == "message" else getattr(built, part)
    assert (call.kind, len(item.pieces)) == (core.DELTA, 3)
    for most, kind in ((3, core.DELTA), (2, core.FULL)):
        shim.capabilities_answered(200, [], json.dumps({"version": 1, "limits": {"pieces": most}}).encode())
        assert start(shim, with_mark(part)).kind == kind


def test_a_frame_that_is_no_smaller_is_not_sent():
    shim = speaking()
    tiny = body(b"1", b"2")
    acknowledge(start(shim, tiny))
    exchange = start(shim, tiny.and_then(b"3"))
    assert (exchange.kind, exchange.reason) == (core.FULL, "frame-not-smaller")


def test_a_frame_of_the_body_s_own_size_is_not_sent():
    def call(padding: int) -> ModelCall:
        shim = speaking()
        shim.capabilities_answered(200, [], b'{"version": 1}')
        sent = body(b"1", tail=b'],"padding":"%s"}' % (b"x" * padding))
        acknowledge(start(shim, sent))
        return start(shim, sent)

    # The frame names the tail by its hash: it stays as it is while the body grows.
    padding = next(padding for padding in range(1, 500) if not is_full(call(padding)))
    just_smaller = call(padding)
    assert len(just_smaller.body) == len(just_smaller.agent_body) - 1
    assert call(padding - 1).reason == "frame-not-smaller"


@pytest.mark.parametrize("encodings", [[], ["zstd"], ["gzip"]])
def test_only_an_advertised_coding_is_used(encodings):
    shim = speaking()
    shim.capabilities_answered(200, [], json.dumps({"version": 1, "encodings": encodings}).encode())
    acknowledge(start(shim, ONE))
    exchange = start(shim, ONE.and_then(b'"%s"' % (b"packs well " * 100)))
    assert exchange.kind == core.DELTA
    coding = header_value(exchange.headers, "Content-Encoding")
    if encodings == ["gzip"]:
        assert coding == "gzip"
        assert encoding.gunzip(exchange.body, 10**6).startswith(b'{"content_type"')
    else:
        assert coding is None
        assert exchange.body.startswith(b'{"content_type"')


def test_a_small_frame_is_not_packed_for_nothing():
    shim = speaking()
    rng = random.Random(1)
    noise = [b'"%s"' % rng.randbytes(200).hex().encode() for _ in range(5)]
    acknowledge(start(shim, body(*noise)))
    exchange = start(shim, body(*noise))
    gzipped = header_value(exchange.headers, "Content-Encoding") == "gzip"
    assert len(exchange.body) <= len(frame.encode(decode_exchange(exchange)))
    assert gzipped == (len(exchange.body) < len(frame.encode(decode_exchange(exchange))))


def decode_exchange(exchange: ModelCall) -> frame.Frame:
    return decode(exchange)


AGENT = [
    ("User-Agent", "agent"),
    ("X-Many", "1"),
    ("content-TYPE", "application/json; charset=utf-8"),
    ("x-many", "2"),
    ("History-Delta-Rollout", "forged"),
    ("hISTORY-dELTA-vERSION", "9"),
    ("Authorization", "Bearer x"),
]
AGENT_KEPT = [AGENT[0], AGENT[1], AGENT[2], AGENT[3], AGENT[6]]


def test_headers_keep_their_order_case_and_duplicates():
    shim = taught()
    for sent, replaced in [(b"no json", None), (TWO.raw, wire.FRAME_MEDIA_TYPE)]:
        exchange = start(shim, sent, headers=AGENT)
        theirs = exchange.headers[: len(AGENT_KEPT)]
        assert theirs == [(key, replaced if key == "content-TYPE" and replaced else value) for key, value in AGENT_KEPT]
        ours = dict(exchange.headers[len(AGENT_KEPT) :])
        ours.pop("Content-Encoding", None)
        assert ours == {
            "History-Delta-Version": "1",
            "History-Delta-Delivery": exchange.delivery,
            "History-Delta-Rollout": "r1",
            **({} if replaced else {"History-Delta-Full": "not-json"}),
        }
    assert decode_exchange(exchange).content_type == "application/json; charset=utf-8"


def test_a_request_without_a_content_type_gets_none_back():
    shim = taught()
    exchange = start(shim, TWO, headers=[("Accept", "*/*")])
    assert header_value(exchange.headers, "Content-Type") == wire.FRAME_MEDIA_TYPE
    assert decode_exchange(exchange).content_type is None
    exchange.answered(409, [SPOKEN, (wire.RESYNC_HEADER, "unknown-base")])
    assert header_value(exchange.headers, "Content-Type") is None


def test_the_rollout_is_named_where_the_path_names_none():
    shim = speaking(rollout=None)
    minted = header_value(start(shim, ONE).headers, wire.ROLLOUT_HEADER)
    assert re.fullmatch("[0-9a-f]{32}", minted)
    assert header_value(start(shim, ONE).headers, wire.ROLLOUT_HEADER) == minted
    assert header_value(start(shim, ONE, "/ng-rollout/r9" + CHAT).headers, wire.ROLLOUT_HEADER) is None


def test_every_call_has_a_delivery_of_its_own():
    shim = speaking()
    ids = {start(shim, ONE).delivery for _ in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch("[0-9a-f]{32}", delivery) for delivery in ids)


def test_histories_of_other_rollouts_dialects_and_base_paths_are_no_bases():
    shim = taught()
    same = body(*(message for _, message in ONE.history))
    assert start(shim, same).kind == core.DELTA
    assert start(shim, same, "/ng-rollout/r9" + CHAT).kind == core.SELF_CONTAINED
    assert start(shim, same, MESSAGES).kind == core.SELF_CONTAINED
    assert start(shim, same, "/ng-rollout/r9/v2/chat/completions").kind == core.SELF_CONTAINED


def test_what_the_agent_sees_of_a_response_is_not_ours():
    exchange = start(taught(), TWO)
    headers = [("X-A", "1"), SPOKEN, ("history-delta-anything", "x"), ("x-a", "2")]
    assert exchange.response_headers(headers) == [("X-A", "1"), ("x-a", "2")]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (CHAT, "/v1/.well-known/history-delta"),
        (RESPONSES + "?stream=1", "/v1/.well-known/history-delta"),
        ("/ng-rollout/r9/training-token-capture" + MESSAGES, "/v1/.well-known/history-delta"),
        ("/base/ng-rollout/r9" + CHAT, "/base/v1/.well-known/history-delta"),
        ("/v1/models", None),
        ("/ng-rollout/.bad" + CHAT, None),
    ],
)
def test_where_capabilities_are_asked_for(target, path):
    assert Core().capabilities_target(target) == path


def test_capabilities_are_asked_for_at_a_bounded_rate():
    """A call a second for an hour, in front of a server that never speaks."""
    now = [0.0]
    shim = Core(clock=lambda: now[0])
    asked = []
    for second in range(3600):
        now[0] = float(second)
        if shim.capabilities_target(CHAT) is not None:
            asked.append(second)
            shim.capabilities_answered(404, [], b"")
        assert start(shim, ONE).answered(200, []) == core.RELAY
    assert asked[:6] == [0, 60, 180, 420, 900, 1500]
    assert len(asked) == 9


# --- what is done with an answer --------------------------------------------------------------------------------------

STATUSES = [200, 302, 400, 404, 409, 429, 500, 501, 503]
VERSIONS = [None, "1", "2"]
RESYNCS = [None, "unknown-base", "disabled"]


def answer(status: int, version: str | None, resync: str | None, held: str | None) -> tuple[int, list]:
    named = [(wire.VERSION_HEADER, version), (wire.RESYNC_HEADER, resync), (wire.HELD_HEADER, held)]
    # In another case, as an intermediary may write them.
    return status, [("Content-Type", "x"), *((name.lower(), value) for name, value in named if value is not None)]


def expected_action(sent_frame: bool, status: int, version: str | None, resync: str | None) -> str:
    """DESIGN section 3, in its own order."""
    if status == 409 and version == "1" and resync is not None:
        return core.RESEND if sent_frame else core.REFUSE
    if sent_frame and version != "1" and (400 <= status < 500 or status == 501):
        return core.RESEND
    return core.RELAY


def expected_to_speak(sent_frame: bool, action: str, status: int, version: str | None, resync: str | None) -> bool:
    """The server was known to speak before."""
    if action == core.RESEND:
        return resync != "disabled" if version == "1" else status == 429
    return not (status < 300 and version != "1" and not sent_frame)


ANSWERS = {
    status: list(itertools.product([status], VERSIONS, RESYNCS, ["right", "wrong", None])) for status in STATUSES
}
REFUSED = (409, "1", "unknown-base", None), (404, None, None, None), (409, "1", "disabled", None)


def held_value(kind: str | None, exchange: ModelCall) -> str | None:
    return {"right": held_text(exchange), "wrong": "3 " + "A" * 43, None: None}[kind]


def after_any_answer(link: Link, sent: Body, answers: list[tuple], *, as_frame: bool) -> tuple[ModelCall, list[str]]:
    """A call whose answers are made up; the server behind has seen nothing of it."""
    exchange = start(link.shim, sent)
    assert is_full(exchange) != as_frame
    actions = []
    for status, version, resync, held in answers:
        sent_frame = not is_full(exchange)
        action = exchange.answered(*answer(status, version, resync, held_value(held, exchange)))
        assert action == expected_action(sent_frame, status, version, resync)
        if not actions and action != core.REFUSE:
            speaks = expected_to_speak(sent_frame, action, status, version, resync)
            assert link.shim.peer.speaking == speaks
        actions.append(action)
        if action == core.RESEND:
            assert is_full(exchange)
            assert exchange.headers[: len(JSON_HEADERS)] == JSON_HEADERS
            assert header_value(exchange.headers, "Content-Encoding") is None
            continue
        break
    assert actions.count(core.RESEND) <= 1
    return exchange, actions


def works_on(link: Link, sent: Body) -> None:
    """The next calls of the conversation get through, with one full send at most."""
    for number in range(2):
        sent = sent.and_then(said(50 + number))
        link.call(sent.raw)
        assert link.server.at_model[-1] == sent.raw
        assert sum(not crossed.is_frame for crossed in link.sent[-1]) <= 1
    check_shim(link.shim)


@pytest.mark.parametrize("status", STATUSES)
def test_any_answer_to_a_frame(status):
    for first in ANSWERS[status]:
        link = Link()
        link.call(ONE.raw)
        exchange, actions = after_any_answer(link, TWO, [first, (200, "1", None, "right")], as_frame=True)
        assert exchange.refusal is None
        assert actions[-1] == core.RELAY
        works_on(link, TWO)


@pytest.mark.parametrize("status", STATUSES)
def test_any_answer_to_a_full_body(status):
    for answered in ANSWERS[status]:
        link = Link()
        link.call(ONE.raw)
        # The next call of this conversation is sent in full.
        for _ in range(3):
            link.shim.refused(link.shim._conversations.candidates(("chat", "", "r1"))[0].health)
        exchange, actions = after_any_answer(link, TWO, [answered], as_frame=False)
        assert actions == [core.RELAY if exchange.refusal is None else core.REFUSE]
        if exchange.refusal is not None:
            assert link.shim.peer.speaking
            refused, headers, shown = exchange.refusal
            assert (refused, header_value(headers, "Retry-After")) == (503, "1")
            assert json.loads(shown)["error"]["code"] == "history_delta_unavailable"
        works_on(link, TWO)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("first", REFUSED)
def test_any_answer_to_the_full_body_after_a_frame_was_refused(first, status):
    for second in ANSWERS[status]:
        link = Link()
        link.call(ONE.raw)
        exchange, actions = after_any_answer(link, TWO, [first, second], as_frame=True)
        assert actions == [core.RESEND, core.RELAY if exchange.refusal is None else core.REFUSE]
        works_on(link, TWO)


@pytest.mark.parametrize("target", [CHAT, RESPONSES, MESSAGES])
def test_a_second_resync_is_a_503_in_the_dialect_s_shape(target):
    shim = speaking()
    exchange = start(shim, body(*(said(n, 800) for n in range(4)), target=target), target)
    resync = (409, [SPOKEN, (wire.RESYNC_HEADER, "new-owner")])
    assert [exchange.answered(*resync), exchange.answered(*resync)] == [core.RESEND, core.REFUSE]
    status, headers, refusal = exchange.refusal
    assert (status, headers) == (503, [("Content-Type", "application/json"), ("Retry-After", "1")])
    document = json.loads(refusal)
    assert document["error"]["code"] == "history_delta_unavailable"
    assert "new-owner" in document["error"]["message"]
    assert document["error"]["type"] == "api_error"
    assert (document.get("type") == "error") == (target == MESSAGES)
    assert ("param" in document["error"]) == (target != MESSAGES)


def test_after_a_resync_nothing_that_the_frame_built_on_is_counted_on():
    shim = taught()
    exchange = start(shim, TWO)
    assert exchange.answered(409, [SPOKEN, (wire.RESYNC_HEADER, "unknown-base")]) == core.RESEND
    other = start(shim, TWO)
    assert other.kind == core.SELF_CONTAINED
    built = decode_exchange(other)
    assert isinstance(built.head, bytes)
    assert isinstance(built.tail, bytes)
    acknowledge(exchange)
    assert start(shim, TWO.and_then(said(20))).kind == core.DELTA


def test_a_full_answer_that_holds_something_else_is_no_base():
    lines = []
    shim = speaking(log=lines.append)
    for held in ["4 " + "A" * 43, "", "4", "x " * 200, "-1 x", "4  " + "A" * 43, "\u00e9"]:
        exchange = start(shim, ONE)
        assert exchange.answered(200, [SPOKEN, (wire.HELD_HEADER, held)]) == core.RELAY
        assert start(shim, TWO).kind == core.SELF_CONTAINED
    assert len(lines) == 7
    assert all("not used as a base" in line and len(line) < 200 for line in lines)


def test_a_body_sent_before_the_peer_was_known_to_speak_becomes_a_base_by_its_answer():
    shim = Core(rollout="r1")
    exchange = start(shim, ONE)
    assert (exchange.kind, exchange.reason, exchange.taken) == (core.FULL, "peer-does-not-speak", None)
    # The server's own count and chain, found without the shim's help.
    acknowledged = start(speaking(), ONE)
    assert exchange.answered(200, [SPOKEN, (wire.HELD_HEADER, held_text(acknowledged))]) == core.RELAY
    assert start(shim, TWO).kind == core.DELTA


@pytest.mark.parametrize("held", [None, "4 " + "A" * 43])
def test_what_was_sent_before_the_peer_was_known_is_no_base_without_its_word(held):
    shim = Core(rollout="r1")
    exchange = start(shim, ONE)
    exchange.answered(200, [SPOKEN, *([(wire.HELD_HEADER, held)] if held else [])])
    # A frame without a base is larger than the body, as long as no coding is known to be taken.
    assert (start(shim, TWO).kind, start(shim, TWO).reason) == (core.FULL, "frame-not-smaller")


def test_an_answer_reported_twice_counts_once():
    shim = speaking()
    exchange = start(shim, ONE)
    for _ in range(3):
        acknowledge(exchange)
    check_shim(shim)
    assert len(shim._conversations) == 1


@pytest.mark.parametrize("status", [401, 403, 407, 408, 429])
def test_an_ingress_that_would_refuse_a_body_too_says_nothing_of_frames(status):
    shim = taught()
    exchange = start(shim, TWO)
    assert exchange.answered(*answer(status, None, None, None)) == core.RESEND
    assert (exchange.kind, exchange.reason) == (core.FULL, "frame-not-understood")
    assert exchange.answered(*answer(status, None, None, None)) == core.RELAY
    assert start(shim, TWO).kind == core.DELTA


@pytest.mark.parametrize(("status", "version"), [(500, None), (502, "2"), (503, None), (302, None), (200, None)])
def test_after_a_failure_that_may_be_the_frame_s_the_next_call_goes_in_full(status, version):
    shim = taught()
    exchange = start(shim, TWO)
    assert exchange.answered(*answer(status, version, None, None)) == core.RELAY
    again = start(shim, TWO)
    assert (again.kind, again.reason) == (core.FULL, "suspended")
    acknowledge(again)
    assert start(shim, TWO.and_then(said(20))).kind == core.DELTA


def test_a_connection_that_broke_under_a_frame_counts_like_a_failure():
    shim = taught()
    start(shim, TWO).failed()
    assert start(shim, TWO).kind == core.FULL
    start(shim, TWO).failed()
    assert start(shim, TWO).kind == core.FULL


def test_what_a_conversation_has_become_replaces_it():
    """Forty calls of a conversation, its last message marked anew in each, are one conversation."""
    link = Link()
    messages: list[bytes] = []
    for number in range(40):
        messages.append(b'{"role":"user","content":"%s"}' % said(number, 900)[27:-2])
        marked = [*messages[:-1], messages[-1].replace(b"{", b'{"cache_control":1,', 1)]
        link.call(body(*marked).raw)
        check_shim(link.shim)
        assert len(link.shim._conversations) == 1


# --- suspensions ------------------------------------------------------------------------------------------------------


class Forgetful(Server):
    """Forgets everything before every call."""

    def receive(self, target, sent):
        self.forget_everything()
        return super().receive(target, sent)


def full_runs(kinds: list[str]) -> list[int]:
    """Lengths of the runs of calls that were sent in full from the start."""
    return [len(list(run)) for kind, run in itertools.groupby(kinds) if kind == "full"]


def test_a_conversation_whose_frames_are_refused_is_sent_in_full_for_longer_and_longer():
    lines = []
    link = Link(Forgetful())
    link.shim.log = lines.append
    kinds = []
    sent = ONE
    for number in range(250):
        sent = sent.and_then(said(100 + number, 60))
        link.call(sent.raw)
        assert link.server.at_model[-1] == sent.raw
        kinds.append("frame" if link.sent[-1][0].is_frame else "full")
    assert full_runs(kinds)[:5] == [8, 16, 32, 64, 64]
    # The very first call builds on nothing, and is no row's.
    frames = [len(list(run)) for kind, run in itertools.groupby(kinds) if kind == "frame"]
    assert frames[:5] == [4, 3, 3, 3, 3]
    assert [int(re.search(r"next (\d+) calls", line).group(1)) for line in lines][:5] == [8, 16, 32, 64, 64]


def test_a_suspended_conversation_recovers():
    link = Link(Forgetful())
    sent = ONE
    for number in range(7):
        sent = sent.and_then(said(100 + number))
        link.call(sent.raw)
    link.server = steady = Server()
    kinds = []
    for number in range(12):
        sent = sent.and_then(said(200 + number))
        kinds.append(link.call(sent.raw).kind)
        assert steady.at_model[-1] == sent.raw
    assert kinds.count(core.FULL) <= 8
    assert kinds[-3:] == [core.DELTA] * 3


def test_one_conversation_s_suspension_is_not_another_s():
    """Conversations with the same system prompt, one of which the server keeps losing."""
    link = Link()
    system = said(1, 2000)
    bad, good = body(system, said(2, 2000)), body(system, said(3, 2000))
    link.call(bad.raw)
    link.call(good.raw)
    refused, kinds = [], []
    for number in range(20):
        bad, good = bad.and_then(said(100 + number)), good.and_then(said(200 + number))
        exchange = start(link.shim, bad)
        refused.append("full" if is_full(exchange) else "frame")
        if not is_full(exchange):
            exchange.answered(409, [SPOKEN, (wire.RESYNC_HEADER, "unknown-base")])
        exchange.answered(*link.server.receive(CHAT, Sent(exchange)))
        kinds.append(link.call(good.raw).kind)
    assert full_runs(refused)[0] == 8
    assert kinds == [core.DELTA] * 20


def test_frames_that_continue_nothing_are_suspended_too():
    """Each call a history of its own that shares its first message with the last: no conversation, and one health."""
    link = Link(Forgetful())
    kinds = []
    for number in range(30):
        link.call(body(said(1), said(100 + number, 2000)).raw)
        kinds.append("frame" if link.sent[-1][0].is_frame else "full")
    assert full_runs(kinds)[:1] == [8]


def test_a_mixed_fleet_is_tried_less_and_less():
    """Behind one address a server that speaks and one that does not, by turns: frames meet a 404."""
    link = Link()
    sent = ONE
    link.call(sent.raw)
    refused = 0
    for number in range(60):
        sent = sent.and_then(said(100 + number, 60))
        exchange = start(link.shim, sent)
        if not is_full(exchange):
            refused += 1
            assert exchange.answered(404, []) == core.RESEND
        assert exchange.answered(*link.server.receive(CHAT, Sent(exchange))) == core.RELAY
    assert refused <= 12


# --- several calls at once --------------------------------------------------------------------------------------------


def test_two_calls_of_one_conversation_in_flight_with_equal_bytes():
    link = Link()
    link.call(ONE.raw)
    first, second = start(link.shim, TWO), start(link.shim, TWO)
    assert first.delivery != second.delivery
    for exchange in (second, first):
        assert exchange.answered(*link.server.receive(CHAT, Sent(exchange))) == core.RELAY
    assert link.server.at_model[1:] == [TWO.raw, TWO.raw]
    works_on(link, TWO)


def test_forks_in_flight_are_each_built_on_what_they_share():
    link = Link()
    link.call(ONE.raw)
    forks = [ONE.and_then(said(100 + n)) for n in range(5)]
    for _ in range(3):
        exchanges = [start(link.shim, fork) for fork in forks]
        assert [exchange.kind for exchange in exchanges] == [core.DELTA] * 5
        for exchange in reversed(exchanges):
            assert exchange.answered(*link.server.receive(CHAT, Sent(exchange))) == core.RELAY
        assert sorted(link.server.at_model[-5:]) == sorted(fork.raw for fork in forks)
        assert all(len(exchange.body) < 1000 for exchange in exchanges)
        forks = [fork.and_then(said(1000 + n, 300)) for n, fork in enumerate(forks)]


def test_a_base_that_falls_out_of_the_shim_while_its_frame_is_under_way():
    link = Link(limits=Limits(conversation_bytes=len(TWO.raw) * 2))
    link.call(ONE.raw)
    exchange = start(link.shim, TWO)
    for number in range(5):
        link.call(body(*(said(500 + number * 10 + n, 800) for n in range(4))).raw)
    assert exchange.answered(*link.server.receive(CHAT, Sent(exchange))) == core.RELAY
    assert link.server.at_model[-1] == TWO.raw
    works_on(link, TWO)


def test_a_resync_of_one_call_leaves_the_one_beside_it_right():
    link = Link()
    link.call(ONE.raw)
    first, second = start(link.shim, TWO), start(link.shim, ONE.and_then(said(30)))
    link.server.forget_everything()
    assert first.answered(*link.server.receive(CHAT, Sent(first))) == core.RESEND
    assert second.answered(*link.server.receive(CHAT, Sent(second))) == core.RESEND
    for exchange, sent in ((second, ONE.and_then(said(30))), (first, TWO)):
        assert exchange.answered(*link.server.receive(CHAT, Sent(exchange))) == core.RELAY
        assert link.server.at_model[-1] == sent.raw
    works_on(link, TWO)


class Guarded:
    """Stands for something that calls share: each use of it must be under the core's lock."""

    def __init__(self, shared: object, lock: threading.Lock) -> None:
        self.__dict__.update(shared=shared, lock=lock, used=[])

    def __getattr__(self, name: str) -> object:
        assert self.lock.locked(), name
        self.used.append(name)
        return getattr(self.shared, name)

    def __len__(self) -> int:
        return self.__getattr__("__len__")()


def test_all_that_calls_share_is_used_under_the_lock():
    """What a test with threads finds only with luck."""
    link = Link()
    shared = ["_conversations", "_heads", "_tails", "_health"]
    for name in shared:
        setattr(link.shim, name, Guarded(getattr(link.shim, name), link.shim._lock))
    for target, raw in wander(random.Random(3), 60):
        link.call(raw, target)
    link.server.forget_everything()
    for target, raw in wander(random.Random(3), 10):
        link.call(raw, target)
    assert all(getattr(link.shim, name).used for name in shared)


@pytest.mark.parametrize("change", ["suspended", "resynced", "failed", "accepted"])
def test_a_conversation_s_health_changes_under_the_lock(monkeypatch, change):
    locked = []
    real = getattr(core.Health, change)
    shim = taught()

    def changing(health):
        locked.append(shim._lock.locked())
        return real(health)

    monkeypatch.setattr(core.Health, change, changing)
    acknowledge(start(shim, TWO))
    start(shim, TWO).answered(500, [])
    start(shim, ONE).answered(409, [SPOKEN, (wire.RESYNC_HEADER, "mismatch")])
    assert locked
    assert all(locked)


class Agent(threading.Thread):
    """Calls of its own, and of a conversation that all have in common, as fast as they go."""

    def __init__(self, number: int, shim: Core, server: Server, lock: threading.Lock) -> None:
        super().__init__()
        self.number, self.shim, self.server, self.lock = number, shim, server, lock
        self.sent: list[bytes] = []
        self.failures: list[object] = []

    def run(self) -> None:
        try:
            self.converse(random.Random(self.number))
        except BaseException as error:
            self.failures.append(error)
            raise

    def converse(self, rng: random.Random) -> None:
        own = body(said(10_000 + self.number, 1500))
        common = ONE
        for call in range(40):
            own = own.and_then(said(rng.randrange(9999), rng.choice([50, 400])))
            common = common.and_then(said(call)) if rng.random() < 0.7 else ONE.and_then(said(rng.randrange(9999)))
            for sent in (own, common):
                self.call(sent.raw)

    def call(self, raw: bytes) -> None:
        self.shim.capabilities_target(CHAT)
        exchange = start(self.shim, raw)
        actions = []
        while actions[-1:] != [core.RELAY]:
            with self.lock:
                answer = self.server.receive(CHAT, Sent(exchange))
            actions.append(exchange.answered(*answer))
            if len(actions) > 2:
                self.failures.append((actions, exchange.reason))
                break
        self.sent.append(raw)


@pytest.mark.parametrize("limits", [HistoryLimits(), HistoryLimits(rollout_bytes=60_000, items=3)])
def test_many_threads_at_once(limits):
    """The lock round the server is the server's one event loop; the shim has a thread for each call."""
    shim = speaking(limits=Limits(conversation_bytes=200_000, item_bytes=8_000))
    server, lock = Server(limits=limits), threading.Lock()
    agents = [Agent(number, shim, server, lock) for number in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for agent in agents:
            agent.start()
        for agent in agents:
            agent.join(60)
    finally:
        sys.setswitchinterval(interval)
    assert [agent.failures for agent in agents] == [[]] * 8
    assert sorted(server.at_model) == sorted(itertools.chain.from_iterable(agent.sent for agent in agents))
    check_shim(shim)


# --- other interpreters -----------------------------------------------------------------------------------------------

REPLAY = Path(__file__).parents[1] / "support" / "replay_core.py"
ROOT = Path(__file__).parents[2]


def replay(python: str, calls: Path) -> list[str]:
    folders = [str(ROOT / "protocol"), str(ROOT / "shim")]
    run = subprocess.run(
        [python, "-I", "-S", str(REPLAY), str(calls), *folders], capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.fixture(scope="module")
def walked(tmp_path_factory) -> tuple[Path, list[str]]:
    """Calls in a file, and what this interpreter decides about them, whose bodies are known to come out right."""
    calls = [*wander(random.Random(11), 250), *((CHAT, sent) for sent in HOSTILE)]
    link = Link()
    for target, raw in calls:
        link.call(raw, target)
        assert link.server.at_model[-1] == raw
    path = tmp_path_factory.mktemp("replay") / "calls"
    path.write_bytes(b"".join(b"%s %d\n%s" % (target.encode(), len(raw), raw) for target, raw in calls))
    return path, replay(sys.executable, path)


HOSTILE = [
    b'{"messages":[%s]}' % (b"9" * 10_000),
    b'{"messages":[%s,1]}' % (b"9" * 10_000),
    b'{"messages":[NaN,-Infinity,1e999,-0,"\\ud800",{"a":1,"a":2}]}',
    b'{"messages":[%s]}' % (b"[" * 512 + b"]" * 512),
    b'{"messages":[%s]}' % (b"[" * 513 + b"]" * 513),
    b'{"messages":[%s]}' % (b"[" * 100_000),
    b'{"messages":["\x00\x1f\xff"]}',
    b'{"m\\u0065ssages" : [ 1 , 2 ] }',
    b'\xef\xbb\xbf{"messages":[1]}',
    b'{"messages":[1,\xa02]}',
]


@pytest.mark.parametrize("version", list(supported()))
def test_every_interpreter_decides_alike(walked, version):
    path, expected = walked
    assert replay(supported()[version], path) == expected
    assert len(expected) > 250
