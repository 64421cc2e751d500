# SPDX-License-Identifier: Apache-2.0
"""The path of what is no model call of a rollout: the plain proxy. Nothing is looked at, held, kept or added.

Bounded all the same: in how many are under way, and in how long one may take to send its body.
"""

from collections.abc import Callable
from contextlib import ExitStack

from aiohttp import web

from . import errors, headers
from .admission import Busy
from .agent_response import AgentResponse
from .call import Call, Framing
from .dispatch import Dispatcher, Outgoing
from .receive import begun_body, framing_of
from .relay import relay
from .report import PASS_THROUGH, Report
from .request import Incoming
from .settings import Settings


class PassThroughs:
    """Everything that the pass-throughs of this worker share."""

    def __init__(self, settings: Settings, dispatcher: Dispatcher, new_call: Callable[[], Call]) -> None:
        self._settings = settings
        self._dispatcher = dispatcher
        self._new_call = new_call
        self.in_flight = 0

    async def handle(
        self, request: web.BaseRequest, response: AgentResponse, incoming: Incoming, report: Report
    ) -> None:
        """Raises Refused where one more is too many, and where no body comes."""
        with ExitStack() as share:
            self._enter(incoming)
            share.callback(self._leave)
            response.go_on()
            outgoing = await self._outgoing(request, incoming, report)
            call = self._new_call()
            with call.join() as reader:
                self._dispatcher.send(outgoing, call)
                # Its share is given back when the model is done with it, or it with the model.
                call.on_end.append(share.pop_all().close)
                report.kind, report.call = PASS_THROUGH, call
                report.status = await relay(reader, response, incoming.dialect, [])

    async def _outgoing(self, request: web.BaseRequest, incoming: Incoming, report: Report) -> Outgoing:
        framing = framing_of(request)
        pause = self._settings.agent_pause_seconds
        try:
            # No connection to a model for a body that never begins.
            body = None if framing is Framing.NO_BODY else await begun_body(request, pause)
        except TimeoutError as error:
            raise errors.paused(incoming.dialect, pause) from error
        return Outgoing(
            incoming.method,
            incoming.upstream_target(keep_prefix=self._settings.keep_rollout_prefix),
            headers.end_to_end(incoming.headers),
            b"" if body is None else report.counting(body.pieces()),
            framing,
            incoming.rollout,
        )

    def _enter(self, incoming: Incoming) -> None:
        limit = self._settings.max_pass_throughs_in_flight
        if self.in_flight >= limit:
            busy = Busy("requests passed through in flight", limit, "max_pass_throughs_in_flight")
            raise errors.busy(incoming.dialect, str(busy), busy.retry_after)
        self.in_flight += 1

    def _leave(self) -> None:
        self.in_flight -= 1
