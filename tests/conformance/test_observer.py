# SPDX-License-Identifier: Apache-2.0
"""What an observer says about the bytes of one connection, however they are cut."""

import hashlib

import pytest
from history_delta_conformance.observer import ConnectionObserver

POST = b"POST /v1/messages?x=1 HTTP/1.1\r\nHost: a\r\nX-Two: 1\r\nx-two: 2\r\nContent-Type: application/json\r\n"
BODY = b'{"messages":[]}'
WITH_LENGTH = POST + b"Content-Length: 15\r\n\r\n" + BODY
CHUNKED = (
    POST
    + b"Transfer-Encoding: chunked\r\n\r\n5\r\n"
    + BODY[:5]
    + b"\r\na;x=y\r\n"
    + BODY[5:]
    + b"\r\n0\r\nT: v\r\n\r\n"
)
GET = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
STREAM = b"HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
UNTIL_EOF = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall the rest"


@pytest.fixture
def exchanges():
    return []


@pytest.fixture
def observer(exchanges):
    return ConnectionObserver(7, exchanges.append)


def feed(receive, data, size):
    for start in range(0, len(data), size):
        receive(data[start : start + size])


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("request_bytes", [WITH_LENGTH, CHUNKED])
def test_a_request_in_any_framing_and_any_pieces(request_bytes, size, observer, exchanges):
    feed(observer.from_client, request_bytes, size)
    [exchange] = exchanges
    assert (exchange.method, exchange.target, exchange.connection) == ("POST", "/v1/messages?x=1", 7)
    assert [header for header in exchange.headers if header[0].lower() == "x-two"] == [("X-Two", "1"), ("x-two", "2")]
    assert exchange.complete
    assert (exchange.body, exchange.sha256) == (BODY, hashlib.sha256(BODY).hexdigest())
    assert exchange.content_type == "application/json"
    assert exchange.wire_bytes == len(request_bytes)
    assert exchange.status is None


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_keep_alive_and_pipelining_pair_each_response_with_its_request(size, observer, exchanges):
    feed(observer.from_client, WITH_LENGTH + GET + CHUNKED, size)
    feed(observer.from_server, OK + EARLY_HINTS + STREAM + UNTIL_EOF, size)
    observer.from_server(b"")
    assert [exchange.status for exchange in exchanges] == [200, 409, 200]
    assert [exchange.response_bytes for exchange in exchanges] == [2, 3, len("all the rest")]
    assert [exchange.wire_bytes for exchange in exchanges] == [len(WITH_LENGTH), len(GET), len(CHUNKED)]
    assert all(exchange.response_complete for exchange in exchanges)
    assert observer.failure is None


def test_an_answer_before_the_whole_request(observer, exchanges):
    observer.from_client(WITH_LENGTH[:-3])
    observer.from_server(OK)
    assert (exchanges[0].status, exchanges[0].complete) == (200, False)
    observer.from_client(WITH_LENGTH[-3:])
    assert exchanges[0].complete


def test_a_cut_response_is_not_complete(observer, exchanges):
    observer.from_client(GET)
    observer.from_server(STREAM[:-5])
    observer.from_server(b"")
    assert exchanges[0].status == 409
    assert not exchanges[0].response_complete
    assert observer.failure is None


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01 no http\r\n\r\n", b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n"]
)
def test_what_is_no_http_is_a_failure_and_ends_the_observation(data, observer, exchanges):
    observer.from_client(data)
    observer.from_client(WITH_LENGTH)
    assert observer.failure.startswith("request: ")
    assert exchanges == []


def test_bytes_that_answer_no_request_are_a_failure(observer):
    observer.from_server(OK)
    assert observer.failure.startswith("response: ")


@pytest.mark.parametrize(
    ("feeds", "left"),
    [
        (["client", "server"], True),
        (["server", "client"], False),
    ],
    ids=["the-client-closes-first", "the-response-is-cut-first"],
)
def test_an_agent_that_leaves_early_is_told_from_a_response_that_was_cut(feeds, left, observer, exchanges):
    observer.from_client(WITH_LENGTH)
    observer.from_server(STREAM[:-5])
    for end in feeds:
        (observer.from_client if end == "client" else observer.from_server)(b"")
    assert [(exchange.response_complete, exchange.left) for exchange in exchanges] == [(False, left)]
    assert exchanges[0].answer_sha256 == ""


def test_who_leaves_after_the_end_has_not_left_early(observer, exchanges):
    observer.from_client(WITH_LENGTH)
    observer.from_server(OK)
    observer.from_client(b"")
    assert [(exchange.response_complete, exchange.left) for exchange in exchanges] == [(True, False)]
    assert exchanges[0].answer_sha256 == hashlib.sha256(b"ok").hexdigest()
