# SPDX-License-Identifier: Apache-2.0
"""The model behind the server under test: one endpoint for all cases, and for each case a view of its own calls.

A call belongs to the case whose token stands in its path. What belongs to none is kept as a stray.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable

from ..base import CaseFailed
from ..endpoint import Call, Endpoint
from ..wire import in_time

TOKEN = re.compile(r"case-[0-9a-f]{16}")
_FENCE = b'{"fence":'

Answer = Callable[[Call], Awaitable[None]]


async def answered(call: Call) -> None:
    """What a model says that has nothing to say."""
    await call.respond(b'{"object":"answer"}', ("Content-Type", "application/json"))


class ModelView:
    """One case's calls, in the order in which they were complete. ``answer`` is what each is given.

    With ``answer`` None, calls are answered by the case, step by step, which gets them from ``next_call``.
    """

    def __init__(self) -> None:
        self.answer: Answer | None = answered
        self.calls: list[Call] = []
        self._waiting: asyncio.Queue[Call] = asyncio.Queue()

    @property
    def bodies(self) -> list[bytes]:
        return [call.request.body for call in self.calls]

    async def take(self, call: Call) -> None:
        if call.request.body.startswith(_FENCE):
            await answered(call)
            return
        self.calls.append(call)
        if self.answer is None:
            self._waiting.put_nowait(call)
        else:
            await self.answer(call)

    async def next_call(self, seconds: float | None = None) -> Call:
        """The next call that nobody has answered, waiting for it."""
        async with in_time("a call that reaches the model", seconds):
            return await self._waiting.get()

    def only(self) -> Call:
        """The one call that came."""
        if len(self.calls) != 1:
            raise CaseFailed("exactly one call that reaches the model", f"{len(self.calls)} calls")
        return self.calls[0]


class Model:
    """The endpoint with all its views."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.endpoint = Endpoint(self._behave, host, port)
        self.strays: list[str] = []
        self._views: dict[str, ModelView] = {}

    def view(self, token: str) -> ModelView:
        made = self._views[token] = ModelView()
        return made

    def forget(self, token: str) -> None:
        """What is still open of that case is closed."""
        for call in self._views.pop(token).calls:
            if not call.is_over.is_set():
                call.reset()

    async def _behave(self, call: Call) -> None:
        found = TOKEN.search(call.request.target)
        view = self._views.get(found[0]) if found else None
        if view is not None:
            await view.take(call)
            return
        self.strays.append(f"{call.request.method} {call.request.target}")
        await call.respond(status=404, reason="Not Found")


def fence_body(token: str) -> bytes:
    """A body that the model answers without telling the case: it proves that what was sent before it has arrived."""
    return _FENCE + b'"' + token.encode("ascii") + b'","messages":[]}'
