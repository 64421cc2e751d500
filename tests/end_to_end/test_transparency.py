# SPDX-License-Identifier: Apache-2.0
"""What is neither history nor answer: headers, targets, methods and other paths pass both ends as they are.

A model call is looked at twice, since its first is sent whole and its second as what is new.
"""

import gzip

import pytest
from support.conversation import DIALECTS, Conversation, receive
from support.model_server import head

JSON = "Content-Type: application/json"
# Order, case, duplicates, octets beyond ASCII, and names of the protocol's own that an agent has no business with.
HEADERS = (
    "X-Twice: 1",
    "User-Agent: an agent/1.0",
    "x-twice: 2",
    "Authorization: Bearer key",
    "X-Latin: caf\xe9",
    "X-Empty: ",
    "X-Utf8: \xc3\xa9",
    "Accept-Encoding: gzip, br",
    "Cookie: a=1; b=2",
    "History-Delta-Held: 1 snILDNe5WQzLbCbwrZSeFNlCdCeTBXC27JpNXYLHe8U",
    "history-delta-delivery: 00000000000000000000000000000000",
    "X-TWICE: 3",
)
HOP = ("Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5", "TE: trailers")
FRAMING = ("host", "content-length")


def pairs(*headers: str) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (header.partition(": ") for header in headers)]


def of_the_agent(headers: tuple[str, ...]) -> list[tuple[str, str]]:
    return [pair for pair in pairs(*headers) if not pair[0].lower().startswith("history-delta-")]


def arrived(call) -> list[tuple[str, str]]:
    return [pair for pair in call.request.headers if pair[0].lower() not in FRAMING]


def post(conversation: Conversation, *headers: str) -> bytes:
    """The conversation with these headers in place of the usual."""
    _, _, raw = conversation.request().partition(b"\r\n\r\n")
    return head(f"POST {conversation.path} HTTP/1.1", "Host: agent", *headers, f"Content-Length: {len(raw)}") + raw


@pytest.mark.parametrize("dialect", DIALECTS)
def test_headers_arrive_as_they_were_sent(way, dialect):
    conversation = Conversation(DIALECTS[dialect])
    for _ in range(2):
        agent = way.shim.agent()
        agent.send(post(conversation, *HEADERS[:5], JSON, *HEADERS[5:], *HOP))
        call = way.model.next_call()
        call.respond(b"{}")
        assert receive(agent).body == b"{}"
        agent.close()
        assert arrived(call) == of_the_agent((*HEADERS[:5], JSON, *HEADERS[5:]))
        assert call.request.target == DIALECTS[dialect]
        assert call.body == conversation.sent[-1]
        conversation.turn()
    assert [call["kind"] for call in way.shim.logged_on(conversation.path, 2)] == ["self-contained", "delta"]


CONTENT_TYPES = [
    (),
    ("Content-Type: ",),
    ("content-TYPE: Application/JSON; charset=UTF-8",),
    ("Content-Type: text/plain",),
    ('Content-Type: application/json; x="a\\"b"',),
    ("Content-Type: application/json; x=caf\xe9",),
]


@pytest.mark.parametrize("content_types", CONTENT_TYPES)
def test_a_content_type_arrives_as_it_was_sent_or_not_sent(way, content_types):
    conversation = Conversation()
    for _ in range(2):
        agent = way.shim.agent()
        agent.send(post(conversation, *content_types))
        call = way.model.next_call()
        call.respond(b"{}")
        assert receive(agent).body == b"{}"
        agent.close()
        assert arrived(call) == pairs(*content_types)
        assert call.body == conversation.sent[-1]
        conversation.turn()


def test_an_encoded_body_arrives_encoded(way):
    body = gzip.compress(b'{"messages":[%s]}' % b",".join([b'{"role":"user"}'] * 500))
    conversation = Conversation()
    for _ in range(2):
        agent = way.shim.agent()
        headers = ("Host: agent", JSON, "Content-Encoding: gzip", f"Content-Length: {len(body)}")
        agent.send(head(f"POST {conversation.path} HTTP/1.1", *headers) + body)
        call = way.model.next_call()
        call.respond(b"{}")
        assert receive(agent).body == b"{}"
        agent.close()
        assert (call.body, call.request.value("Content-Encoding")) == (body, "gzip")
    logged = way.shim.logged_on(conversation.path, 2)
    assert [(call["kind"], call["reason"]) for call in logged] == [("full", "content-encoding")] * 2


