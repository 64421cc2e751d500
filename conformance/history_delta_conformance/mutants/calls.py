# SPDX-License-Identifier: Apache-2.0
"""Faults in which call goes where, how often, with which headers, and in what comes back."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from .mutant import Headers, Mutant, Request

_IDENTITY = (b"x-session-id", b"x-session-affinity", b"session-id", b"thread-id")
_COMPANION_WITHIN = 5.0
_FINAL = (b'"message_stop"', b'"response.completed"', b"[DONE]")


class RepeatDelivery(Mutant):
    name, finding = "repeat-delivery", "call-repeated"
    description = "a request is delivered to the model twice"

    async def requests(self, request: Request) -> Sequence[Request]:
        if self.committed or not request.is_model_call:
            return (request,)
        self.committed = True
        return request, request


class LoseHeader(Mutant):
    name, finding = "lose-header", "header-missing"
    description = "a request arrives without its Authorization header"

    async def requests(self, request: Request) -> Sequence[Request]:
        kept = [(name, value) for name, value in request.headers if name.lower() != b"authorization"]
        if self.committed or kept == request.headers or not request.is_model_call:
            return (request,)
        self.committed = True
        return (replace(request, headers=kept),)


class LeakHeader(Mutant):
    name, finding = "leak-header", "header-added"
    description = "a header of the transport's own reaches the model"

    async def requests(self, request: Request) -> Sequence[Request]:
        if self.committed or not request.is_model_call:
            return (request,)
        self.committed = True
        return (replace(request, headers=[*request.headers, (b"History-Delta-Version", b"1")]),)


class SwapConversations(Mutant):
    name, finding = "swap-conversations", "conversations-swapped"
    description = "of two sub-agents at work at the same time, each is sent under the other's name"

    def __init__(self) -> None:
        super().__init__()
        self._main: Headers = []
        self._first: tuple[Request, asyncio.Future[Request]] | None = None

    async def requests(self, request: Request) -> Sequence[Request]:
        identity = _identity(request)
        self._main = self._main or identity
        if self.committed or identity in ([], self._main):
            return (request,)
        if self._first is None:
            return (await self._with_companion(request),)
        first, waiting = self._first
        if _identity(first) == identity:
            return (request,)
        self.committed = True
        waiting.set_result(_named_as(first, request))
        return (_named_as(request, first),)

    async def _with_companion(self, request: Request) -> Request:
        """The request under the name of the next one that is another sub-agent's; as it is, if none comes."""
        companion: asyncio.Future[Request] = asyncio.get_running_loop().create_future()
        self._first = request, companion
        try:
            return await asyncio.wait_for(companion, _COMPANION_WITHIN)
        except TimeoutError:
            self._first = None
            return request


def _identity(request: Request) -> Headers:
    return [(name, value) for name, value in request.headers if name.lower() in _IDENTITY]


def _named_as(request: Request, other: Request) -> Request:
    names = {name.lower(): value for name, value in _identity(other)}
    return replace(request, headers=[(name, names.get(name.lower(), value)) for name, value in request.headers])


class EndCut(Mutant):
    name, finding = "end-cut", "cut-ended"
    description = "a stream that the model cut is ended as if it were whole"

    def ends_what_is_cut(self) -> bool:
        self.committed = True
        return True


class ChangeStatus(Mutant):
    name, finding = "change-status", "status-changed"
    description = "a failure of the model is told as another one"

    def status(self, status: int) -> int:
        if status != 503:
            return status
        self.committed = True
        return 500


class LoseFinalEvent(Mutant):
    name, finding = "lose-final-event", "attempt-added"
    description = "a stream comes to its end without its final event"

    def response_data(self, data: bytes) -> bytes:
        if self.committed or not any(mark in data for mark in _FINAL):
            return data
        self.committed = True
        return b""
