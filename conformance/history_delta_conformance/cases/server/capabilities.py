# SPDX-License-Identifier: Apache-2.0
"""Cases: what a server says of itself before the first call. SPEC.md section 3.3."""

from history_delta_protocol import wire as names

from ..check import equal, expect, status, told
from ..registry import SERVER
from ..wire import Response, request_head
from .target import Target


async def _ask(target: Target, path: str, method: str = "GET") -> Response:
    return await target.exchange(request_head(method, path, [("Host", target.server.authority)]), method)


@SERVER.case("1.1", "capabilities are a JSON object with version 1", "S-4", "F-25")
async def _document(target: Target) -> None:
    document = await target.capabilities()
    expect(type(document.get("version")) is int, "an integer version", repr(document.get("version")))
    equal("the version", document["version"], 1)


@SERVER.case("1.2", "encodings and limits, where they are told, have the types of the table", "S-4")
async def _types(target: Target) -> None:
    document = await target.capabilities()
    encodings = document.get("encodings", [])
    good = isinstance(encodings, list) and all(isinstance(name, str) for name in encodings)
    expect(good, "encodings as an array of strings", repr(encodings))
    limits = document.get("limits", {})
    expect(isinstance(limits, dict), "limits as an object", repr(limits))
    for name in ("frame_line_bytes", "body_bytes", "messages", "pieces"):
        value = limits.get(name, 1)
        expect(type(value) is int and value > 0, f"limits.{name} as a positive integer", repr(value))


@SERVER.case("1.3", "they fit into what a client reads: 64 KiB", "S-4")
async def _size(target: Target) -> None:
    response = await _ask(target, f"/{target.token}/v1{names.CAPABILITIES_SUFFIX}")
    expect(len(response.body) <= 64 * names.KIB, "at most 65536 octets", f"{len(response.body)} octets")


@SERVER.case("1.4", "they are answered under every base, and never by the model", "S-4")
async def _bases(target: Target) -> None:
    for base in ("", "/v1", "/a/b/v1", "/openai/v1"):
        response = await _ask(target, f"/{target.token}{base}{names.CAPABILITIES_SUFFIX}")
        status(response, 200)
    response = await _ask(target, names.CAPABILITIES_SUFFIX)
    status(response, 200)
    await target.nothing_arrived()


@SERVER.case("1.5", "what else is asked there is not forwarded either", "S-4")
async def _other_methods(target: Target) -> None:
    path = f"/{target.token}/v1{names.CAPABILITIES_SUFFIX}"
    for method in ("POST", "DELETE"):
        head = request_head(method, path, [("Host", target.server.authority), ("Content-Length", "0")])
        response = await target.exchange(head, method)
        expect(400 <= response.status < 500, "a 4xx", told(response))
    await target.nothing_arrived()
