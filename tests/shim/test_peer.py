# SPDX-License-Identifier: Apache-2.0
import json
from itertools import pairwise

import pytest
from history_delta_protocol import wire
from history_delta_shim.peer import Capabilities, Peer

MINUTE, HOUR, DAY = 60, 3600, 86400


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def peer(clock) -> Peer:
    return Peer(clock)


def document(**members: object) -> bytes:
    return json.dumps({"version": 1, "encodings": ["gzip"], "limits": {}, **members}).encode()


def asks(peer: Peer, clock: Clock, seconds: int, answer) -> list[int]:
    """At which seconds from now a peer that gets a call every second is asked; each time it is answered at once."""
    begun = clock.now
    asked = []
    for second in range(seconds):
        clock.now = begun + second
        if peer.ask_now():
            asked.append(second)
            answer(peer)
    return asked


def test_unknown_at_first(peer):
    assert not peer.speaking
    assert peer.capabilities == Capabilities()
    assert peer.ask_now()


def test_one_caller_at_a_time_asks(peer, clock):
    assert peer.ask_now()
    assert [peer.ask_now() for _ in range(10)] == [False] * 10
    clock.now += 59.9
    assert not peer.ask_now()
    # The first question was never answered.
    clock.now += 0.1
    assert peer.ask_now()


def test_a_peer_that_has_said_what_it_can_is_not_asked_again(peer, clock):
    assert asks(peer, clock, DAY, lambda peer: peer.answered(200, document())) == [0]
    assert peer.speaking
    assert peer.capabilities == Capabilities(frozenset(["gzip"]), wire.MAX_FRAME_LINE_BYTES, wire.MAX_BODY_BYTES)


@pytest.mark.parametrize(
    "answer",
    [
        lambda peer: peer.answered(404, b"Not Found"),
        lambda peer: peer.answered(200, b"<html>"),
        lambda peer: peer.silent(),
        lambda peer: None,
    ],
)
def test_a_peer_that_does_not_speak_is_asked_ever_more_rarely(peer, clock, answer):
    asked = asks(peer, clock, DAY, answer)
    pauses = [after - before for before, after in pairwise(asked)]
    assert asked[0] == 0
    assert pauses[:5] == [60, 120, 240, 480, 600]
    assert set(pauses[4:]) == {600}
    assert not peer.speaking


def test_a_peer_that_stops_speaking_is_asked_after_a_minute(peer, clock):
    peer.ask_now()
    peer.answered(200, document())
    clock.now += HOUR
    peer.silent()
    assert not peer.speaking
    assert peer.capabilities == Capabilities()
    assert asks(peer, clock, HOUR, lambda peer: peer.answered(200, document())) == [60]
    assert peer.speaking


def test_a_peer_that_stops_again_and_again_is_asked_once_a_minute_at_most(peer, clock):
    """It answers the question and refuses every frame: one wasted frame a minute."""

    def refuses_frames(peer):
        peer.answered(200, document())
        peer.silent()

    assert len(asks(peer, clock, HOUR, refuses_frames)) <= 60


def test_speaking_unasked_is_taken_at_its_word(peer, clock):
    """Any response may carry the version, before capabilities were asked for; they still are."""
    peer.ask_now()
    peer.answered(503, b"")
    peer.spoke()
    assert peer.speaking
    assert peer.capabilities.encodings == frozenset()
    assert asks(peer, clock, HOUR, lambda peer: peer.answered(200, document())) == [60]
    assert peer.capabilities.encodings == frozenset(["gzip"])


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, document()),
        (206, document()),
        (200, b""),
        (200, b"null"),
        (200, b"[]"),
        (200, b'"1"'),
        (200, document(version=2)),
        (200, document(version="1")),
        (200, document(version=None)),
        (200, document(version=True)),
        (200, b'{"encodings":["gzip"]}'),
        (200, document()[:-1]),
        (200, b"\xff" + document()),
        (200, b"[" * 100_000),
    ],
)
def test_anything_else_is_no_capabilities_document(peer, status, body):
    peer.spoke()
    peer.answered(status, body)
    assert not peer.speaking


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, (["gzip"], 65536, 268435456)),
        ({"encodings": []}, ([], 65536, 268435456)),
        ({"encodings": ["zstd", "gzip", 3, None, ["x"]]}, (["gzip", "zstd"], 65536, 268435456)),
        ({"encodings": "gzip"}, ([], 65536, 268435456)),
        ({"encodings": None}, ([], 65536, 268435456)),
        ({"limits": {"frame_line_bytes": 1024, "body_bytes": 2048}}, (["gzip"], 1024, 2048)),
        ({"limits": {"frame_line_bytes": 10**9, "body_bytes": 10**12}}, (["gzip"], 65536, 268435456)),
        ({"limits": {"frame_line_bytes": 0, "body_bytes": -1}}, (["gzip"], 65536, 268435456)),
        ({"limits": {"frame_line_bytes": "1024", "body_bytes": True}}, (["gzip"], 65536, 268435456)),
        ({"limits": {"frame_line_bytes": 1e3, "unknown": 1}}, (["gzip"], 65536, 268435456)),
        ({"limits": [1]}, (["gzip"], 65536, 268435456)),
        ({"unknown": {"x": 1}}, (["gzip"], 65536, 268435456)),
    ],
)
def test_what_a_document_grants(peer, members, expected):
    """What cannot be read is the default; nothing goes beyond the protocol's own limits."""
    peer.answered(200, document(**members))
    encodings, line, body = expected
    assert peer.speaking
    assert peer.capabilities == Capabilities(frozenset(encodings), line, body)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"messages": 9, "pieces": 3}, (9, 3)),
        ({"messages": 10**9, "pieces": 65}, (100000, 64)),
        ({"messages": 0, "pieces": "3"}, (100000, 64)),
    ],
)
def test_how_many_messages_and_pieces_a_document_grants(peer, limits, expected):
    peer.answered(200, document(limits=limits))
    assert (peer.capabilities.messages, peer.capabilities.pieces) == expected
