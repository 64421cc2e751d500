# SPDX-License-Identifier: Apache-2.0
"""The transport in the agent's own process, without I/O: what to do, step by step, for a request of its httpx client.

``Calls.steps`` is a generator that asks for actions (send this request, read or close that response) and is given their
results; what performs them, synchronously or not, is in httpx_transport. What to send is the core's decision (core.py).
The agent sees what it would see without us: the same responses, streams and exceptions, from its own connections.
"""

import hashlib
import os
import threading
import time
import weakref
from collections import OrderedDict
from typing import Any, Generator, NamedTuple, Optional

from history_delta_protocol import wire
from history_delta_protocol.dialect import dialect_of

from . import httpx_objects, settings
from .call_record import CallRecord, ms_since, watch
from .core import REFUSE, RELAY, RESEND, Core, ModelCall
from .headers import Headers, strip_own, values
from .log import Log, describe
from .origin import Origin, authority

QUESTION_SECONDS = 2.0
MAX_ANSWER_BYTES = 64 * wire.KIB
_MOST_KEPT = 16


class Options(NamedTuple):
    """Where the calls go, of which rollout they are, and where they are logged."""

    upstream: Origin
    rollout: Optional[str] = None
    log_file: Optional[str] = None
    log_body_hash: bool = False


class Send(NamedTuple):
    """Send the request; the result is the response, whose stream has not been read."""

    request: Any


class Read(NamedTuple):
    """Read the response and close it; the result is its body, or as much as came before it got too long or late."""

    response: Any
    most: int
    deadline: float


class Close(NamedTuple):
    """Close the response without reading it."""

    response: Any


Steps = Generator[Any, Any, Any]


class Calls(object):
    """What all calls of a process to one upstream share; safe for threads and event loops alike."""

    def __init__(self, options: Options) -> None:
        self.upstream = options.upstream
        self.log_body_hash = options.log_body_hash
        self.log = _log(options.log_file)
        self.logs = options.log_file is not None
        self.core = Core(True, options.rollout, log=lambda line: self.log.event("core", message=line))
        self._faulty = False

    def concern(self, request: Any) -> bool:
        return httpx_objects.origin_of(request) == self.upstream and not httpx_objects.is_ours(request)

    def steps(self, request: Any) -> Steps:
        """What to do for a request that ``concern`` is true of; the generator returns the response for the agent."""
        return _Request(self, request).steps()

    def fault(self, error: Exception) -> None:
        """A fault of ours costs the saving, never the call; it is told once."""
        if not self._faulty:
            self._faulty = True
            self.log.event("core-failed", error=describe(error))


