# SPDX-License-Identifier: Apache-2.0
"""Cases: a server on which the protocol is switched off. Run where the harness starts the server. SPEC.md 3.3, 7."""

import gzip

from history_delta_protocol import wire as names

from ..check import expect, none_of_ours, resync, status, told
from ..endpoint import Call
from ..frames import conversation, delta, encoded, self_contained
from ..registry import SERVER
from ..wire import request_head
from .target import Target

_BODY = conversation(2)
_FRAME = encoded(self_contained(_BODY))


@SERVER.case("16.1", "the capabilities' path is answered with 404, and never forwarded", "S-4")
async def _capabilities(target: Target) -> None:
    off = await target.switched_off()
    for base in ("", "/v1"):
        path = f"/{off.token}{base}{names.CAPABILITIES_SUFFIX}"
        response = await off.exchange(request_head("GET", path, [("Host", "x")]), "GET")
        status(response, 404)
    await off.nothing_arrived()


@SERVER.case("16.2", "every frame is answered with a resync disabled", "S-20", "S-19", "S-7", "F-3")
async def _frames(target: Target) -> None:
    off = await target.switched_off()
    for dialect in ("chat", "responses", "messages"):
        resync(await off.frame(_FRAME, dialect=dialect), names.RESYNC_DISABLED)
    unknown = encoded(delta(conversation(2), conversation(3)))
    resync(await off.frame(unknown), names.RESYNC_DISABLED)
    resync(await off.frame(b"not even a frame"), names.RESYNC_DISABLED)
    resync(await off.frame(_FRAME, rollout=None), names.RESYNC_DISABLED)
    resync(await off.frame(gzip.compress(_FRAME), extra=[("Content-Encoding", "gzip")]), names.RESYNC_DISABLED)
    resync(await off.frame(_FRAME, content_type=f"{names.FRAME_MEDIA_TYPE.upper()};a=b"), names.RESYNC_DISABLED)
    await off.nothing_arrived()


@SERVER.case("16.3", "no frame is forwarded, on whatever path and with whatever headers", "S-8", "F-3")
async def _nowhere(target: Target) -> None:
    off = await target.switched_off()
    sends = (
        off.frame_request(_FRAME, target=f"/{off.token}/v1/models"),
        off.frame_request(_FRAME, version=None),
        off.frame_request(_FRAME, version="2"),
        off.frame_request(_FRAME, extra=[("Content-Type", "application/json")]),
        off.frame_request(_FRAME, content_type=f"text/plain, {names.FRAME_MEDIA_TYPE}"),
        off.frame_request(_FRAME, target=f"/{off.token}/.history-delta/x"),
    )
    for sent in sends:
        response = await off.exchange(sent)
        expect(400 <= response.status < 500, "a refusal", told(response))
    await off.nothing_arrived()


@SERVER.case(
    "16.4", "a full body passes as through a plain proxy, and its response has no header of ours", "F-1", "S-20"
)
async def _full(target: Target) -> None:
    off = await target.switched_off()

    async def forge(call: Call) -> None:
        await call.respond(b"{}", (names.VERSION_HEADER, "1"), (names.HELD_HEADER, "0 x"))

    off.model.answer = forge
    response = await off.full(_BODY)
    await off.taken(_BODY, response)
    none_of_ours("the response", response.headers)


@SERVER.case("16.5", "headers of ours are stripped all the same", "F-5")
async def _headers(target: Target) -> None:
    off = await target.switched_off()
    await off.full(_BODY, extra=[("HISTORY-DELTA-X", "1")])
    none_of_ours("the request at the model", off.model.only().request.headers)


@SERVER.case("16.6", "reserved paths are reserved all the same", "S-25")
async def _reserved(target: Target) -> None:
    off = await target.switched_off()
    path = f"/{off.token}{names.DELIVERIES_SEGMENT}{'0' * 32}"
    response = await off.exchange(request_head("GET", path, [("Host", "x")]), "GET")
    status(response, 404)
    await off.nothing_arrived()
