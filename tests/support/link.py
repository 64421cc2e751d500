# SPDX-License-Identifier: Apache-2.0
"""Joins the shim's core and the server's core in memory: no sockets, no clock, every decision real."""

from dataclasses import dataclass, field

from history_delta_protocol import chain, dialect, encoding, frame, wire
from history_delta_server import rebuild
from history_delta_server.history import HistoryLimits, HistoryStore
from history_delta_shim import core
from history_delta_shim.headers import header_value

JSON_HEADERS = [("Content-Type", "application/json"), ("Authorization", "Bearer key")]
CAPABILITIES = b'{"version": 1, "encodings": ["gzip"], "limits": {}}'


@dataclass
class Sent:
    """One message from shim to server, as it crossed the wire."""

    headers: list[tuple[str, str]]
    body: bytes

    @property
    def is_frame(self) -> bool:
        return header_value(self.headers, "Content-Type") == wire.FRAME_MEDIA_TYPE


@dataclass
class Server:
    """The server's decisions, in front of a model that only notes what reaches it."""

    enabled: bool = True
    limits: HistoryLimits = field(default_factory=HistoryLimits)
    at_model: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = HistoryStore(self.limits)

    def forget_everything(self) -> None:
        self.store = HistoryStore(self.limits)

    def receive(self, target: str, sent: Sent) -> tuple[int, list[tuple[str, str]]]:
        spoken = [(wire.VERSION_HEADER, "1")]
        if not self.enabled:
            if sent.is_frame:
                return 409, [*spoken, (wire.RESYNC_HEADER, wire.RESYNC_DISABLED)]
            self.at_model.append(sent.body)
            return 200, []
        kind = dialect.dialect_of(target)
        assert kind is not None
        rollout_id, _ = dialect.rollout_of(target, header_value(sent.headers, wire.ROLLOUT_HEADER))
        assert rollout_id is not None
        with self.store.in_flight(rollout_id) as rollout:
            try:
                if sent.is_frame:
                    gzipped = header_value(sent.headers, "Content-Encoding") == "gzip"
                    data = encoding.gunzip(sent.body, wire.MAX_BODY_BYTES) if gzipped else sent.body
                    rebuilt = rebuild.rebuild_frame(rollout, kind, data)
                else:
                    rebuilt = rebuild.receive_full(rollout, kind, sent.body)
            except rebuild.Resync as resync:
                return 409, [*spoken, (wire.RESYNC_HEADER, resync.reason)]
            self.at_model.append(rebuilt.body)
            held = [(wire.HELD_HEADER, rebuilt.held_header)] if rebuilt.held_header else []
            return 200, [*spoken, *held]


class Link:
    """An agent's calls through both cores. ``sent`` is what crossed the wire, call by call."""

    def __init__(self, server: Server | None = None, limits: core.Limits | None = None) -> None:
        self.server = server or Server()
        self.now = 0.0
        self.shim = core.Core(rollout="r1", clock=lambda: self.now, limits=limits)
        self.sent: list[list[Sent]] = []

    def call(self, body: bytes, target: str = "/v1/chat/completions", headers=JSON_HEADERS) -> core.ModelCall:
        asked = self.shim.capabilities_target(target)
        if asked is not None:
            self.shim.capabilities_answered(200 if self.server.enabled else 404, [], CAPABILITIES)
        exchange = self.shim.start("POST", target, list(headers), body)
        crossed = []
        while True:
            crossed.append(Sent(exchange.headers, exchange.body))
            if exchange.kind == core.FULL:
                assert header_value(exchange.headers, wire.FULL_HEADER) in wire.FULL_REASONS
            action = exchange.answered(*self.server.receive(target, crossed[-1]))
            if action != core.RESEND:
                break
        self.sent.append(crossed)
        return exchange


def held_text(exchange: core.ModelCall) -> str:
    new = exchange.taken.conversation
    return f"{new.count} {chain.to_text(new.chain[-1])}"


def decode(sent: Sent) -> frame.Frame:
    gzipped = header_value(sent.headers, "Content-Encoding") == "gzip"
    return frame.decode(encoding.gunzip(sent.body, wire.MAX_BODY_BYTES) if gzipped else sent.body, wire.MAX_BODY_BYTES)