class _Request(object):
    """One request of the agent."""

    def __init__(self, calls: Calls, request: Any) -> None:
        self._calls = calls
        self._request = request
        self._target = httpx_objects.target_of(request)
        self._headers = httpx_objects.headers_of(request)
        self._record = CallRecord(calls.log, request.method, self._target)
        self._streamed = False  # its body is not in memory, and goes out as it comes

    def steps(self) -> Steps:
        try:
            response = yield from self._response()
        except BaseException as error:
            self._record.failed(error)
            raise
        self._record.update(status=response.status_code)
        if self._calls.logs:
            self._watch(response)
        return response

    def _watch(self, response: Any) -> None:
        try:
            watch(httpx_objects.library_of(self._request), response, self._record)
        except Exception as error:
            self._calls.fault(error)

    def _response(self) -> Steps:
        if self._request.method != "POST" or dialect_of(self._target) is None:
            self._record.update(reason="not-a-model-call")
            return (yield Send(self._without_ours()))
        yield from self._ask()
        call = self._start()
        response, decision = yield from self._exchange(call)
        if decision == RESEND:
            self._record.update(resynced=True)
            yield Close(response)
            response, decision = yield from self._exchange(call)
        if decision == REFUSE and call is not None and call.refusal is not None:
            yield Close(response)
            self._record.update(status=call.refusal[0])
            self._record.over("refused")
            return httpx_objects.response_like(self._request, *call.refusal)
        return self._stripped(response)

    def _without_ours(self) -> Any:
        """The request as it is, but for headers of the protocol that the agent has no business to send."""
        own = strip_own(self._headers)
        return self._request if own == self._headers else httpx_objects.request_like(self._request, own)

    def _ask(self) -> Steps:
        """Find out what the core wants to know of the server before this call, if anything."""
        try:
            path = self._calls.core.capabilities_target(self._target)
            if path is not None:
                yield from self._ask_at(path)
        except Exception as error:
            self._calls.fault(error)

    def _ask_at(self, path: str) -> Steps:
        core, deadline = self._calls.core, time.monotonic() + QUESTION_SECONDS
        try:
            response = yield Send(httpx_objects.question_like(self._request, path, self._question(), deadline))
            body = yield Read(response, MAX_ANSWER_BYTES, deadline)
        except Exception:  # whatever an agent's transport may raise
            core.capabilities_failed()
            return
        if len(body) > MAX_ANSWER_BYTES or time.monotonic() > deadline:
            core.capabilities_failed()
        else:
            core.capabilities_answered(response.status_code, httpx_objects.headers_of(response), body)

    def _question(self) -> Headers:
        hosts = values(self._headers, "host") or [authority(self._calls.upstream)]
        version = (wire.VERSION_HEADER, str(wire.PROTOCOL_VERSION))
        return [("Host", hosts[0]), ("Accept", "application/json"), version]

    def _start(self) -> Optional[ModelCall]:
        """The call as the core prepared it, None where a fault of ours kept it from that."""
        try:
            return self._prepared()
        except Exception as error:
            self._calls.fault(error)
            self._record.update(reason="core-failed")
            return None

    def _prepared(self) -> ModelCall:
        started = time.monotonic()
        core, method, target = self._calls.core, self._request.method, self._target
        body = httpx_objects.plain_body(self._request, self._headers)
        self._streamed = body is None
        if body is None:
            call = core.start_unseen(method, target)
            self._record.update(delivery=call.delivery, kind=call.kind, reason="streamed")
            return call
        call = core.start(method, target, self._headers, body)
        self._record.update(body_bytes=len(body), prepare_ms=ms_since(started))
        if self._calls.log_body_hash:
            self._record.update(sha256=hashlib.sha256(body).hexdigest())
        return call

    def _exchange(self, call: Optional[ModelCall]) -> Steps:
        """Send what is to be sent now: (response, what to do with it)."""
        request = self._made(call)
        if call is None or request is None:
            return (yield Send(self._request)), RELAY
        try:
            response = yield Send(request)
        except Exception:
            call.failed()
            raise
        return response, self._decision(call, response)

    def _made(self, call: Optional[ModelCall]) -> Any:
        if call is None:
            return None
        try:
            if call.agent_headers is call.headers:  # nothing to say to the server
                return self._without_ours()
            if self._streamed:
                return httpx_objects.request_like(self._request, strip_own(self._headers) + call.headers)
            self._record.update(delivery=call.delivery, kind=call.kind, reason=call.reason)
            self._record.sent(len(call.body))
            return httpx_objects.request_like(self._request, call.headers, call.body)
        except Exception as error:
            self._calls.fault(error)
            return None

    def _decision(self, call: ModelCall, response: Any) -> str:
        try:
            return call.answered(response.status_code, httpx_objects.headers_of(response))
        except Exception as error:  # the call has been answered: that answer must not be lost
            self._calls.fault(error)
            return RELAY

    def _stripped(self, response: Any) -> Any:
        try:
            httpx_objects.drop_headers(response, wire.HEADER_PREFIX)
        except Exception as error:
            self._calls.fault(error)
        return response


class Registry(object):
    """The ``Calls`` of this process by their options: clients come and go, what the server holds stays.

    A forked child has its own: whether a lock of its parent's is free there is chance.
    """

    def __init__(self) -> None:
        self._start_anew()

    def _start_anew(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._calls = OrderedDict()  # type: OrderedDict[Options, Calls]

    def calls(self, options: Options) -> Calls:
        if self._process != os.getpid():
            self._start_anew()
        with self._lock:
            calls = self._calls.pop(options, None) or Calls(options)
            self._calls[options] = calls
            while len(self._calls) > _MOST_KEPT:
                self._calls.popitem(last=False)
            return calls


REGISTRY = Registry()


def _log(path: Optional[str]) -> Log:
    """A log whose file is closed once no call can write to it: there may be as many as a process has rollouts."""
    try:
        fd = settings.open_log(path)
    except settings.Invalid:
        fd = None
    log = Log(fd)
    if fd is not None and path != settings.STDERR:
        weakref.finalize(log, os.close, fd).atexit = False
    return log
