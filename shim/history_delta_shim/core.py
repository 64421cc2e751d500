# SPDX-License-Identifier: Apache-2.0
"""What the shim sends for a body and what it does with the answer: every decision of the transport, without I/O.

``Core`` is shared by all connections of a shim and thread-safe; a ``ModelCall`` belongs to one agent request:
start -> send its headers and body -> answered(...) -> RELAY, or RESEND once, or REFUSE. SPEC.md sections 3, 7 and 8.
"""

import os
import threading
import time
from collections import OrderedDict
from typing import Callable, NamedTuple, Optional, Tuple

from history_delta_protocol import chain, encoding, frame, scan, wire
from history_delta_protocol.dialect import (
    Dialect,
    InvalidRolloutId,
    capabilities_path,
    dialect_of,
    split_rollout_path,
)

from .answers import Answer, unavailable
from .conversations import Conversations, Health, HeldItems, Scope
from .delta import TakenApart, build_frame, take_apart
from .headers import Headers, header_value, strip_own, values
from .peer import Capabilities, Peer

# What to do with an answer.
RELAY = "relay"
RESEND = "resend"
REFUSE = "refuse"

# Kinds of a call.
PASS_THROUGH = "pass-through"
FULL = "full"
SELF_CONTAINED = "self-contained"
DELTA = "delta"

# What an ingress that authenticates, or limits rates and times, says to a body as well.
_SAYS_NOTHING_OF_FRAMES = frozenset([401, 403, 407, 408, 429])
_MOST_SCOPES = 64


class Limits(NamedTuple):
    """Bounds of the shim's memory, in bytes; a larger body is sent in full and not kept."""

    conversation_bytes: int = 64 * wire.MIB
    item_bytes: int = 8 * wire.MIB
    body_bytes: int = wire.MAX_HELD_BODY_BYTES


