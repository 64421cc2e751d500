# SPDX-License-Identifier: Apache-2.0
"""The server's own answers: what each refusal looks like in the dialect of the call. No socket is touched here."""

from dataclasses import dataclass, field

from history_delta_protocol import wire
from history_delta_protocol.dialect import Dialect, error_body

from .headers import Header


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole response of ours. ``closes``: whatever comes next on the connection is not read."""

    status: int
    body: bytes
    headers: list[Header] = field(default_factory=list)
    closes: bool = False


class Refused(Exception):
    """The request is answered by us, with ``answer``; ``reason`` is what logs and metrics call it."""

    def __init__(self, answer: Answer, reason: str) -> None:
        super().__init__(reason)
        self.answer = answer
        self.reason = reason


def refusal(dialect: Dialect | None, status: int, code: str, message: str, *headers: Header) -> Refused:
    """A JSON error in the dialect's shape."""
    return Refused(Answer(status, error_body(dialect, status, code, message), list(headers)), code)


def malformed(dialect: Dialect | None, field_name: str, problem: str) -> Refused:
    return refusal(dialect, 400, wire.MALFORMED_CODE, f"{field_name}: {problem}")


def invalid_rollout(dialect: Dialect | None, problem: str) -> Refused:
    message = f"rollout id: expected one of the form [A-Za-z0-9][A-Za-z0-9._-]{{0,199}}, got {problem[:250]!r}"
    return refusal(dialect, 400, wire.ROLLOUT_CODE, message)


def too_large(dialect: Dialect | None, message: str) -> Refused:
    return refusal(dialect, 413, wire.TOO_LARGE_CODE, message)


def busy(dialect: Dialect | None, message: str, retry_after: int) -> Refused:
    return refusal(dialect, 429, wire.BUSY_CODE, message, (b"Retry-After", str(retry_after).encode("ascii")))


def paused(dialect: Dialect | None, seconds: float) -> Refused:
    message = f"nothing came of the request's body for {seconds:g} s (setting agent_pause_seconds)"
    return refusal(dialect, 408, "request_timeout", message)


def reused(dialect: Dialect | None, delivery: str) -> Refused:
    message = f"delivery {delivery} is known with another method, path or content"
    return refusal(dialect, 422, wire.REUSED_CODE, message)


def unreachable(dialect: Dialect | None, message: str) -> Refused:
    """No model server has seen the call."""
    return refusal(dialect, 502, wire.UPSTREAM_UNREACHABLE_CODE, message)


def failed(dialect: Dialect | None, message: str) -> Refused:
    """A model server has, and may have acted on it, but answered nothing."""
    return refusal(dialect, 502, wire.UPSTREAM_FAILED_CODE, message)


def resync(dialect: Dialect | None, reason: str) -> Refused:
    header = (wire.RESYNC_HEADER.encode("ascii"), reason.encode("ascii"))
    message = f"the frame cannot be rebuilt here ({reason}); send this delivery once more, in full"
    made = refusal(dialect, wire.RESYNC_STATUS, wire.RESYNC_CODE, message, header)
    made.reason = reason
    return made


def not_http_1(status: int, code: str, message: str) -> Refused:
    """A request whose end others might see elsewhere: what follows it could be taken for what it is not."""
    return Refused(Answer(status, error_body(None, status, code, message), closes=True), code)


def head_too_large(limit: int) -> Refused:
    message = f"the request's head is over the limit of {limit} bytes (setting max_head_bytes)"
    return not_http_1(431, "head_too_large", message)


def not_found() -> Refused:
    return refusal(None, 404, "not_found", "nothing is served here")


def upgrade_required() -> Refused:
    made = refusal(None, 426, "upgrade_not_supported", "WebSocket is not served here; use plain HTTP/1.1")
    made.answer.headers.append((b"Upgrade", b"HTTP/1.1"))
    return made
