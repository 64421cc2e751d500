# SPDX-License-Identifier: Apache-2.0
"""The path of one model call: receive, rebuild, check, dispatch, relay.

What a full capture of a rollout would record is known, whole and checked, between ``obtain`` and ``_dispatch``.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from aiohttp import web
from history_delta_protocol import wire
from history_delta_protocol.dialect import Dialect

from . import errors, full_sends, headers
from .admission import Admission, Busy, Ticket
from .agent_response import AgentResponse
from .call import Call, Framing
from .deliveries import Deliveries, Identity, Reused
from .dispatch import Dispatcher, Outgoing
from .headers import Header
from .history import HistoryStore, RolloutHistories
from .rebuild import Malformed, Rebuilt, Resync, TooLarge, rebuild_frame_in_steps, receive_full_in_steps
from .receive import framing_of, read_body, read_frame, unpacked
from .relay import relay
from .report import DELTA, FULL, REFUSED_REPEAT, Report
from .request import Incoming
from .settings import Settings

# Splitting or rebuilding a large body gives way to other calls this often.
_SLICE_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Request:
    """What the agent asked for, as it will be dispatched."""

    body: bytes | AsyncIterator[bytes]
    framing: Framing
    headers: list[Header]
    identity: Identity
    rebuilt: Rebuilt | None = None


class ModelCalls:
    """Everything that model calls of this worker share."""

    def __init__(
        self,
        settings: Settings,
        histories: HistoryStore,
        admission: Admission,
        deliveries: Deliveries,
        dispatcher: Dispatcher,
        new_call: Callable[..., Call],
    ) -> None:
        self._settings = settings
        self._histories = histories
        self._admission = admission
        self._deliveries = deliveries
        self._dispatcher = dispatcher
        self._new_call = new_call

    async def handle(
        self, request: web.BaseRequest, response: AgentResponse, incoming: Incoming, report: Report
    ) -> None:
        """Raises Refused for what never reaches a model."""
        rollout = str(incoming.rollout)
        with self._refusals(incoming, report), ExitStack() as held:
            ticket = self._admission.enter(rollout)
            held.callback(ticket.release)
            histories = held.enter_context(self._histories.in_flight(rollout))
            response.go_on()
            obtain = self._from_frame if incoming.is_frame else self._from_full
            obtained = await obtain(request, incoming, histories, ticket, report)
            report.kind = DELTA if incoming.is_frame else FULL
            own = [(wire.VERSION_HEADER.encode(), b"%d" % wire.PROTOCOL_VERSION)]
            if obtained.rebuilt is not None and obtained.rebuilt.held is not None:
                held.enter_context(histories.pinned(obtained.rebuilt.held[1]))
                own.append((wire.HELD_HEADER.encode(), str(obtained.rebuilt.held_header).encode()))
            call = self._known(incoming, obtained, ticket, report)
            if call is not None and not call.kept:
                # It ran, or runs, and cannot be shown again: the agent learns that it has no answer.
                report.outcome = REFUSED_REPEAT
                await response.cut()
                return
            call = report.call = call or self._new_call(kept=incoming.delivery is not None)
            with call.join() as reader:
                if not report.repeated:
                    self._dispatch(incoming, obtained, call, ticket)
                report.status = await relay(reader, response, incoming.dialect, own)

    async def _from_frame(
        self,
        request: web.BaseRequest,
        incoming: Incoming,
        histories: RolloutHistories,
        ticket: Ticket,
        report: Report,
    ) -> Request:
        limits = self._settings
        largest, _ = limits.frame_limit
        sent = await read_frame(request, ticket, largest, limits.agent_pause_seconds)
        report.received_bytes = len(sent)
        begun = time.perf_counter()
        data = await unpacked(request, sent, ticket, largest)
        rebuilt = await _in_slices(
            rebuild_frame_in_steps(
                histories,
                _dialect(incoming),
                data,
                largest,
                limits.max_frame_line_bytes,
                admit=ticket.resize,
            )
        )
        report.rebuild_seconds = time.perf_counter() - begun
        onward = headers.replaced(headers.end_to_end(incoming.headers), b"Content-Encoding", None)
        # The decoder has made sure that it is a header's value, and not the frame's own.
        content_type = None if rebuilt.content_type is None else rebuilt.content_type.encode("latin-1")
        onward = headers.replaced(onward, b"Content-Type", content_type)
        return self._whole(incoming, rebuilt, onward, report)

    async def _from_full(
        self,
        request: web.BaseRequest,
        incoming: Incoming,
        histories: RolloutHistories,
        ticket: Ticket,
        report: Report,
    ) -> Request:
        onward = headers.end_to_end(incoming.headers)
        limits = self._settings
        body = await read_body(request, ticket, limits.max_held_body_bytes, limits.agent_pause_seconds)
        if body.rest is not None:
            report.reason = full_sends.TOO_LARGE
            identity = Identity(incoming.method, incoming.target, None)
            return Request(report.counting(body.pieces()), framing_of(request), onward, identity)
        report.received_bytes = len(body.start)
        begun = time.perf_counter()
        if headers.values(incoming.headers, b"content-encoding"):
            rebuilt = _not_split(body.start, full_sends.ENCODED)
        else:
            rebuilt = await _in_slices(receive_full_in_steps(histories, _dialect(incoming), body.start))
        report.rebuild_seconds = time.perf_counter() - begun
        report.reason = rebuilt.reason or full_sends.stated_reason(incoming)
        return self._whole(incoming, rebuilt, onward, report)

    def _whole(self, incoming: Incoming, rebuilt: Rebuilt, onward: list[Header], report: Report) -> Request:
        report.body_bytes = len(rebuilt.body)
        if self._settings.log_body_hash:
            report.body_sha256 = hashlib.sha256(rebuilt.body).hexdigest()
        identity = Identity(incoming.method, incoming.target, rebuilt.identity)
        return Request(rebuilt.body, Framing.LENGTH, onward, identity, rebuilt)

    def _known(self, incoming: Incoming, obtained: Request, ticket: Ticket, report: Report) -> Call | None:
        """The call that this delivery has started already."""
        if incoming.delivery is None:
            return None
        call = self._deliveries.find(str(incoming.rollout), incoming.delivery, obtained.identity)
        report.repeated = call is not None
        if report.repeated:
            # Nothing of this one goes anywhere.
            ticket.resize(0)
        return call

    def _dispatch(self, incoming: Incoming, obtained: Request, call: Call, ticket: Ticket) -> None:
        if incoming.delivery is not None:
            self._deliveries.add(str(incoming.rollout), incoming.delivery, obtained.identity, call)
        call.on_end.append(ticket.share().release)
        outgoing = Outgoing(
            incoming.method,
            incoming.upstream_target(keep_prefix=self._settings.keep_rollout_prefix),
            obtained.headers,
            obtained.body,
            obtained.framing,
            incoming.rollout,
        )
        self._dispatcher.send(outgoing, call)

    @contextmanager
    def _refusals(self, incoming: Incoming, report: Report) -> Iterator[None]:
        """What each check that fails looks like to the agent."""
        dialect = incoming.dialect
        try:
            yield
        except Malformed as error:
            raise errors.refusal(dialect, 400, wire.MALFORMED_CODE, str(error)) from error
        except TooLarge as error:
            raise errors.too_large(dialect, self._told(error)) from error
        except TimeoutError as error:
            raise errors.paused(dialect, self._settings.agent_pause_seconds) from error
        except Busy as error:
            raise errors.busy(dialect, str(error), error.retry_after) from error
        except Reused as error:
            raise errors.reused(dialect, str(error)) from error
        except Resync as error:
            report.resync = error.reason
            raise errors.resync(dialect, error.reason) from error

    def _told(self, error: TooLarge) -> str:
        """Who decodes knows the limit, but not which of two settings it comes from."""
        limit, setting = self._settings.frame_limit
        return str(error).replace("max_body_bytes", setting) if error.limit == limit else str(error)


def _dialect(incoming: Incoming) -> Dialect:
    assert incoming.dialect is not None
    return incoming.dialect


async def _in_slices(steps: Generator[None, None, Rebuilt]) -> Rebuilt:
    """What the steps come to, giving way to other calls every few milliseconds."""
    give_way_at = time.perf_counter() + _SLICE_SECONDS
    while True:
        try:
            next(steps)
        except StopIteration as done:
            rebuilt: Rebuilt = done.value
            return rebuilt
        if time.perf_counter() >= give_way_at:
            await asyncio.sleep(0)
            give_way_at = time.perf_counter() + _SLICE_SECONDS


def _not_split(body: bytes, reason: str) -> Rebuilt:
    return Rebuilt(body, None, None, ("body", hashlib.sha256(body).digest()), reason)
