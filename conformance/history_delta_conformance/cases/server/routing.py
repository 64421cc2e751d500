# SPDX-License-Identifier: Apache-2.0
"""Cases: nothing in a request chooses where its call goes, and what is reserved goes nowhere. SPEC.md 8 and 11."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from history_delta_protocol import wire as names

from ..check import expect, status, told
from ..endpoint import Call, Endpoint
from ..frames import conversation, encoded, self_contained
from ..registry import SERVER
from ..wire import Header, request_head
from .target import Target

_BODY = conversation(2)


@asynccontextmanager
async def _trap() -> AsyncIterator[Endpoint]:
    """Somewhere else; fails the case where anything comes."""

    async def answer(call: Call) -> None:
        await call.respond(b"caught")

    async with Endpoint(answer) as trap:
        yield trap
        expect(trap.connections == 0, "no connection to where a request points", f"{trap.connections}")


async def _goes_to_the_model(target: Target, sent: bytes) -> None:
    """Or is refused."""
    response = await target.exchange(sent)
    if response.status == 200:
        target.model.only()
    else:
        expect(400 <= response.status < 500, "the model's answer, or a refusal", told(response))
    target.model.calls.clear()


@SERVER.case("15.1", "an absolute request target", "S-29")
async def _absolute(target: Target) -> None:
    async with _trap() as trap:
        for scheme in ("http", "HTTP", "https"):
            absolute = f"{scheme}://127.0.0.1:{trap.port}{target.path()}"
            await _goes_to_the_model(target, target.full_request(_BODY, target=absolute))
            await _goes_to_the_model(target, target.full_request(_BODY, target=absolute, rollout=None))
            frame = encoded(self_contained(_BODY))
            await _goes_to_the_model(target, target.frame_request(frame, target=absolute))


@SERVER.case("15.2", "paths that look like another authority", "S-29")
async def _paths(target: Target) -> None:
    async with _trap() as trap:
        place = f"127.0.0.1:{trap.port}"
        for start in (f"//{place}", f"/\\{place}", f"/@{place}", f"/http://{place}", f"/%2f{place}", f"///{place}"):
            await _goes_to_the_model(target, target.full_request(_BODY, target=start + target.path()))


@SERVER.case("15.3", "targets without a path are refused", "S-29")
async def _other_forms(target: Target) -> None:
    async with _trap() as trap:
        head: list[Header] = [("Host", f"127.0.0.1:{trap.port}")]
        for method, form in (("CONNECT", f"127.0.0.1:{trap.port}"), ("OPTIONS", "*"), ("GET", "@x/v1/models")):
            connection = await target.connect()
            await connection.send(request_head(method, form, head))
            response = await connection.response_or_none(method)
            expect(response is None or response.status >= 400, "a refusal", told(response) if response else "")


@SERVER.case("15.4", "headers that name a host", "S-29")
async def _headers(target: Target) -> None:
    async with _trap() as trap:
        place = f"127.0.0.1:{trap.port}"
        url = f"http://{place}/v1"
        for header in (
            ("X-Forwarded-Host", place),
            ("X-Forwarded-Server", place),
            ("Forwarded", f"host={place};proto=http"),
            ("X-Original-URL", url),
            ("X-Rewrite-URL", url),
            ("X-Upstream", url),
            ("X-Base-URL", url),
            ("Referer", url),
            ("Destination", url),
        ):
            await _goes_to_the_model(target, target.full_request(_BODY, extra=[header]))
        headers = target.headers(len(_BODY), rollout=target.rollout)
        headers[0] = ("Host", place)
        await _goes_to_the_model(target, request_head("POST", target.path(), headers) + _BODY)


@SERVER.case("15.5", "members of the body that name a host", "S-29")
async def _members(target: Target) -> None:
    async with _trap() as trap:
        url = f"http://127.0.0.1:{trap.port}/v1"
        members = {"api_base": url, "base_url": url, "host": url, "upstream": url, "messages": []}
        body = json.dumps(members).encode()
        await _goes_to_the_model(target, target.full_request(body))
        await _goes_to_the_model(target, target.frame_request(encoded(self_contained(body))))


@SERVER.case("15.6", "a path with the segment .history-delta is answered with 404, and never forwarded", "S-25")
async def _reserved(target: Target) -> None:
    delivery = "0" * 32
    paths = (
        f"/{target.token}{names.DELIVERIES_SEGMENT}{delivery}",
        f"/{target.token}/ng-rollout/{target.rollout}{names.DELIVERIES_SEGMENT}{delivery}?offset=7",
        f"/{target.token}/.history-delta",
        f"/{target.token}/.history-delta/",
        f"/{target.token}/.history-delta/v1/chat/completions",
        f"/.history-delta/{target.token}/v1/models",
    )
    for path in paths:
        for method in ("GET", "DELETE", "POST"):
            head = target.headers(0, content_type=None, rollout=None)
            response = await target.exchange(request_head(method, path, head), method)
            status(response, 404)
    await target.nothing_arrived()


@SERVER.case("15.7", "a frame on such a path is not forwarded either", "S-25", "F-3")
async def _reserved_for_frames(target: Target) -> None:
    frame = encoded(self_contained(_BODY))
    response = await target.frame(frame, target=f"/{target.token}/.history-delta/v1/chat/completions")
    expect(400 <= response.status < 500, "a refusal", told(response))
    await target.nothing_arrived()


@SERVER.case("15.8", "what is no business of the protocol passes through: other paths and methods", "F-2")
async def _others(target: Target) -> None:
    for method, path, body in (
        ("GET", "/v1/models", b""),
        ("POST", "/v1/messages/count_tokens", b'{"messages":[]}'),
        ("GET", "/v1/responses", b""),
    ):
        length = len(body) if body else None
        head = target.headers(length, content_type="application/json", version=None)
        response = await target.exchange(request_head(method, f"/{target.token}{path}?a=%20b&a", head) + body, method)
        status(response, 200)
        request = target.model.only().request
        expect(request.method == method and request.body == body, "the same request at the model", repr(request))
        expect(request.target.endswith(f"{path}?a=%20b&a"), "the same path and query at the model", request.target)
        target.model.calls.clear()
