# SPDX-License-Identifier: Apache-2.0
"""What is known of one request once it is over: the facts that logs and metrics are made of, and nothing secret."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from .call import Call

FULL = "full"
DELTA = "delta"
PASS_THROUGH = "pass-through"

ANSWERED = "answered"
AGENT_LEFT = "agent-left"
REFUSED_REPEAT = "repeat-not-kept"


@dataclass(slots=True)
class Report:
    """``kind`` None: no model has seen it, because we answered or the agent left before. ``reason`` says why we did, or
    why a call was not a delta. ``outcome`` is how the call ended, as call.State names it, or one of this module's.
    """

    path: str
    started: float = field(default_factory=time.monotonic)
    kind: str | None = None
    reason: str | None = None
    rollout: str | None = None
    delivery: str | None = None
    status: int | None = None
    outcome: str = ANSWERED
    repeated: bool = False
    received_bytes: int = 0
    body_bytes: int = 0
    rebuild_seconds: float | None = None
    body_sha256: str | None = None
    resync: str | None = None
    call: Call | None = None
    seconds: float = 0.0

    def answered(self, status: int, reason: str) -> None:
        self.kind = None
        self.status = status
        self.reason = reason

    def agent_left(self) -> None:
        """It did not wait; this says something only where there is no call or answer yet."""
        if self.call is None and self.status is None and self.outcome == ANSWERED:
            self.outcome = AGENT_LEFT

    async def counting(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The same stream of a body that passes through as it is."""
        async for piece in pieces:
            self.received_bytes += len(piece)
            self.body_bytes += len(piece)
            yield piece

    def when_over(self, account: Callable[["Report"], None]) -> None:
        """The agent is done or gone. Its call may still come to its end: only then is it known how it ended."""
        if self.call is not None and not self.call.ended:
            self.call.on_end.append(lambda: self._close(account))
        else:
            self._close(account)

    def _close(self, account: Callable[["Report"], None]) -> None:
        self.seconds = time.monotonic() - self.started
        if self.call is not None:
            self.outcome = self.call.state.value
        account(self)
