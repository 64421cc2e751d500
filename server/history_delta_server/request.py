# SPDX-License-Identifier: Apache-2.0
"""What a request is, by its head alone: a model call of a rollout, a question about us, or something to pass on.

Refuses here what must never travel further. The body is not looked at, and nothing is sent.
"""

import re
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from history_delta_protocol import wire
from history_delta_protocol.dialect import (
    DELIVERY_ID,
    Dialect,
    InvalidRolloutId,
    RolloutPath,
    dialect_of,
    rollout_of,
)

from . import errors, headers
from .headers import Headers

_RESERVED = ".history-delta"
# Gym's token capture takes every other request below it for a sign that the rollout is incomplete.
_CAPTURE = "training-token-capture"
# Beside the calls of a model: what agents ask before one.
_MODEL_PATHS = (["models"], ["messages", "count_tokens"])
_DOTS = frozenset([".", ".."])
_SEPARATOR = re.compile(r"[/\\]")
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)


class Route(Enum):
    """Where a request goes."""

    CAPABILITIES = "capabilities"
    MODEL_CALL = "model-call"
    PASS_THROUGH = "pass-through"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request's head. ``target`` is the path with its query as sent; ``reason`` says why it passes through."""

    method: str
    target: str
    headers: Headers
    dialect: Dialect | None
    path: RolloutPath
    rollout: str | None
    delivery: str | None
    is_frame: bool
    speaks_protocol: bool
    route: Route
    reason: str | None = None

    def upstream_target(self, *, keep_prefix: bool) -> str:
        """The target below an upstream's base path: the rollout's prefix stays here unless it is to be kept."""
        target = self.target if keep_prefix else self.path.base + self.path.rest
        return target if target.startswith("/") else "/" + target


@dataclass(frozen=True, slots=True)
class Rules:
    """What the settings of the same names say of requests."""

    enabled: bool
    keep_rollout_prefix: bool = False
    model_paths_only: bool = False


def classify(method: str, raw_target: str, raw_headers: Headers, rules: Rules) -> Incoming:
    """Raises Refused for what we answer ourselves."""
    target = origin_form(raw_target)
    dialect = dialect_of(target)
    is_frame = headers.names_frame(raw_headers)
    _refuse_foreign(raw_headers)
    if is_frame and not rules.enabled:
        raise errors.resync(dialect, wire.RESYNC_DISABLED)
    rollout, path = _rollout(target, raw_headers, dialect)
    segments = _segments(target, dialect)
    if _RESERVED in segments:
        raise errors.not_found()
    speaks, delivery = _protocol_headers(raw_headers, dialect, is_frame) if rules.enabled else (False, None)
    route, reason = _route(method, segments, dialect, rollout, rules)
    if is_frame and route is not Route.MODEL_CALL:
        raise _misdirected(dialect, reason)
    return Incoming(method, target, raw_headers, dialect, path, rollout, delivery, is_frame, speaks, route, reason)


def origin_form(target: str) -> str:
    """The path and query. The host of an absolute target names no upstream: it is dropped."""
    match = _ABSOLUTE.match(target)
    if match:
        target = target[match.end() :]
        return target if target.startswith("/") else "/" + target
    if not target.startswith("/"):
        raise errors.refusal(None, 400, "invalid_target", "the request target must be a path")
    return target


def _segments(target: str, dialect: Dialect | None) -> list[str]:
    """Those of the path, decoded. An upstream that resolves dots would be led out of its base path."""
    path = target.partition("?")[0]
    segments = _SEPARATOR.split(unquote(path))
    if "#" in path or not _DOTS.isdisjoint(segments):
        raise errors.refusal(dialect, 400, "invalid_target", "the path must be without '.' and '..' segments and '#'")
    return segments


def _refuse_foreign(raw_headers: Headers) -> None:
    if headers.tokens(raw_headers, b"transfer-encoding") - {b"chunked"}:
        raise errors.not_http_1(501, "transfer_coding_not_supported", "the only transfer coding known is chunked")
    if b"websocket" in headers.tokens(raw_headers, b"upgrade"):
        raise errors.upgrade_required()


def _rollout(target: str, raw_headers: Headers, dialect: Dialect | None) -> tuple[str | None, RolloutPath]:
    try:
        return rollout_of(target, _single(raw_headers, wire.ROLLOUT_HEADER, dialect))
    except InvalidRolloutId as error:
        raise errors.invalid_rollout(dialect, str(error)) from error


def _protocol_headers(raw_headers: Headers, dialect: Dialect | None, is_frame: bool) -> tuple[bool, str | None]:
    """Whether a shim speaks our version, and the id that it gave to this delivery."""
    version = _single(raw_headers, wire.VERSION_HEADER, dialect)
    speaks = version == str(wire.PROTOCOL_VERSION)
    if is_frame and not speaks:
        raise errors.malformed(dialect, wire.VERSION_HEADER, f"expected {wire.PROTOCOL_VERSION} with a frame")
    delivery = _single(raw_headers, wire.DELIVERY_HEADER, dialect)
    if delivery is not None and not DELIVERY_ID.match(delivery):
        raise errors.malformed(dialect, wire.DELIVERY_HEADER, "expected 32 characters of lower-case hex")
    return speaks, delivery


def _single(raw_headers: Headers, name: str, dialect: Dialect | None) -> str | None:
    found = headers.values(raw_headers, name.lower().encode("ascii"))
    if len(found) > 1:
        raise errors.malformed(dialect, name, "stands twice")
    return found[0].decode("latin-1") if found else None


def _route(
    method: str, segments: list[str], dialect: Dialect | None, rollout: str | None, rules: Rules
) -> tuple[Route, str | None]:
    if "/".join(segments).endswith(wire.CAPABILITIES_SUFFIX):
        if not rules.enabled or method not in ("GET", "HEAD"):
            raise errors.not_found()
        return Route.CAPABILITIES, None
    _refuse_beyond_models(method, segments, dialect, rules)
    if not rules.enabled:
        return Route.PASS_THROUGH, "disabled"
    if dialect is None or method != "POST":
        return Route.PASS_THROUGH, "no-model-call"
    if rollout is None:
        return Route.PASS_THROUGH, "no-rollout"
    return Route.MODEL_CALL, None


def _refuse_beyond_models(method: str, segments: list[str], dialect: Dialect | None, rules: Rules) -> None:
    if rules.keep_rollout_prefix and _CAPTURE in segments and (dialect is None or method != "POST"):
        raise errors.not_found()
    of_a_model = dialect is not None or any(segments[-len(path) :] == path for path in _MODEL_PATHS)
    if rules.model_paths_only and not of_a_model:
        raise errors.not_found()


def _misdirected(dialect: Dialect | None, reason: str | None) -> errors.Refused:
    if reason == "no-rollout":
        # Nothing is held of no rollout: the same request in full passes through.
        return errors.resync(dialect, wire.RESYNC_UNKNOWN_BASE)
    return errors.malformed(dialect, "path", "a frame stands for the body of a POST to a model path")
