# SPDX-License-Identifier: Apache-2.0
"""The comparisons that cases are made of: each fails the case with what was expected and what came."""

import hashlib
import json
from typing import Any

from history_delta_protocol import wire as names
from history_delta_protocol.pieces import common_prefix

from .base import CaseFailed
from .transcript import escaped
from .wire import Header, Response

_SHOWN = 200


def expect(holds: object, expected: str, got: str) -> None:
    if not holds:
        raise CaseFailed(expected, got)


def equal(what: str, got: object, expected: object) -> None:
    expect(got == expected, f"{what} {expected!r}", repr(got))


def same_octets(what: str, got: bytes, expected: bytes) -> None:
    """Octet for octet; tells where the two part."""
    if got == expected:
        return
    place = common_prefix(got, 0, len(got), expected, 0, len(expected))
    raise CaseFailed(f"{what}, {_described(expected, place)}", f"{_described(got, place)}; they part at octet {place}")


def _described(data: bytes, place: int) -> str:
    start = max(0, place - 40)
    digest = hashlib.sha256(data).hexdigest()[:16]
    return f"{len(data)} octets, SHA-256 {digest}…, from {start} on {escaped(data[start : start + _SHOWN])!r}"


def told(response: Response) -> str:
    """A response in one line."""
    ours = " ".join(f"{name}: {value}" for name, value in response.headers if is_ours(name))
    end = "" if response.ending == "complete" else f" ({response.ending})"
    return f"{response.status} {ours} {escaped(response.body[:_SHOWN])}{end}"


def is_ours(name: str) -> bool:
    return name.lower().startswith(names.HEADER_PREFIX)


def status(response: Response, expected: int) -> None:
    expect(response.status == expected, f"status {expected}", told(response))


def complete(response: Response) -> None:
    expect(response.ending == "complete", "a complete response", told(response))


def speaks(response: Response) -> None:
    """The version header, once."""
    expect(response.values(names.VERSION_HEADER) == ["1"], f"{names.VERSION_HEADER}: 1", told(response))


def none_of_ours(what: str, headers: list[Header]) -> None:
    found = [f"{name}: {value}" for name, value in headers if is_ours(name)]
    expect(not found, f"{what} without a header of this protocol", "; ".join(found))


def error_of(response: Response) -> dict[str, Any]:
    """The ``error`` object of a refusal, {} where the body is none."""
    try:
        document = json.loads(response.body)
        error = document["error"]
    except (ValueError, TypeError, KeyError):
        return {}
    return error if isinstance(error, dict) else {}


def refused(response: Response, wanted: int, code: str, *mentions: str) -> None:
    """Status and code of section 10.2, and what the message must mention."""
    error = error_of(response)
    expect(
        response.status == wanted and error.get("code") == code,
        f"a refusal with {wanted} {code}",
        told(response),
    )
    for word in mentions:
        expect(word in str(error.get("message")), f"an error message that names {word}", told(response))


def resync(response: Response, *reasons: str) -> None:
    """The three marks, the code, and one of these reasons."""
    refused(response, names.RESYNC_STATUS, names.RESYNC_CODE)
    speaks(response)
    given = response.values(names.RESYNC_HEADER)
    expect(len(given) == 1 and given[0] in reasons, f"{names.RESYNC_HEADER}: {' or '.join(reasons)}", told(response))
