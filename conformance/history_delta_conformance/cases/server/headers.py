# SPDX-License-Identifier: Apache-2.0
"""Cases: which headers travel, and in whose place. SPEC.md sections 3.1 and 3.5."""

import gzip

from history_delta_protocol import wire as names

from ..check import complete, equal, expect, is_ours, none_of_ours, status, told
from ..endpoint import Call, Request
from ..frames import conversation, encoded, self_contained
from ..registry import SERVER
from ..wire import Header, request_head
from .target import JSON, Target

_AGENT: list[Header] = [
    ("X-Agent", "1"),
    ("x-AGENT", "2"),
    ("Accept", "text/event-stream"),
    ("X-Agent", "3"),
    ("Cookie", "a=1"),
    ("X-Octets", "caf\xe9 \x80\xff"),
    ("X-Empty", ""),
]
_HOP_BY_HOP: list[Header] = [
    ("Connection", "X-Hop-Only, keep-alive"),
    ("X-Hop-Only", "1"),
    ("Keep-Alive", "timeout=5"),
    ("TE", "trailers"),
    ("Proxy-Connection", "keep-alive"),
]


def _of(headers: list[Header], wanted: list[Header]) -> list[Header]:
    names_wanted = {name.lower() for name, _ in wanted}
    return [header for header in headers if header[0].lower() in names_wanted]


@SERVER.case("8.1", "History-Delta headers of any case stop here, known or not", "F-5")
async def _stripped_from_requests(target: Target) -> None:
    body = conversation(2)
    extra = [("HISTORY-DELTA-Full", "suspended"), ("history-delta-x", "1"), ("History-Delta-Held", "0 x")]
    await target.full(body, extra=extra)
    none_of_ours("the request at the model", target.model.only().request.headers)
    target.model.calls.clear()
    await target.frame(encoded(self_contained(body)), extra=extra)
    none_of_ours("the request at the model", target.model.only().request.headers)


@SERVER.case("8.2", "those of what merely passes through as well", "F-5")
async def _stripped_from_others(target: Target) -> None:
    extra = [("history-DELTA-Version", "1"), ("History-Delta-Anything", "1"), ("History-Delta-Delivery", "0" * 32)]
    head = target.headers(None, content_type=None, version=None, extra=extra)
    await target.exchange(request_head("GET", f"/{target.token}/v1/models", head), "GET")
    none_of_ours("the request at the model", target.model.only().request.headers)
    target.model.calls.clear()
    await target.full(conversation(1), rollout=None)
    none_of_ours("the request at the model", target.model.only().request.headers)


@SERVER.case("8.3", "and those that the model answers: what a client sees is the server's own", "F-5", "S-6")
async def _stripped_from_responses(target: Target) -> None:
    async def forge(call: Call) -> None:
        await call.respond(
            b"{}",
            (names.HELD_HEADER, "7 " + "A" * 43),
            (names.VERSION_HEADER.upper(), "2"),
            ("history-delta-resync", "mismatch"),
            ("History-Delta-Other", "1"),
        )

    target.model.answer = forge
    response = await target.full(b"nothing that can be held")
    ours = [header for header in response.headers if is_ours(header[0])]
    expect(ours == [(names.VERSION_HEADER, "1")], f"{names.VERSION_HEADER}: 1 alone", told(response))
    none_of_ours("the response to a call of no rollout", (await target.full(b"{}", rollout=None)).headers)
    head = request_head("GET", f"/{target.token}/v1/models", [("Host", "x")])
    none_of_ours("the response to another request", (await target.exchange(head, "GET")).headers)


@SERVER.case("8.4", "an agent's headers reach the model with their order, duplicates and octets", "S-3", "S-9")
async def _agent_headers(target: Target) -> None:
    body = conversation(2)
    sends = (
        target.full_request(body, extra=_AGENT),
        target.full_request(body, extra=_AGENT, rollout=None),
        target.frame_request(encoded(self_contained(body)), extra=_AGENT),
    )
    for sent in sends:
        await target.exchange(sent)
        equal("the agent's headers at the model", _of(target.model.only().request.headers, _AGENT), _AGENT)
        target.model.calls.clear()


