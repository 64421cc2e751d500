# SPDX-License-Identifier: Apache-2.0
"""The steps of a call, without anything that performs them; with it, in test_httpx_transport."""

import gc
import os
from pathlib import Path

import httpx
import pytest
from history_delta_protocol import wire
from history_delta_shim.in_process import Calls, Close, Options, Read, Registry, Send
from history_delta_shim.origin import parse_origin
from support.json_bodies import CHAT, body, said

UPSTREAM = parse_origin("http://gym:8000")
BODY = body(*map(said, range(4))).raw
CAPABILITIES = b'{"version": 1, "encodings": ["gzip"]}'
SPEAKS = [("History-Delta-Version", "1")]
RESYNC = [*SPEAKS, ("History-Delta-Resync", "unknown-base")]


@pytest.fixture
def calls():
    return Calls(Options(UPSTREAM, "r1"))


def post(content=BODY, url="http://gym:8000" + CHAT, **more):
    return httpx.Request("POST", url, content=content, **more)


def begun(calls, *, asked=CAPABILITIES):
    """The steps of a call up to its own request, and that request."""
    steps = calls.steps(post())
    question = next(steps)
    assert question.request.method == "GET"
    assert isinstance(steps.send(httpx.Response(200, headers=SPEAKS)), Read)
    return steps, steps.send(asked)


def ended(steps, response):
    """What the generator returns when it is given that response."""
    with pytest.raises(StopIteration) as end:
        steps.send(response)
    return end.value.value


class TestSteps:
    def test_ask_then_send(self, calls):
        steps, action = begun(calls)
        assert isinstance(action, Send)
        assert action.request.headers["content-type"] == wire.FRAME_MEDIA_TYPE
        response = httpx.Response(200, headers=SPEAKS)
        assert ended(steps, response) is response
        assert "history-delta-version" not in response.headers
        assert isinstance(next(calls.steps(post())), Send), "it is asked once"

    def test_after_a_resync_close_and_send_in_full(self, calls):
        steps, first = begun(calls)
        refused = httpx.Response(409, headers=RESYNC)
        assert steps.send(refused) == Close(refused)
        second = steps.send(None).request
        assert b"".join(second.stream) == BODY
        delivery = "history-delta-delivery"
        assert second.headers[delivery] == first.request.headers[delivery]
        assert ended(steps, httpx.Response(200, headers=SPEAKS)).status_code == 200

    def test_after_a_second_resync_close_and_answer(self, calls):
        steps, _ = begun(calls)
        steps.send(httpx.Response(409, headers=RESYNC))
        steps.send(None)
        assert isinstance(steps.send(httpx.Response(409, headers=RESYNC)), Close)
        assert ended(steps, None).status_code == 503

    @pytest.mark.parametrize("error", [httpx.ReadError("gone"), KeyboardInterrupt(), MemoryError()])
    def test_an_error_of_sending_comes_out_as_it_is(self, calls, error):
        steps, _ = begun(calls)
        with pytest.raises(type(error)) as raised:
            steps.throw(error)
        assert raised.value is error

    @pytest.mark.parametrize("answer", [b"", b"{}", b" " * (wire.MIB), b'{"version": 2}'])
    def test_an_answer_that_says_nothing_leaves_the_body_as_it_is(self, calls, answer):
        _, action = begun(calls, asked=answer)
        assert b"".join(action.request.stream) == BODY

    def test_the_agents_request_is_left_as_it_is(self, calls):
        request = post(headers=[("X-a", "1")], extensions={"timeout": {"read": 3}})
        before = list(request.headers.raw)
        steps = calls.steps(request)
        next(steps)
        sent = steps.throw(httpx.ConnectError("no")).request
        assert sent is not request
        assert (request.headers.raw, request.content) == (before, BODY)
        assert sent.extensions["timeout"] == {"read": 3}
        assert "history_delta" not in request.extensions


class TestConcern:
    @pytest.mark.parametrize(
        "url", ["http://gym:8000/v1", "http://GYM:8000/", "http://gym:8000/ng-rollout/r/v1/chat/completions"]
    )
    def test_what_goes_to_the_upstream(self, calls, url):
        assert calls.concern(post(url=url))

    @pytest.mark.parametrize("url", ["https://gym:8000/", "http://gym/", "http://gym:8001/", "http://x:8000/"])
    def test_nothing_else(self, calls, url):
        assert not calls.concern(post(url=url))

    def test_the_schemes_own_port_need_not_be_named(self):
        for upstream, url in (("http://gym:80", "http://gym/"), ("https://gym", "https://gym:443/")):
            assert Calls(Options(parse_origin(upstream))).concern(post(url=url))

    def test_an_address_in_brackets(self):
        assert Calls(Options(parse_origin("http://[::1]:8000"))).concern(post(url="http://[::1]:8000/v1"))

    def test_a_request_of_ours_is_not_taken_again(self, calls):
        _, action = begun(calls)
        assert not calls.concern(action.request)

    def test_a_target_that_the_url_does_not_say(self, calls):
        assert not calls.concern(post(extensions={"target": b"*"}))


class TestPlainBodies:
    @pytest.mark.parametrize(
        "request_",
        [
            post(content=iter([BODY])),
            post(headers={"Content-Length": "3"}),
            post(headers={"Transfer-Encoding": "chunked"}),
        ],
        ids=["stream", "another length", "chunked"],
    )
    def test_no_other_is_read(self, calls, request_):
        steps = calls.steps(request_)
        next(steps)
        action = steps.throw(httpx.ConnectError("no"))
        assert action.request.stream is request_.stream
        assert action.request.headers["history-delta-full"] == "too-large"


class TestRegistry:
    def test_gives_the_same_for_the_same_and_keeps_not_too_many(self):
        registry, options = Registry(), [Options(UPSTREAM, f"r{number}") for number in range(20)]
        first = registry.calls(options[0])
        assert registry.calls(options[0]) is first
        assert registry.calls(options[1]) is not first
        for one in options[2:16]:
            registry.calls(one)
        assert registry.calls(options[0]) is first, "the least recently used goes"
        for one in options[1:]:
            registry.calls(one)
        assert registry.calls(options[0]) is not first

    def test_keeps_no_log_open_that_nobody_writes_to(self, tmp_path):
        registry, log = Registry(), tmp_path / "log"
        for number in range(40):
            registry.calls(Options(UPSTREAM, f"r{number}", str(log)))
        gc.collect()
        opened = [path for path in Path("/proc/self/fd").iterdir() if path.exists() and path.resolve() == log]
        assert len(opened) == 16

    def test_starts_anew_in_another_process(self, monkeypatch):
        registry, options = Registry(), Options(UPSTREAM)
        first = registry.calls(options)
        registry._lock.acquire()  # as a thread of the parent's may have at that moment
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert registry.calls(options) is not first
