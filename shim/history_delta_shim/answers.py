# SPDX-License-Identifier: Apache-2.0
"""Answers of the shim's own: what refuses a request, in the error shape of the dialect that it was made in."""

from typing import Optional, Sequence, Tuple

from history_delta_protocol import wire
from history_delta_protocol.dialect import Dialect, error_body

from . import http1
from .headers import Headers

INVALID_CODE = "history_delta_invalid_request"
RETRY_AFTER_SECONDS = "1"

_REASONS = {
    400: "Bad Request",
    413: "Content Too Large",
    414: "URI Too Long",
    417: "Expectation Failed",
    426: "Upgrade Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}

# (status, headers, body)
Answer = Tuple[int, Headers, bytes]


def invalid(dialect: Optional[Dialect], status: int, message: str, headers: Sequence[Tuple[str, str]] = ()) -> Answer:
    """A request that is refused for what it is."""
    return _error(dialect, status, INVALID_CODE, message, headers)


def unavailable(dialect: Optional[Dialect], message: str) -> Answer:
    """A 503 that asks the agent to come again."""
    return _error(dialect, 503, wire.UNAVAILABLE_CODE, message, [("Retry-After", RETRY_AFTER_SECONDS)])


def unreachable(dialect: Optional[Dialect], why: str) -> Answer:
    """A 503 where no connection to the upstream could be made."""
    return unavailable(dialect, "cannot reach the upstream %s" % why)


def too_many_connections(limit: int) -> Answer:
    """A 503 for a connection beyond the limit."""
    return unavailable(None, "more than %d connections to the shim are open" % limit)


def _error(
    dialect: Optional[Dialect], status: int, code: str, message: str, headers: Sequence[Tuple[str, str]]
) -> Answer:
    return status, [("Content-Type", "application/json")] + list(headers), error_body(dialect, status, code, message)


def to_bytes(answer: Answer, keep: bool, with_body: bool = True) -> bytes:
    """An answer as it goes on the wire; without its body for HEAD."""
    status, own_headers, body = answer
    headers = list(own_headers) + [("Content-Length", str(len(body)))]
    if not keep:
        headers.append(("Connection", "close"))
    return http1.response_head(status, _REASONS.get(status, "Error"), headers) + (body if with_body else b"")
