# SPDX-License-Identifier: Apache-2.0
"""Joins what the relays saw, what the model recorded and what shim and server logged into one row for each call.

Bytes and hashes come from relays and recordings; the logs add the kind of a call and the times, nothing else.
"""

import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from history_delta_protocol import wire
from history_delta_protocol.dialect import dialect_of, split_rollout_path

from .observer import Exchange
from .scripted_model import Recording

Event = dict[str, Any]
# A request as it must be the same on both sides: method, path without the rollout's prefix, hash of the body.
Fingerprint = tuple[str, str, str]


@dataclass(frozen=True)
class Call:
    """One model call. Bytes are of request bodies; ``sent_plain_bytes`` is what it would be without compression.

    ``equal``: the body that the shim says it got is one that the first relay saw and that the model received.
    """

    number: int
    path: str
    kind: str
    reason: str | None
    body_bytes: int
    sent_bytes: int
    sent_plain_bytes: int
    header_bytes: int
    status: int | None
    shim_ms: float | None
    server_ms: float | None
    sha256: str | None
    equal: bool


def is_model_call(exchange: Exchange) -> bool:
    return exchange.method == "POST" and dialect_of(exchange.target) is not None


def is_recorded_call(recording: Recording) -> bool:
    """The same, as the model saw it."""
    return recording.method == "POST" and dialect_of(recording.path) is not None


def sent_by_agent(exchanges: Iterable[Exchange]) -> Counter[Fingerprint]:
    return Counter(_fingerprint(seen.method, seen.target, seen.sha256) for seen in exchanges)


def received_by_model(recordings: Iterable[Recording]) -> Counter[Fingerprint]:
    return Counter(_fingerprint(seen.method, seen.path, seen.sha256) for seen in recordings)


def _fingerprint(method: str, target: str, sha256: str) -> Fingerprint:
    return method, split_rollout_path(target).rest, sha256


def read_events(log: Path) -> list[Event]:
    """The ``call`` lines of a log, as far as it is written: a last line without its end is left for later."""
    if not log.is_file():
        return []
    whole_lines = log.read_bytes().rpartition(b"\n")[0].splitlines()
    events: list[Event] = [json.loads(line) for line in whole_lines if line.startswith(b"{")]
    return [event for event in events if event.get("event") == "call"]


def calls_with_shim(
    agent_side: Sequence[Exchange],
    wire_side: Sequence[Exchange],
    recordings: Sequence[Recording],
    shim_events: Sequence[Event],
    server_events: Sequence[Event],
) -> list[Call]:
    """A row for each model call that the shim has finished, joined by delivery."""
    by_delivery: dict[str | None, list[Exchange]] = {}
    for exchange in wire_side:
        by_delivery.setdefault(exchange.header(wire.DELIVERY_HEADER), []).append(exchange)
    served = {event.get("delivery"): event for event in server_events}
    arrived = {exchange.sha256 for exchange in agent_side} & {recording.sha256 for recording in recordings}
    finished = [event for event in shim_events if event.get("delivery")]
    return [
        _joined(number, event, by_delivery.get(event["delivery"], []), served.get(event["delivery"], {}), arrived)
        for number, event in enumerate(finished, start=1)
    ]


def _joined(number: int, event: Event, sent: list[Exchange], served: Event, arrived: set[str]) -> Call:
    return Call(
        number=number,
        path=event["path"],
        kind=event["kind"],
        reason=event.get("reason"),
        body_bytes=event["body_bytes"],
        sent_bytes=sum(len(exchange.body) for exchange in sent),
        sent_plain_bytes=sum(plain_bytes(exchange) for exchange in sent),
        header_bytes=sum(exchange.wire_bytes - len(exchange.body) for exchange in sent),
        status=event.get("status"),
        shim_ms=event.get("prepare_ms"),
        server_ms=served.get("rebuild_ms"),
        sha256=event.get("sha256"),
        equal=event.get("sha256") in arrived,
    )


def calls_without_shim(wire_side: Sequence[Exchange], recordings: Sequence[Recording]) -> list[Call]:
    """A row for each model call that the server was sent, all in full."""
    arrived = {recording.sha256 for recording in recordings}
    finished = [exchange for exchange in wire_side if is_model_call(exchange) and exchange.status is not None]
    return [_in_full(number, exchange, exchange.sha256 in arrived) for number, exchange in enumerate(finished, start=1)]


def _in_full(number: int, exchange: Exchange, equal: bool) -> Call:
    return Call(
        number=number,
        path=exchange.target,
        kind="off",
        reason=None,
        body_bytes=len(exchange.body),
        sent_bytes=len(exchange.body),
        sent_plain_bytes=len(exchange.body),
        header_bytes=exchange.wire_bytes - len(exchange.body),
        status=exchange.status,
        shim_ms=None,
        server_ms=None,
        sha256=exchange.sha256,
        equal=equal,
    )


def plain_bytes(exchange: Exchange) -> int:
    """A body's size without its content encoding."""
    if exchange.header("content-encoding") != "gzip":
        return len(exchange.body)
    return len(gzip.decompress(exchange.body))
