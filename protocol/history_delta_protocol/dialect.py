# SPDX-License-Identifier: Apache-2.0
"""Which API a request path belongs to, which rollout it names, and what an error looks like there."""

import json
import re
from typing import Any, Dict, NamedTuple, Optional, Tuple

from .wire import CAPABILITIES_SUFFIX


class Dialect(NamedTuple):
    name: str
    suffix: str
    history_key: str


CHAT = Dialect("chat", "/chat/completions", "messages")
RESPONSES = Dialect("responses", "/responses", "input")
MESSAGES = Dialect("messages", "/messages", "messages")
DIALECTS = (CHAT, RESPONSES, MESSAGES)

# \Z, not $: a trailing newline must not pass.
ROLLOUT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
DELIVERY_ID = re.compile(r"[0-9a-f]{32}\Z")

_ROLLOUT_SEGMENT = "/ng-rollout/"
_CAPTURE_SEGMENT = "/training-token-capture"

_ERROR_TYPES = {
    400: "invalid_request_error",
    409: "conflict_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
}


class InvalidRolloutId(ValueError):
    """A rollout id outside the grammar ``[A-Za-z0-9][A-Za-z0-9._-]{0,199}``."""


class RolloutPath(NamedTuple):
    """A request target taken apart: target == base + prefix + rest, where prefix names the rollout ('' for none)."""

    rollout: Optional[str]
    base: str
    prefix: str
    rest: str


def dialect_of(target: str) -> Optional[Dialect]:
    """The dialect of a request target (path with or without query), or None where it is not a model call."""
    path = target.partition("?")[0]
    for dialect in DIALECTS:
        if path.endswith(dialect.suffix):
            return dialect
    return None


def split_rollout_path(target: str) -> RolloutPath:
    """Take the rollout prefix (Gym's convention) out of a request target.

    Raises InvalidRolloutId where there is a prefix whose id is outside the grammar.
    """
    path, mark, query = target.partition("?")
    base, found, after = path.partition(_ROLLOUT_SEGMENT)
    if not found:
        return RolloutPath(None, "", "", target)
    rollout, slash, rest = after.partition("/")
    if not ROLLOUT_ID.match(rollout):
        raise InvalidRolloutId(rollout)
    prefix = _ROLLOUT_SEGMENT + rollout
    rest = slash + rest
    if rest == _CAPTURE_SEGMENT or rest.startswith(_CAPTURE_SEGMENT + "/"):
        prefix += _CAPTURE_SEGMENT
        rest = rest[len(_CAPTURE_SEGMENT) :]
    return RolloutPath(rollout, base, prefix, rest + mark + query)


def capabilities_path(target: str) -> str:
    """Where to ask for capabilities before a model call on ``target``.

    The rollout prefix is left out: behind a Gym token-capture prefix any path but a model call marks the rollout
    as incomplete, so no probe may go there.
    """
    split = split_rollout_path(target)
    rest = split.rest.partition("?")[0]
    dialect = dialect_of(rest)
    if dialect is not None:
        rest = rest[: -len(dialect.suffix)]
    return split.base + rest + CAPABILITIES_SUFFIX


def error_body(dialect: Optional[Dialect], status: int, code: str, message: str) -> bytes:
    """A JSON error in the shape that clients of the dialect parse (OpenAI's where there is no dialect)."""
    kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    error: Dict[str, Any] = {"type": kind, "code": code, "message": message}
    document: Dict[str, Any] = {"type": "error", "error": error}
    if dialect is not MESSAGES:
        document = {"error": dict(error, param=None)}
    return json.dumps(document).encode("ascii")


def rollout_of(target: str, header: Optional[str]) -> Tuple[Optional[str], RolloutPath]:
    """The rollout that a request belongs to, from its path prefix or else from its rollout header.

    Raises InvalidRolloutId where either is outside the grammar or where both are there and differ.
    """
    split = split_rollout_path(target)
    if header is None:
        return split.rollout, split
    if not ROLLOUT_ID.match(header):
        raise InvalidRolloutId(header)
    if split.rollout is not None and split.rollout != header:
        raise InvalidRolloutId("%s in the path, %s in the header" % (split.rollout, header))
    return header, split
