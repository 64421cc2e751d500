# SPDX-License-Identifier: Apache-2.0
"""One exchange: an agent's request, what goes upstream for it, and the response back, on the agent's own thread.

What to send for a model call is the core's decision (core.py). A failure reaches the agent as the failure that it
is: as a 503 where nothing can have been acted on, else as a broken connection.
"""

import hashlib
import time
from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from history_delta_protocol.dialect import dialect_of

from . import answers, http1
from .agent_connection import AgentConnection
from .body_budget import BodyBudget, Lease
from .call_record import fields_of, ms_since
from .connection import AgentLeft, Broken
from .core import REFUSE, RELAY, RESEND, Core, ModelCall
from .forwarding import Forwarding
from .headers import REQUEST_FRAMING, Headers, end_to_end, tokens
from .log import Log, describe
from .probe import Probe
from .relay import framing_for, head_for, relay
from .upstream import Unreachable, Upstream


class Shared(NamedTuple):
    """What all exchanges of one shim share."""

    core: Core
    upstream: Upstream
    probe: Probe
    budget: BodyBudget
    log: Log
    log_body_hash: bool


class Refused(Exception):
    """The request is answered by us."""

    def __init__(self, answer: answers.Answer) -> None:
        Exception.__init__(self)
        self.answer = answer


