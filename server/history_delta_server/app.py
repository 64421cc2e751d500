# SPDX-License-Identifier: Apache-2.0
"""One request from its head to its last byte: the map of the server. Read this first.

request.py      what is it?  ──► capabilities.py, errors.py      answered here
    │           └──────────────► pass_through.py                 passed on as it comes
    ▼
model_call.py   receive.py ─ rebuild.py ─ admission.py, deliveries.py ─ dispatch.py ─ relay.py
"""

import asyncio
import traceback

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong
from aiohttp.web_protocol import RequestPayloadError
from history_delta_protocol import wire

from . import errors, headers
from .admission import Admission, AdmissionLimits
from .agent_response import AgentResponse
from .breaches import said
from .call import Call, EarlyClose
from .capabilities import capabilities
from .deliveries import Deliveries, DeliveryLimits
from .dispatch import Dispatcher
from .errors import Answer, Refused
from .headers import Header
from .history import HistoryLimits, HistoryStore
from .log import Log
from .metrics import Metrics
from .model_call import ModelCalls
from .pass_through import PassThroughs
from .pool import ConnectionPool, PoolLimits
from .report import Report
from .request import Route, Rules, classify
from .settings import Settings
from .upstreams import Upstreams


class App:
    """The sandbox-facing server's handler, with all that its requests share. Made inside a running event loop."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._rules = Rules(settings.enabled, settings.keep_rollout_prefix, settings.model_paths_only)
        self._early_close = EarlyClose(settings.early_close_seconds, settings.early_close_bytes)
        histories = HistoryStore(
            HistoryLimits(
                rollout_bytes=settings.max_rollout_history_bytes,
                worker_bytes=settings.max_history_bytes,
                idle_seconds=settings.history_idle_seconds,
            )
        )
        admission = Admission(
            AdmissionLimits(
                settings.max_calls_in_flight, settings.max_rollout_bytes_in_flight, settings.max_bytes_in_flight
            )
        )
        deliveries = Deliveries(
            DeliveryLimits(
                settings.delivery_keep_seconds,
                settings.max_replay_bytes,
                settings.max_replays_bytes,
                settings.max_deliveries,
            )
        )
        self._dispatcher = Dispatcher(
            Upstreams(
                settings.upstream,
                retry_seconds=settings.upstream_retry_seconds,
                max_pinned=settings.max_pinned_rollouts,
            ),
            ConnectionPool(
                PoolLimits(
                    settings.upstream_connect_seconds, settings.upstream_keepalive_seconds, settings.max_head_bytes
                )
            ),
            settings.upstream_api_key,
        )
        self._histories = histories
        self._deliveries = deliveries
        self._model_calls = ModelCalls(settings, histories, admission, deliveries, self._dispatcher, self._new_call)
        self._pass_throughs = PassThroughs(settings, self._dispatcher, self._new_call)
        self.metrics = Metrics(histories, admission, deliveries, self._pass_throughs)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """aiohttp calls this for every request, and cancels it when the agent leaves."""
        report = Report(request.raw_path.partition("?")[0])
        response = AgentResponse(request)
        try:
            await self._route(request, response, report)
        except Refused as refused:
            await self._answer(request, response, report, refused.answer, refused.reason)
        except (ConnectionError, asyncio.CancelledError):
            report.agent_left()
            raise
        except RequestPayloadError:
            broken = errors.refusal(None, 400, "invalid_body", "the request's body breaks HTTP/1.1")
            await self._answer(request, response, report, broken.answer, broken.reason)
        except Exception as error:
            # Where, not what: the error's text may quote the request.
            self._log.event("fault", error=type(error).__name__, trace=traceback.format_tb(error.__traceback__)[-8:])
            await self._fault(request, response, report)
        finally:
            report.when_over(self._account)
        return response

    @property
    def calls_in_flight(self) -> int:
        return self._dispatcher.calls_in_flight

    def malformed(self, status: int, error: BaseException | None) -> Answer:
        """What the HTTP parser refuses never becomes a request; this is the answer to it."""
        if isinstance(error, LineTooLong):
            refused = self._head_too_large()
        else:
            message = f"the request breaks HTTP/1.1: {said(error)}"
            refused = errors.refusal(None, status, "malformed_http", message)
        report = Report("")
        report.answered(refused.answer.status, refused.reason.replace("_", "-"))
        self._account(report)
        refused.answer.headers.extend(self._spoken())
        return refused.answer

    def expire(self) -> None:
        """Let go of what has been idle for too long."""
        self._histories.expire()
        self._deliveries.expire()

    async def drain(self, seconds: float) -> None:
        """Until no call is in flight, or for so long."""
        await self._dispatcher.drain(seconds)

    async def close(self) -> None:
        """What is in flight is cut."""
        await self._dispatcher.close()

    async def _route(self, request: web.BaseRequest, response: AgentResponse, report: Report) -> None:
        if request.version not in ((1, 0), (1, 1)):
            raise errors.not_http_1(505, "http_version_not_supported", "only HTTP/1.0 and HTTP/1.1 are spoken here")
        if request.version == (1, 0) and headers.values(request.raw_headers, b"transfer-encoding"):
            raise errors.not_http_1(400, "malformed_http", "HTTP/1.0 knows no Transfer-Encoding")
        if headers.size(request.raw_headers) + len(request.raw_path) > self._settings.max_head_bytes:
            raise self._head_too_large()
        incoming = classify(request.method, request.raw_path, request.raw_headers, self._rules)
        report.rollout, report.delivery, report.reason = incoming.rollout, incoming.delivery, incoming.reason
        if incoming.route is Route.CAPABILITIES:
            await self._answer(request, response, report, capabilities(self._settings), "capabilities")
        elif incoming.route is Route.MODEL_CALL:
            await self._model_calls.handle(request, response, incoming, report)
        else:
            await self._pass_throughs.handle(request, response, incoming, report)

    def _head_too_large(self) -> Refused:
        return errors.head_too_large(self._settings.max_head_bytes)

    async def _answer(
        self, request: web.BaseRequest, response: AgentResponse, report: Report, answer: Answer, reason: str
    ) -> None:
        report.answered(answer.status, reason)
        await response.answer(answer, self._own_headers(request))

    async def _fault(self, request: web.BaseRequest, response: AgentResponse, report: Report) -> None:
        """A fault of ours: said where that is still possible, and a cut where it is not."""
        if response.started:
            await response.cut()
            return
        refused = errors.refusal(None, 500, "history_delta_fault", "the server failed; its log says how")
        await self._answer(request, response, report, refused.answer, refused.reason)

    def _new_call(self, *, kept: bool = False) -> Call:
        return Call(asyncio.get_running_loop().call_later, self._early_close, kept=kept)

    def _own_headers(self, request: web.BaseRequest) -> list[Header]:
        """A shim tells our answers from those of something that cannot read frames by this one."""
        return self._spoken(headers.names_frame(request.raw_headers))

    def _spoken(self, to_a_frame: bool = False) -> list[Header]:
        if self._settings.enabled or to_a_frame:
            return [(wire.VERSION_HEADER.encode(), b"%d" % wire.PROTOCOL_VERSION)]
        return []

    def _account(self, report: Report) -> None:
        self._log.request(report)
        self.metrics.count(report)
