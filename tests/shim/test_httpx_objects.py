# SPDX-License-Identifier: Apache-2.0
"""What is read of httpx's objects and what is made of them, for both packages that have these classes."""

import time

import pytest
from history_delta_shim import httpx_objects
from history_delta_shim.origin import Origin
from support.httpx_caller import LIBRARIES

BODY = b'{"messages": []}'
URL = "http://gym:8000/v1/chat/completions?a=%20b"


@pytest.fixture(params=list(LIBRARIES))
def library(request):
    return LIBRARIES[request.param]


@pytest.fixture
def request_to(library):
    """Makes a request of the agent."""

    def make(url=URL, **more):
        return library.Request("POST", url, **{"content": BODY} | more)

    return make


class TestARequest:
    def test_says_of_which_package_it_is(self, library, request_to):
        assert httpx_objects.library_of(request_to()) is library

    @pytest.mark.parametrize(
        ("url", "origin"),
        [
            ("http://GYM:8000/", Origin("http", "gym", 8000)),
            ("http://gym", Origin("http", "gym", 80)),
            ("https://gym/v1", Origin("https", "gym", 443)),
            ("http://[::1]:8000/", Origin("http", "::1", 8000)),
        ],
    )
    def test_goes_to_an_origin(self, request_to, url, origin):
        assert httpx_objects.origin_of(request_to(url)) == origin

    def test_has_its_target_as_it_is_on_the_wire(self, request_to):
        assert httpx_objects.target_of(request_to()) == "/v1/chat/completions?a=%20b"

    def test_has_its_header_lines_as_they_are_on_the_wire(self, request_to):
        lines = httpx_objects.headers_of(request_to(headers=[("X-b", "1"), ("x-B", "é".encode("latin-1"))]))
        assert [line for line in lines if line[0].lower() == "x-b"] == [("X-b", "1"), ("x-B", "é")]

    def test_has_a_plain_body_where_that_is_in_memory_and_framed_by_its_length(self, request_to):
        def plain(**more):
            request = request_to(**more)
            return httpx_objects.plain_body(request, httpx_objects.headers_of(request))

        assert plain() == BODY
        assert plain(content=iter([BODY])) is None
        assert plain(headers={"Content-Length": "3"}) is None
        assert plain(headers={"Transfer-Encoding": "chunked"}) is None


class TestARequestLikeIt:
    def test_has_the_headers_and_the_body_that_are_given_and_the_length_in_its_place(self, request_to):
        given = [("A", "1"), ("content-LENGTH", "16"), ("B", "2")]
        made = httpx_objects.request_like(request_to(), given, b"frame")
        assert httpx_objects.headers_of(made) == [("A", "1"), ("content-LENGTH", "5"), ("B", "2")]
        assert b"".join(made.stream) == b"frame"
        assert (made.method, str(made.url)) == ("POST", URL)

    def test_has_the_same_stream_without_a_body(self, request_to):
        request = request_to(content=iter([BODY]))
        assert httpx_objects.request_like(request, []).stream is request.stream

    def test_is_ours_and_keeps_the_agents_extensions(self, request_to):
        request = request_to(extensions={"timeout": {"read": 3}})
        made = httpx_objects.request_like(request, [])
        assert made.extensions["timeout"] == {"read": 3}
        assert httpx_objects.is_ours(made)
        assert not httpx_objects.is_ours(request)

    def test_one_with_a_target_of_its_own_is_left_alone(self, request_to):
        assert httpx_objects.is_ours(request_to(extensions={"target": b"*"}))


def test_a_question_goes_where_the_request_goes_and_waits_no_longer_than_to_its_deadline(request_to):
    deadline = time.monotonic() + 10
    made = httpx_objects.question_like(request_to(), "/v1/x", [("Host", "gym")], deadline)
    assert (made.method, str(made.url)) == ("GET", "http://gym:8000/v1/x")
    assert (httpx_objects.headers_of(made), b"".join(made.stream)) == ([("Host", "gym")], b"")
    timeouts = made.extensions["timeout"]
    assert set(timeouts) == {"connect", "read", "write", "pool"}
    first = timeouts.get("connect")
    assert 0 < timeouts.get("read") <= first <= 10
    late = httpx_objects.question_like(request_to(), "/v1/x", [], time.monotonic() - 1)
    assert 0 < late.extensions["timeout"].get("connect") < 0.1, "0 would be taken for none"


def test_a_response_of_ours_is_whole(request_to):
    made = httpx_objects.response_like(request_to(), 503, [("Retry-After", "1")], b"{}")
    assert (made.status_code, made.headers["retry-after"], made.content) == (503, "1", b"{}")


def test_headers_of_a_prefix_are_dropped_and_no_other(library):
    response = library.Response(200, headers=[("X-A", "1"), ("HISTORY-Delta-B", "2"), ("history-delta-b", "3")])
    httpx_objects.drop_headers(response, "history-delta-")
    assert httpx_objects.headers_of(response) == [("X-A", "1")]