class Exchange(object):
    """Serves one request; made anew for each."""

    def __init__(self, shared: Shared, agent: AgentConnection, request: http1.Request) -> None:
        self._shared = shared
        self._agent = agent
        self._request = request
        self._dialect = dialect_of(request.target)
        self._forwarding = Forwarding(shared.upstream, agent, request)
        self._until_close = False  # the response that the agent is being given ends with its connection
        self._record = fields_of(request.method, request.target)

    def run(self) -> bool:
        """Serve it, and say whether the agent's connection can carry another request; if not, it has been closed."""
        started = time.monotonic()
        try:
            keep = self._outcome()
        finally:
            ended = self._forwarding.let_go()
            if ended and self._record["outcome"] == "agent-left":
                self._record["outcome"] = "complete"  # it had read what it needed
            self._log(started)
        if self._record["outcome"] == "broken":
            self._agent.cut(self._until_close)
        elif not keep:
            self._agent.close()
        return keep

    def _outcome(self) -> bool:
        """Serve it, or answer or note why it cannot be served; whether the agent's connection may be kept."""
        try:
            keep = self._relay(*self._response())
            self._record["outcome"] = "complete"
            return keep
        except Refused as refused:
            return self._answer("refused", refused.answer)
        except http1.ProtocolError as error:
            return self._answer("refused", answers.invalid(self._dialect, error.status, str(error)))
        except Unreachable as error:
            return self._answer("unreachable", answers.unreachable(self._dialect, str(error)))
        except Broken as error:
            self._record.update(outcome="broken", error=str(error))
        except (AgentLeft, http1.Incomplete):
            self._record["outcome"] = "agent-left"
        return False

    def _response(self) -> Tuple[http1.Response, Headers]:
        """The response to relay, with the headers that the agent may see."""
        self._check()
        if self._waits_for_leave():
            self._agent.send_interim(100, "Continue", [])
        if self._dialect is None or self._request.method != "POST":
            return self._pass_through([], "not-a-model-call")
        with Lease(self._shared.budget) as lease:  # over once the response has begun: a stream holds no body
            pieces: List[bytes] = []
            whole = False
            if lease.covers(http1.content_length(self._request) or 0):
                pieces, whole = self._agent.read_body(lease.covers)
            if not whole:
                return self._unseen_model_call(pieces, lease.shortage)
            body = b"".join(pieces)
            pieces.clear()  # or the body stands in memory twice until the response begins
            return self._model_call(body)

    def _check(self) -> None:
        upgrades = tokens(self._request.headers, "upgrade")
        if upgrades not in ([], ["h2c"]):  # an offer of HTTP/2 may be ignored
            raise self._refusal(426, "only HTTP/1.1 is served here", [("Upgrade", "HTTP/1.1")])
        if not self._request.target.startswith("/"):
            raise self._refusal(400, "the request target must be a path: this is no forward proxy")
        if tokens(self._request.headers, "expect") not in ([], ["100-continue"]):
            raise self._refusal(417, "only Expect: 100-continue is understood")

    def _waits_for_leave(self) -> bool:
        expects = tokens(self._request.headers, "expect") and self._request.version != "1.0"
        return bool(expects) and not self._agent.body_began

    def _refusal(self, status: int, message: str, headers: Any = ()) -> Refused:
        return Refused(answers.invalid(self._dialect, status, message, headers))

    def _pass_through(self, pieces: List[bytes], reason: str) -> Tuple[http1.Response, Headers]:
        self._record["reason"] = reason
        response = self._forwarding.stream(pieces, [])
        return response, response.headers

    def _unseen_model_call(self, pieces: List[bytes], reason: str) -> Tuple[http1.Response, Headers]:
        """A model call whose body is not held: it has a name as every call, and passes through."""
        call = self._start(lambda: self._shared.core.start_unseen(self._request.method, self._request.target))
        if call is None:
            return self._pass_through(pieces, "core-failed")
        self._record.update(delivery=call.delivery, kind=call.kind, reason=reason)
        response = self._forwarding.stream(pieces, call.headers)
        return self._unless_refused(call, response, self._decision(call, response))

    def _model_call(self, body: bytes) -> Tuple[http1.Response, Headers]:
        self._record["body_bytes"] = len(body)
        if self._shared.log_body_hash:
            self._record["sha256"] = hashlib.sha256(body).hexdigest()
        self._shared.probe.ask(self._request.target)
        headers = end_to_end(self._request.headers, without=REQUEST_FRAMING)
        call = self._start(lambda: self._shared.core.start(self._request.method, self._request.target, headers, body))
        if call is None:
            return self._pass_through([body], "core-failed")
        response, decision = self._send(call)
        if decision == RESEND:
            self._record["resynced"] = True
            response, decision = self._send(call)
        return self._unless_refused(call, response, decision)

    def _unless_refused(
        self, call: ModelCall, response: http1.Response, decision: str
    ) -> Tuple[http1.Response, Headers]:
        if decision == REFUSE and call.refusal is not None:
            raise Refused(call.refusal)
        return response, call.response_headers(response.headers)

    def _send(self, call: ModelCall) -> Tuple[http1.Response, str]:
        self._record.update(delivery=call.delivery, kind=call.kind, reason=call.reason)
        try:
            response = self._forwarding.send(call.headers, call.body)
        except Broken:
            call.failed()
            raise
        return response, self._decision(call, response)

    def _decision(self, call: ModelCall, response: http1.Response) -> str:
        try:
            return str(call.answered(response.status, response.headers))
        except Exception as error:  # the call has been answered: that answer must not be lost
            self._shared.log.event("core-failed", error=describe(error))
            return RELAY

    def _start(self, start: Callable[[], ModelCall]) -> Optional[ModelCall]:
        started = time.monotonic()
        try:
            call = start()
        except Exception as error:  # a fault of ours costs the saving, never the call
            self._shared.log.event("core-failed", error=describe(error))
            return None
        self._record["prepare_ms"] = ms_since(started)
        return call

    def _relay(self, response: http1.Response, headers: Headers) -> bool:
        self._record["status"] = response.status
        framing = framing_for(self._forwarding.connection, self._request)
        self._until_close = framing.until_close
        keep = self._can_keep() and not framing.until_close
        relay(self._agent, self._forwarding.connection, head_for(response, headers, framing, keep), framing)
        return keep

    def _answer(self, outcome: str, answer: answers.Answer) -> bool:
        self._record.update(outcome=outcome, status=answer[0])
        keep = self._can_keep()
        try:
            self._agent.send(answers.to_bytes(answer, keep, self._request.method != "HEAD"))
        except AgentLeft:
            return False
        return keep

    def _can_keep(self) -> bool:
        return self._agent.request_done and http1.keeps_alive(self._request)

    def _log(self, started: float) -> None:
        sent, received = self._forwarding.sent_bytes, self._agent.bytes_sent
        if self._record["body_bytes"] is None:
            self._record["body_bytes"] = sent  # it was passed through without being held
        self._record.update(sent_bytes=sent, response_bytes=received, total_ms=ms_since(started))
        self._shared.log.event("call", **self._record)
