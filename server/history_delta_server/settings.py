# SPDX-License-Identifier: Apache-2.0
"""Every setting of the server: name, type, default and what it is for, each in one place.

Where a value comes from (flag, environment, file) is the business of config.py.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from history_delta_protocol import wire

from . import kinds
from .kinds import Address, Kind, UpstreamUrl


def _setting(kind: Kind, help: str, default: Any, secret: bool = False) -> Any:
    return field(default=default, metadata={"kind": kind, "help": help, "secret": secret})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A whole, checked configuration. Sizes are bytes, times seconds."""

    enabled: bool = _setting(kinds.BOOLEAN, "speak the protocol; off: a plain proxy that refuses frames", False)
    upstream: tuple[UpstreamUrl, ...] = _setting(
        kinds.UPSTREAMS, "model servers, each an origin with or without a base path", ()
    )
    listen: Address = _setting(  # noqa: RUF009 - Address is frozen
        kinds.TCP_ADDRESS, "where sandboxes connect", Address("127.0.0.1", 8700)
    )
    admin_listen: Address = _setting(  # noqa: RUF009
        kinds.ADDRESS, "where /health, /ready and /metrics are served", Address("127.0.0.1", 8701)
    )
    upstream_api_key: str | None = _setting(
        kinds.KEY, "credential for the model, in place of what the sandbox sent", None, secret=True
    )
    upstream_api_key_file: str | None = _setting(kinds.PATH, "a file that holds that credential alone", None)
    keep_rollout_prefix: bool = _setting(kinds.BOOLEAN, "leave /ng-rollout/<id> on the path to the model", False)
    model_paths_only: bool = _setting(kinds.BOOLEAN, "404 for all but model calls, /models and count_tokens", False)
    workers: int = _setting(kinds.ONE, "worker processes", 1)
    ready_file: str | None = _setting(kinds.PATH, "written as JSON once requests are accepted", None)
    log_format: str = _setting(kinds.LOG_FORMAT, "form of the log on stderr", "json")
    log_body_hash: bool = _setting(kinds.BOOLEAN, "log the SHA-256 of every rebuilt body", False)

    max_head_bytes: int = _setting(kinds.SIZE, "a request's head as a whole", wire.MAX_HEAD_BYTES)
    max_body_bytes: int = _setting(kinds.SIZE, "a rebuilt body, and a decompressed frame", wire.MAX_BODY_BYTES)
    max_frame_line_bytes: int = _setting(kinds.SIZE, "the JSON line of a frame", wire.MAX_FRAME_LINE_BYTES)
    max_held_body_bytes: int = _setting(
        kinds.SIZE, "a full body to hold; a larger one is passed through unheld", wire.MAX_HELD_BODY_BYTES
    )

    max_rollout_history_bytes: int = _setting(kinds.SIZE, "histories held of one rollout", 256 * wire.MIB)
    max_history_bytes: int = _setting(kinds.SIZE, "histories held in all", 4096 * wire.MIB)
    history_idle_seconds: float = _setting(kinds.SECONDS, "how long an idle rollout is held", 900.0)

    max_connections: int = _setting(kinds.COUNT, "open connections from sandboxes", 4096)
    max_calls_in_flight: int = _setting(kinds.COUNT, "calls in flight of one rollout", 32)
    max_pass_throughs_in_flight: int = _setting(kinds.COUNT, "requests in flight that merely pass through", 4096)
    max_rollout_bytes_in_flight: int = _setting(kinds.SIZE, "request bodies in flight of one rollout", 64 * wire.MIB)
    max_bytes_in_flight: int = _setting(kinds.SIZE, "request bodies in flight in all", 512 * wire.MIB)

    delivery_keep_seconds: float = _setting(kinds.SECONDS, "how long an answered delivery is known", 60.0)
    max_replay_bytes: int = _setting(kinds.SIZE, "a response kept for a repeated delivery", 8 * wire.MIB)
    max_replays_bytes: int = _setting(kinds.SIZE, "all responses kept for repeated deliveries", 64 * wire.MIB)
    max_deliveries: int = _setting(kinds.COUNT, "deliveries known", 65536)

    early_close_seconds: float = _setting(
        kinds.SECONDS, "how long a response is read on after the agent has closed", 0.25
    )
    early_close_bytes: int = _setting(kinds.SIZE, "how much of a response is read on then", 64 * wire.KIB)

    upstream_connect_seconds: float = _setting(kinds.SECONDS, "how long connecting to a model may take", 10.0)
    # Common model servers close an idle connection after 5 s; one that closes as we send costs a call.
    upstream_keepalive_seconds: float = _setting(kinds.SECONDS, "how long an idle connection to a model is kept", 4.0)
    upstream_retry_seconds: float = _setting(kinds.SECONDS, "how long an unreachable model is avoided", 5.0)
    max_pinned_rollouts: int = _setting(kinds.COUNT, "rollouts whose model server is remembered", 100_000)
    agent_keepalive_seconds: float = _setting(kinds.SECONDS, "how long an idle connection from a sandbox is kept", 75.0)
    agent_pause_seconds: float = _setting(kinds.SECONDS, "how long a pause in a request's head or body may last", 60.0)
    shutdown_seconds: float = _setting(kinds.SECONDS, "how long calls in flight may take to end at SIGTERM", 30.0)

    @property
    def frame_limit(self) -> tuple[int, str]:
        """What a frame may come to, and the setting that says so: no more than its rollout may have in flight."""
        return min(
            (self.max_body_bytes, "max_body_bytes"), (self.max_rollout_bytes_in_flight, "max_rollout_bytes_in_flight")
        )


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one setting, and its spelling in each source."""

    name: str
    kind: Kind
    help: str
    default: Any
    secret: bool

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return "HISTORY_DELTA_" + self.name.upper()

    @property
    def key(self) -> str:
        """In the file: what switches the protocol on carries its full name everywhere."""
        return "history_delta_enabled" if self.name == "enabled" else self.name


SETTINGS = tuple(
    Setting(item.name, item.metadata["kind"], item.metadata["help"], item.default, item.metadata["secret"])
    for item in fields(Settings)
)
