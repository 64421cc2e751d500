# SPDX-License-Identifier: Apache-2.0
"""The transports to put round those of an httpx client, and what performs the steps of a call (in_process.py).

``httpx.Client(transport=Transport(httpx.HTTPTransport(), upstream="http://gym:8000"))``: requests to that origin
go out in the history-delta protocol, all others as they are, all of them over the transport that was given.
"""

import os
import time
from typing import Any, Awaitable, Callable, Optional

from . import settings
from .in_process import REGISTRY, Close, Options, Read, Send, Steps
from .origin import parse_origin

_Base: Any = object  # at run time; to a type checker whatever an httpx client takes for a transport


class Transport(_Base):  # type: ignore[misc]
    """A transport for ``httpx.Client``. Its arguments default to the HISTORY_DELTA_* variables of the same names.

    Transports of the same upstream, rollout and log share what the server holds, so that a client may live for one
    request. Raises ValueError for settings that are wrong.
    """

    def __init__(
        self,
        inner: Any,
        upstream: Optional[str] = None,
        rollout: Optional[str] = None,
        enabled: Optional[bool] = None,
        log_file: Optional[str] = None,
    ) -> None:
        self.inner = inner
        self._options = _options(upstream, rollout, enabled, log_file)

    def __enter__(self) -> "Transport":
        self.inner.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.inner.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the transport has that this one stands for; agents look for its connection pool."""
        if name == "inner":  # not yet made
            raise AttributeError(name)
        return getattr(self.inner, name)

    def close(self) -> None:
        self.inner.close()

    def handle_request(self, request: Any) -> Any:
        return handle(self._options, request, self.inner.handle_request)


class AsyncTransport(Transport):
    """The same for ``httpx.AsyncClient``."""

    async def __aenter__(self) -> "AsyncTransport":
        await self.inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.inner.__aexit__(*error)

    async def aclose(self) -> None:
        await self.inner.aclose()

    async def handle_async_request(self, request: Any) -> Any:
        return await handle_async(self._options, request, self.inner.handle_async_request)


def handle(options: Optional[Options], request: Any, send: Callable[[Any], Any]) -> Any:
    """Have the request answered by way of ``send``; without options as it is."""
    steps = _steps(options, request)
    return send(request) if steps is None else _perform(steps, send)


async def handle_async(options: Optional[Options], request: Any, send: Callable[[Any], Awaitable[Any]]) -> Any:
    steps = _steps(options, request)
    return await (send(request) if steps is None else _perform_async(steps, send))


def _steps(options: Optional[Options], request: Any) -> Optional[Steps]:
    if options is None:
        return None
    try:
        calls = REGISTRY.calls(options)
        return calls.steps(request) if calls.concern(request) else None
    except Exception:  # a request unlike httpx's own
        return None


def _perform(steps: Steps, send: Callable[[Any], Any]) -> Any:
    try:
        action = next(steps)
        while True:
            try:
                result = _do(action, send)
            except BaseException as error:
                action = steps.throw(error)
            else:
                action = steps.send(result)
    except StopIteration as end:
        return end.value


def _do(action: Any, send: Callable[[Any], Any]) -> Any:
    if isinstance(action, Send):
        return send(action.request)
    if isinstance(action, Close):
        return action.response.close()
    return _read(action)


def _read(action: Read) -> bytes:
    data = b""
    try:
        for piece in action.response.stream:
            data += piece
            if len(data) > action.most or time.monotonic() > action.deadline:
                break
    finally:
        action.response.close()
    return data


async def _perform_async(steps: Steps, send: Callable[[Any], Awaitable[Any]]) -> Any:
    try:
        action = next(steps)
        while True:
            try:
                result = await _do_async(action, send)
            except BaseException as error:
                action = steps.throw(error)
            else:
                action = steps.send(result)
    except StopIteration as end:
        return end.value


async def _do_async(action: Any, send: Callable[[Any], Awaitable[Any]]) -> Any:
    if isinstance(action, Send):
        return await send(action.request)
    if isinstance(action, Close):
        return await action.response.aclose()
    return await _read_async(action)


async def _read_async(action: Read) -> bytes:
    data = b""
    try:
        async for piece in action.response.stream:
            data += piece
            if len(data) > action.most or time.monotonic() > action.deadline:
                break
    finally:
        await action.response.aclose()
    return data


def _options(
    upstream: Optional[str], rollout: Optional[str], enabled: Optional[bool], log_file: Optional[str]
) -> Optional[Options]:
    """None where the protocol is off."""
    try:
        on = settings.enabled(os.environ) if enabled is None else enabled
        address = upstream or os.environ.get(settings.UPSTREAM_VARIABLE)
        if not address:
            raise ValueError("upstream or %s: expected an origin such as http://host:8000" % settings.UPSTREAM_VARIABLE)
        name = rollout or os.environ.get(settings.ROLLOUT_VARIABLE)
    except settings.Invalid as error:
        raise ValueError(str(error))
    log = os.path.abspath(log_file) if log_file and log_file != settings.STDERR else log_file
    options = Options(parse_origin(address), settings.rollout_id(name) if name else None, log)
    return options if on else None