BODIES = {
    "nothing": b"",
    "no JSON": b"\xff\xfe\x00",
    "a string for a history": b'{"messages":"hello"}',
    "no history": b'{"prompt":"hello"}',
    "deep": b'{"messages":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
    "surrogates and numbers": b'{"messages":["\\ud800",1e999,-0,NaN,%s]}' % (b"9" * 10_000),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@pytest.mark.parametrize("chunked", [False, True])
def test_any_body_arrives(way, body, chunked):
    conversation = Conversation()
    for _ in range(2):
        agent = way.shim.agent()
        framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
        agent.send(head(f"POST {conversation.path} HTTP/1.1", "Host: agent", JSON, framing))
        agent.send(b"%s0\r\n\r\n" % (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") if chunked else body)
        call = way.model.next_call()
        call.respond(b"{}")
        assert receive(agent).body == b"{}"
        agent.close()
        assert call.body == body


@pytest.mark.parametrize("query", ["?", "?a=1&b=%2F&a=2", "?x=/ng-rollout/other/v1/messages", "?%zz=%"])
def test_a_query_arrives_as_it_was_sent(way, query):
    conversation = Conversation()
    for _ in range(2):
        agent = way.shim.agent()
        _, _, rest = conversation.request().partition(b"\r\n")
        agent.send(f"POST {conversation.path}{query} HTTP/1.1\r\n".encode("latin-1") + rest)
        call = way.model.next_call()
        call.respond(b"{}")
        assert receive(agent).body == b"{}"
        agent.close()
        assert call.request.target == conversation.target + query
        assert call.body == conversation.sent[-1]
        conversation.turn()


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("target", ["/v1/models", "/v1/models/a%2Fb?c=d", "/v1/chat/completions", "/", "//v1//x"])
def test_other_requests_pass(way, method, target):
    seen = len(way.model.others)
    agent = way.shim.agent()
    body = b"some" if method in ("PUT", "PATCH") else b""
    length = (f"Content-Length: {len(body)}",) if body else ()
    agent.send(head(f"{method} {target} HTTP/1.1", "Host: agent", *HEADERS, *length) + body)
    answer = agent.read_response(method)
    assert answer.line == (404, "Not Found")
    [request] = way.model.others[seen:]
    assert (request.method, request.target, request.body) == (method, target, body)
    assert [pair for pair in request.headers if pair[0].lower() not in FRAMING] == of_the_agent(HEADERS)
    agent.close()


def test_an_answer_s_octets_pass_encoded_or_not(way):
    conversation = Conversation(streamed=True)
    agent, call = way.call(conversation)
    packed = gzip.compress(b"data: 1\n\n" * 100)
    call.respond(packed, "Content-Encoding: gzip", "Content-Type: text/event-stream", 'ETag: W/"x"', "X-L: caf\xe9")
    received = receive(agent)
    assert received.body == packed
    assert received.headers() == pairs(
        "Content-Encoding: gzip", "Content-Type: text/event-stream", 'ETag: W/"x"', "X-L: caf\xe9"
    )


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
def test_an_answer_without_a_body_has_none(way, status):
    conversation = Conversation()
    agent, call = way.call(conversation)
    call.send(head(f"HTTP/1.1 {status}", "X-A: 1"))
    call.over()
    received = receive(agent)
    assert (received.status, received.body, received.ended) == (int(status[:3]), b"", True)
    conversation.turn()
    way.succeed(conversation, agent)


def test_an_agent_of_http_1_0_is_answered_in_kind(way):
    """It knows no chunks: the end of its connection is the end of a stream, and a reset is its break."""
    for cut in (False, True):
        conversation = Conversation(streamed=True)
        agent = way.shim.agent()
        agent.send(conversation.request().replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1))
        call = way.model.next_call()
        assert call.body == conversation.sent[0]
        call.stream("Content-Type: text/event-stream")
        call.chunk(b"data: 1\n\n")
        received = agent.receive_until(b"data: 1\n\n")
        assert b"chunked" not in received
        if cut:
            call.close()
        else:
            call.chunk(b"data: 2\n\n")
            call.end()
        assert agent.receive_all() == ((b"", True) if cut else (b"data: 2\n\n", False))


def test_requests_that_come_together_are_answered_in_order(way):
    """Some clients do not wait for an answer before they send on."""
    first, second = Conversation(), Conversation()
    agent = way.shim.agent()
    agent.send(first.request() + second.request())
    for conversation in (first, second):
        call = way.model.next_call()
        assert call.body == conversation.sent[0]
        call.respond(b"%d" % len(way.model.calls))
        assert receive(agent).body == b"%d" % len(way.model.calls)
