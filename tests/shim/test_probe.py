# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
from history_delta_shim import probe as module
from history_delta_shim.origin import parse_origin
from history_delta_shim.probe import Probe
from history_delta_shim.upstream import Upstream
from support.http_text import answer, post, stream

CAPABILITIES = b'{"version": 1, "encodings": [], "limits": {}}'


class Asking:
    """A core that always wants to know, and what it was told."""

    def __init__(self):
        self.told = []

    def capabilities_target(self, target):
        return "/base/.well-known/history-delta"

    def capabilities_answered(self, *answer):
        self.told.append(answer)

    def capabilities_failed(self):
        self.told.append("failed")


@pytest.fixture
def core():
    return Asking()


@pytest.fixture
def probe(core, upstream):
    return Probe(core, Upstream(parse_origin(upstream.origin), None, print))


def test_the_answer_is_told_as_it_is(start_shim, upstream, speaking_shim):
    agent = speaking_shim.agent()
    agent.send(post(b"{}", "Authorization: key", target="/some/ng-rollout/r1/v1/responses?x=y"))
    peer = upstream.accept()
    asked = peer.read_request()
    assert asked.line == ("GET", "/some/v1/.well-known/history-delta")
    assert asked.values("history-delta-version") == ["1"]
    assert asked.body == b""
    peer.send(answer(CAPABILITIES))
    call = peer.read_request()  # on the same connection
    assert call.line == ("POST", "/some/ng-rollout/r1/v1/responses?x=y")


def test_concurrent_first_calls_wait_for_one_answer(upstream, speaking_shim):
    agents = [speaking_shim.agent() for _ in range(5)]
    for agent in agents:
        agent.send(post(b'{"messages":[]}'))
    first = upstream.accept()
    assert first.read_request().line[0] == "GET"
    assert not upstream.has_caller()  # nobody else has gone ahead
    first.send(answer(CAPABILITIES))
    peers = [first, *(upstream.accept() for _ in agents[1:])]
    assert [peer.read_request().line[0] for peer in peers] == ["POST"] * 5


def test_a_silent_upstream_holds_a_call_up_for_a_moment_only(probe, core, upstream, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.05)
    probe.ask("/v1/chat/completions")
    assert core.told == ["failed"]
    assert upstream.accept().read_request().line[0] == "GET"


def test_an_upstream_that_cannot_be_reached_counts_as_silent(probe, core, upstream):
    upstream.close()
    probe.ask("/v1/chat/completions")
    assert core.told == ["failed"]


class Serving:
    """Answers the next connection in another thread."""

    def __init__(self, upstream, response):
        def serve():
            peer = upstream.accept()
            peer.read_request()
            peer.send(response)
            peer.end()

        self._thread = threading.Thread(target=serve)

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._thread.join()


@pytest.mark.parametrize(
    "response",
    [b"", b"nonsense\r\n\r\n", stream(), answer(b"x" * (module.MAX_ANSWER_BYTES + 1)), answer(b"xx")[:-1]],
)
def test_a_broken_or_endless_answer_counts_as_none(probe, core, upstream, response):
    with Serving(upstream, response):
        probe.ask("/v1/chat/completions")
    assert core.told == ["failed"]


def test_any_whole_answer_is_for_the_core_to_judge(probe, core, upstream):
    with Serving(upstream, b"HTTP/1.1 103 Early Hints\r\n\r\n" + answer(b"no", "X: 1", status="404 Not Found")):
        probe.ask("/v1/chat/completions")
    assert core.told == [(404, [("X", "1"), ("Content-Length", "2")], b"no")]
