# SPDX-License-Identifier: Apache-2.0
"""Cases: what a frame is, and where it must not go. SPEC.md sections 1 and 3.5."""

from history_delta_protocol import wire as names

from ..check import expect, refused, resync, speaks, told
from ..frames import conversation, encoded, self_contained
from ..registry import SERVER
from ..wire import request_head
from .target import FRAME, Target

_BODY = conversation(2)
_FRAME = encoded(self_contained(_BODY))


@SERVER.case("9.1", "the media type is known in any case and with any parameters", "S-8")
async def _spellings(target: Target) -> None:
    for spelling in (
        FRAME.upper(),
        f"{FRAME};v=1",
        f"{FRAME} ; charset=utf-8",
        'Application/VND.history-delta;q="a,b"',
    ):
        await target.taken(_BODY, await target.frame(_FRAME, content_type=spelling))
        target.model.calls.clear()


@SERVER.case("9.2", "on a path that is no model call it is refused", "S-10", "F-3")
async def _paths(target: Target) -> None:
    for path in (
        "/v1/models",
        "/v1/messages/count_tokens",
        "/v1/chat/completions/",
        "/v1/Responses",
        "/",
        "/v1/responses%2f",
    ):
        refused(await target.frame(_FRAME, target=f"/{target.token}{path}"), 400, names.MALFORMED_CODE)
    await target.nothing_arrived()


@SERVER.case("9.3", "with another method than POST it is refused", "S-10", "F-3")
async def _methods(target: Target) -> None:
    headers = target.headers(len(_FRAME), content_type=FRAME, rollout=target.rollout)
    for method in ("PUT", "PATCH", "DELETE", "GET", "OPTIONS"):
        response = await target.exchange(request_head(method, target.path(), headers) + _FRAME, method)
        refused(response, 400, names.MALFORMED_CODE)
    await target.nothing_arrived()


@SERVER.case("9.4", "without History-Delta-Version: 1 it is refused", "S-10", "F-25")
async def _versions(target: Target) -> None:
    for version in (None, "2", "0", "1.0", "01", ""):
        refused(await target.frame(_FRAME, version=version), 400, names.MALFORMED_CODE)
    await target.nothing_arrived()


@SERVER.case("9.5", "with a coding that was not advertised it is refused", "S-10")
async def _codings(target: Target) -> None:
    advertised = (await target.capabilities()).get("encodings", ())
    for coding in ("br", "deflate", "zstd", "compress", "gzip, br", "x-unheard-of", "gzip"):
        if coding not in advertised:
            response = await target.frame(_FRAME, extra=[("Content-Encoding", coding)])
            refused(response, 400, names.MALFORMED_CODE)
    await target.nothing_arrived()


@SERVER.case("9.6", "named beside another media type, it is not forwarded as it is either", "S-8", "F-3")
async def _beside_another(target: Target) -> None:
    beside = (
        [("Content-Type", "application/json"), ("Content-Type", FRAME)],
        [("Content-Type", FRAME), ("Content-Type", "application/json")],
        [("Content-Type", FRAME), ("content-type", FRAME.upper())],
        [("Content-Type", f"application/json, {FRAME}")],
        [("Content-Type", f"{FRAME}, application/json")],
    )
    for extra in beside:
        connection = await target.connect()
        await connection.send(target.full_request(_FRAME, content_type=None, extra=extra))
        await connection.response_or_none()
    await _fence(target)
    for call in target.model.calls:
        expect(call.request.body != _FRAME, "no frame at the model", f"one with {call.request.headers}")
        said = ", ".join(call.request.values("Content-Type")).lower()
        expect(FRAME not in said, f"no {FRAME} at the model", said)


async def _fence(target: Target) -> None:
    """Whatever was sent has arrived by now."""
    await target.nothing_arrived(len(target.model.calls))


@SERVER.case("9.7", "of no rollout it is answered with a resync unknown-base", "S-3")
async def _no_rollout(target: Target) -> None:
    resync(await target.frame(_FRAME, rollout=None), names.RESYNC_UNKNOWN_BASE)
    await target.nothing_arrived()


@SERVER.case("9.8", "on the paths that are the server's own it goes nowhere", "S-8", "S-4", "S-25")
async def _own_paths(target: Target) -> None:
    for path in (names.CAPABILITIES_SUFFIX, f"{names.DELIVERIES_SEGMENT}{'0' * 32}"):
        response = await target.frame(_FRAME, target=f"/{target.token}{path}")
        expect(400 <= response.status < 500, "a 4xx", told(response))
        speaks(response)
    await target.nothing_arrived()


@SERVER.case("9.9", "what it stands for cannot be a frame again", "F-15", "S-9", "F-3")
async def _nested(target: Target) -> None:
    for content_type in (FRAME, f"text/plain, {FRAME.upper()}", f"{FRAME};x=1"):
        nested = encoded(self_contained(_BODY, content_type=content_type))
        refused(await target.frame(nested), 400, names.MALFORMED_CODE)
    await target.nothing_arrived()