class Core(object):
    """The state that calls share: the peer, the conversations and items that it acknowledged."""

    def __init__(
        self,
        enabled: bool = True,
        rollout: Optional[str] = None,
        clock: Callable[[], float] = time.monotonic,
        new_id: Optional[Callable[[], str]] = None,
        limits: Optional[Limits] = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.enabled = enabled
        self.peer = Peer(clock)
        self._new_id = new_id or (lambda: os.urandom(16).hex())
        # Many sandboxed agents are given no rollout prefix: the shim's life stands for the rollout then.
        self._rollout = rollout or self._new_id()
        self.limits = limits or Limits()
        self.log = log
        self._lock = threading.Lock()
        self._conversations = Conversations(self.limits.conversation_bytes)
        self._heads = HeldItems(self.limits.item_bytes // 2)
        self._tails = HeldItems(self.limits.item_bytes // 2)
        self._health = OrderedDict()  # type: OrderedDict[Scope, Health]

    def capabilities_target(self, target: str) -> Optional[str]:
        """The path to GET before this call, or None where there is nothing to ask now."""
        if not self.enabled or dialect_of(target) is None:
            return None
        try:
            path = capabilities_path(target)
        except InvalidRolloutId:
            return None
        with self._lock:
            return path if self.peer.ask_now() else None

    def capabilities_answered(self, status: int, headers: Headers, body: bytes) -> None:
        with self._lock:
            self.peer.answered(status, body)

    def capabilities_failed(self) -> None:
        """The question timed out or could not be put: the peer counts as one that does not speak, for a while."""
        with self._lock:
            self.peer.silent()

    def start(self, method: str, target: str, headers: Headers, body: bytes) -> "ModelCall":
        """Decide what to send for a request of the agent."""
        call, dialect = self._identified(method, target, headers, body)
        if dialect is not None and call.scope is not None:
            why_full = self._try_frame(call, dialect, call.scope)
            if why_full is not None:
                call.send_full(why_full)
        return call

    def start_unseen(self, method: str, target: str) -> "ModelCall":
        """The same for a body that is too large to be held, so that its call has a name too.

        ``headers`` are ours alone then, and go along with the agent's own request; it is no base afterwards.
        """
        call, _ = self._identified(method, target, [], b"")
        if call.scope is not None:
            call.send_full("too-large")
            call.scope = None
        return call

    def _identified(
        self, method: str, target: str, headers: Headers, body: bytes
    ) -> Tuple["ModelCall", Optional[Dialect]]:
        dialect = dialect_of(target) if method == "POST" else None
        call = ModelCall(self, dialect, strip_own(headers), body)
        if dialect is None or not self.enabled:
            call.reason = "not-a-model-call" if dialect is None else "disabled"
            return call, dialect
        try:
            split = split_rollout_path(target)
        except InvalidRolloutId:
            # The server refuses it in its own words.
            call.reason = "rollout-id-invalid"
            return call, dialect
        call.identify(self._new_id(), None if split.rollout else self._rollout)
        call.scope = (dialect.name, split.base, split.rollout or self._rollout)
        return call, dialect

    def _try_frame(self, call: "ModelCall", dialect: Dialect, scope: Scope) -> Optional[str]:
        """Make the call send a frame, or say why its body goes in full."""
        content_types = values(call.agent_headers, "content-type")
        if values(call.agent_headers, "content-encoding"):
            return "content-encoding"
        if len(content_types) > 1:
            return "content-type-repeated"
        if content_types and not frame.is_content_type(content_types[0]):
            return "content-type-not-restorable"
        if len(call.agent_body) > self.limits.body_bytes:
            return "too-large"
        if not self.peer.speaking:
            return "peer-does-not-speak"
        try:
            taken = self.take_apart(scope, dialect, call.agent_body)
        except scan.NotUnderstood as error:
            return error.reason
        call.taken = taken
        with self._lock:
            # Frames that continue no conversation share a health, or a new one each time would never be suspended.
            call.health = taken.conversation.health if taken.continues else self._health_of(scope)
            if call.health.suspended():
                return "suspended"
            capabilities = self.peer.capabilities
            heads, tails = self._heads.of(scope), self._tails.of(scope)
        built = build_frame(taken, content_types[0] if content_types else None, heads, tails)
        data = frame.encode(built)
        if not _within(built, data, capabilities):
            return "over-peer-limit"
        packed = encoding.gzip_if_smaller(data) if "gzip" in capabilities.encodings else data
        if len(packed) >= len(call.agent_body):
            return "frame-not-smaller"
        call.send_frame(packed, packed is not data, built.base_count)
        return None

    def spoken(self) -> None:
        """A response carried the protocol's version."""
        with self._lock:
            self.peer.spoke()

    def not_spoken(self) -> None:
        """A full call succeeded without a word of the protocol."""
        with self._lock:
            if self.peer.speaking:
                self.peer.silent()

    def take_apart(self, scope: Scope, dialect: Dialect, body: bytes) -> TakenApart:
        """Raises scan.NotUnderstood."""
        with self._lock:
            candidates = self._conversations.candidates(scope)
        return take_apart(scope, dialect, body, candidates)

    def _health_of(self, scope: Scope) -> Health:
        health = self._health.setdefault(scope, Health())
        self._health.move_to_end(scope)
        while len(self._health) > _MOST_SCOPES:
            self._health.popitem(last=False)
        return health

    def accepted(self, health: Health) -> None:
        """A frame was taken."""
        with self._lock:
            health.accepted()

    def refused(self, health: Health) -> None:
        """A frame was answered by a resync, or not understood."""
        with self._lock:
            suspended = health.resynced()
        self._log_suspension(suspended)

    def failed(self, health: Health) -> None:
        """A frame failed, and it is not known whether a body would have: the next call finds out."""
        with self._lock:
            suspended = health.failed()
        self._log_suspension(suspended)

    def _log_suspension(self, calls: int) -> None:
        if calls:
            self.log("three frames refused in a row: the next %d calls of the conversation go in full" % calls)

    def hold(self, taken: TakenApart) -> None:
        """The server acknowledged this body: it is a base from now on."""
        new = taken.conversation
        with self._lock:
            if taken.match and taken.continues:
                self._conversations.drop(taken.match.conversation)
            self._conversations.hold(new)
            self._heads.hold(new.scope, taken.head_hash, new.head)
            self._tails.hold(new.scope, taken.tail_hash, new.tail)

    def forget(self, taken: TakenApart) -> None:
        """A frame was refused: neither its base nor the items that it named are counted on any more."""
        with self._lock:
            if taken.match:
                self._conversations.drop(taken.match.conversation)
            self._heads.forget(taken.conversation.scope)
            self._tails.forget(taken.conversation.scope)


def _within(built: frame.Frame, data: bytes, capabilities: Capabilities) -> bool:
    """Whether a frame, ``data`` before it is compressed, keeps to the limits of its receiver."""
    items = [built.head, built.tail] + [message for edit in built.edits for _, message in edit.insert]
    return (
        data.index(b"\n") <= capabilities.frame_line_bytes
        and max(len(data), built.result.length) <= capabilities.body_bytes
        and max(built.base_count, built.result.message_count) <= capabilities.messages
        and all(len(item.pieces) <= capabilities.pieces for item in items if isinstance(item, frame.Pieces))
    )


class ModelCall(object):
    """One request of the agent: what to send for it, and what to do with what comes back.

    ``headers`` and ``body`` are what to send now; framing headers (Host's value, Connection, Content-Length,
    Transfer-Encoding) are the caller's. ``kind`` and ``reason`` are for logs; ``refusal`` is (status, headers, body)
    for the agent after REFUSE.
    """

    def __init__(self, core: Core, dialect: Optional[Dialect], headers: Headers, body: bytes) -> None:
        self._core = core
        self._dialect = dialect
        self._own_headers = []  # type: Headers
        self._sent_frame = False
        self.agent_headers = headers
        self.agent_body = body
        self.scope = None  # type: Optional[Scope]
        self.taken = None  # type: Optional[TakenApart]
        self.health = None  # type: Optional[Health]
        self.delivery = None  # type: Optional[str]
        self.kind = PASS_THROUGH
        self.reason = None  # type: Optional[str]
        self.headers = headers
        self.body = body
        self.refusal: Optional[Answer] = None

    def identify(self, delivery: str, rollout: Optional[str]) -> None:
        """Name the delivery, and the rollout where the path does not."""
        self.delivery = delivery
        self._own_headers = [
            (wire.VERSION_HEADER, str(wire.PROTOCOL_VERSION)),
            (wire.DELIVERY_HEADER, delivery),
        ]
        if rollout is not None:
            self._own_headers.append((wire.ROLLOUT_HEADER, rollout))

    def send_frame(self, data: bytes, gzipped: bool, base_count: int) -> None:
        self.kind = DELTA if base_count else SELF_CONTAINED
        self.reason = None if base_count else "no-base"
        self.body = data
        self._sent_frame = True
        self.headers = _with_content_type(self.agent_headers, wire.FRAME_MEDIA_TYPE) + self._own_headers
        if gzipped:
            self.headers.append(("Content-Encoding", "gzip"))

    def send_full(self, reason: str) -> None:
        """``reason``, one of wire.FULL_REASONS, goes along: only here is it known, and only there is it seen."""
        self.kind = FULL
        self.reason = reason
        self.body = self.agent_body
        self._sent_frame = False
        self.headers = self.agent_headers + self._own_headers + [(wire.FULL_HEADER, reason)]

    def answered(self, status: int, headers: Headers) -> str:
        """RELAY the response, RESEND (consume or close it first), or REFUSE. Where none comes: ``failed``."""
        if self.delivery is None:
            return RELAY
        speaks = header_value(headers, wire.VERSION_HEADER) == str(wire.PROTOCOL_VERSION)
        resync = header_value(headers, wire.RESYNC_HEADER)
        if speaks and status == wire.RESYNC_STATUS and resync is not None:
            return self._resynced(resync)
        if not speaks:
            return self._answered_by_other(status)
        self._core.spoken()
        held = header_value(headers, wire.HELD_HEADER)
        if held is not None:
            self._acknowledged(held)
        return RELAY

    def response_headers(self, headers: Headers) -> Headers:
        """What of a response's headers the agent may see."""
        return strip_own(headers)

    def _resynced(self, reason: str) -> str:
        if not self._sent_frame:
            self.refusal = unavailable(self._dialect, "the server asked for a resync of a full request (%s)" % reason)
            return REFUSE
        if self.taken is not None:
            self._core.forget(self.taken)
        if reason == wire.RESYNC_DISABLED:
            self._core.capabilities_failed()
        return self._resend("resync:" + reason)

    def _answered_by_other(self, status: int) -> str:
        """A response without our version header. Nothing ran where a frame met something that cannot read frames;
        a 5xx is uncertain and passed on."""
        if not self._sent_frame:
            if status < 300:
                self._core.not_spoken()
            return RELAY
        if 400 <= status < 500 or status == 501:
            if status not in _SAYS_NOTHING_OF_FRAMES:
                self._core.capabilities_failed()
            return self._resend("frame-not-understood")
        self.failed()
        return RELAY

    def failed(self) -> None:
        """The connection broke before an answer came, or the answer leaves open who failed at what."""
        if self._sent_frame and self.health is not None:
            self._core.failed(self.health)

    def _resend(self, reason: str) -> str:
        if self.health is not None:
            self._core.refused(self.health)
        self.send_full(reason)
        return RESEND

    def _acknowledged(self, held: str) -> None:
        if self.taken is None:
            self._take_apart_late()
        taken = self.taken
        if taken is None:
            return
        new = taken.conversation
        if held != "%d %s" % (new.count, chain.to_text(new.chain[-1])):
            self._core.log("the server holds %s, not %d messages as sent: not used as a base" % (held[:64], new.count))
            return
        if self._sent_frame and self.health is not None:
            self._core.accepted(self.health)
        self._core.hold(taken)

    def _take_apart_late(self) -> None:
        """The peer was not known to speak when the body was sent."""
        if self._dialect is None or self.scope is None or len(self.agent_body) > self._core.limits.body_bytes:
            return
        if header_value(self.agent_headers, "Content-Encoding") is not None:
            return
        try:
            self.taken = self._core.take_apart(self.scope, self._dialect, self.agent_body)
        except scan.NotUnderstood:
            pass


def _with_content_type(headers: Headers, media_type: str) -> Headers:
    replaced = [(name, media_type if name.lower() == "content-type" else value) for name, value in headers]
    if header_value(headers, "Content-Type") is None:
        replaced.append(("Content-Type", media_type))
    return replaced