@SERVER.case("8.5", "hop-by-hop headers, and those that Connection names, stop here", "S-3", "S-9")
async def _hop_by_hop(target: Target) -> None:
    body = conversation(2)
    for sent in (
        target.full_request(body, extra=_HOP_BY_HOP),
        target.full_request(body, extra=_HOP_BY_HOP, rollout=None),
        target.frame_request(encoded(self_contained(body)), extra=_HOP_BY_HOP),
    ):
        await target.exchange(sent)
        got = [(name, value) for name, value in target.model.only().request.headers if (name, value) in _HOP_BY_HOP]
        equal("hop-by-hop headers at the model", got, [])
        target.model.calls.clear()


def _names(request: Request, *wanted: str) -> list[str]:
    return [name.lower() for name, _ in request.headers if name.lower() in wanted]


@SERVER.case("8.6", "a frame's content_type stands where the frame's media type stood", "S-9")
async def _in_place(target: Target) -> None:
    body = conversation(2)
    content_type = "Application/JSON; Charset=utf-8"
    frame = encoded(self_contained(body, content_type=content_type))
    headers = target.headers(len(frame), content_type=None, delivery="0" * 32, rollout=target.rollout)
    headers[1:1] = [("X-Before", "1"), ("content-TYPE", names.FRAME_MEDIA_TYPE), ("X-After", "1")]
    await target.taken(body, await target.exchange(request_head("POST", target.path(), headers) + frame))
    request = target.model.only().request
    equal("Content-Type at the model", request.values("Content-Type"), [content_type])
    order = _names(request, "x-before", "content-type", "x-after")
    equal("the order at the model", order, ["x-before", "content-type", "x-after"])


@SERVER.case("8.7", "with a content_type of null there is no such header, and never a Content-Encoding", "S-9")
async def _none(target: Target) -> None:
    body = conversation(2)
    frame = encoded(self_contained(body, content_type=None))
    await target.taken(body, await target.frame(frame))
    equal("Content-Type at the model", target.model.only().request.values("Content-Type"), [])
    target.model.calls.clear()
    await target.needs_gzip()
    await target.taken(body, await target.frame(gzip.compress(frame), extra=[("content-ENCODING", "GZIP")]))
    equal("Content-Encoding at the model", target.model.only().request.values("Content-Encoding"), [])


@SERVER.case("8.8", "the rebuilt request says its own length, once", "F-1", "S-9")
async def _length(target: Target) -> None:
    body = conversation(5)
    await target.taken(body, await target.frame(encoded(self_contained(body))))
    request = target.model.only().request
    lengths = [*request.values("Content-Length"), *request.values("Transfer-Encoding")]
    expect(lengths in ([str(len(body))], ["chunked"]), f"Content-Length: {len(body)}, or chunks", repr(lengths))


@SERVER.case("8.9", "a response keeps its status, and its headers with their order and duplicates", "F-23")
async def _responses(target: Target) -> None:
    wanted: list[Header] = [
        ("Set-Cookie", "a=1"),
        ("x-REQUEST-id", "7"),
        ("Set-Cookie", "b=2"),
        ("Content-Type", f"{JSON}; charset=utf-8"),
        ("X-Octets", "caf\xe9"),
        ("Retry-After", "3"),
    ]

    async def answer(call: Call) -> None:
        await call.respond(b'{"a" : 1}', *wanted, status=429, reason="Slow Down")

    target.model.answer = answer
    for rollout in ("", None):
        response = await target.full(conversation(2), rollout=rollout)
        status(response, 429)
        complete(response)
        equal("the model's headers", _of(response.headers, wanted), wanted)
        equal("the body", response.body, b'{"a" : 1}')


@SERVER.case("8.10", "a response's hop-by-hop headers stop here", "F-23")
async def _hop_by_hop_responses(target: Target) -> None:
    async def answer(call: Call) -> None:
        hop = [("Connection", "x-hop-only"), ("X-Hop-Only", "1"), ("Keep-Alive", "timeout=1"), ("Upgrade", "h2c")]
        await call.respond(b"{}", *hop)

    target.model.answer = answer
    response = await target.full(conversation(2))
    status(response, 200)
    for name in ("X-Hop-Only", "Keep-Alive", "Upgrade"):
        equal(name, response.values(name), [])
