# SPDX-License-Identifier: Apache-2.0
"""Which model server a call goes to: its rollout's own while that is healthy, else the least loaded one.

A model's prefix cache is warm where the rollout's last call ran. A plain object without I/O: it is told what could
not be reached, and connects nowhere itself.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence

from .kinds import UpstreamUrl


class Upstream:
    """One model server, with the calls that it is working on and the rollouts that are pinned to it."""

    def __init__(self, url: UpstreamUrl) -> None:
        self.url = url
        self.calls_in_flight = 0
        self.rollouts = 0
        self.avoid_until = float("-inf")

    def __str__(self) -> str:
        return str(self.url)


class Upstreams:
    """All model servers, and which rollout is at which. The table forgets the longest unused rollout."""

    def __init__(
        self,
        urls: Sequence[UpstreamUrl],
        *,
        retry_seconds: float = 5.0,
        max_pinned: int = 100_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstreams = [Upstream(url) for url in urls]
        self._retry_seconds = retry_seconds
        self._max_pinned = max_pinned
        self._clock = clock
        self._pinned: OrderedDict[str, Upstream] = OrderedDict()

    def __len__(self) -> int:
        return len(self._upstreams)

    def choose(self, rollout: str | None, tried: Collection[Upstream] = ()) -> Upstream | None:
        """Where to send a call of this rollout, leaving out what was tried for it; None when all were."""
        left = [upstream for upstream in self._upstreams if upstream not in tried]
        if not left:
            return None
        now = self._clock()
        # With none healthy the call is the probe: refusing it unseen would outlast the outage.
        candidates = [upstream for upstream in left if upstream.avoid_until <= now] or left
        pinned = self._pinned.get(rollout) if rollout is not None else None
        chosen = pinned if pinned in candidates else min(candidates, key=_load)
        self._pin(rollout, chosen)
        return chosen

    def unreachable(self, upstream: Upstream) -> None:
        upstream.avoid_until = self._clock() + self._retry_seconds

    def reached(self, upstream: Upstream) -> None:
        upstream.avoid_until = float("-inf")

    def _pin(self, rollout: str | None, upstream: Upstream) -> None:
        if rollout is None:
            return
        self._unpin(self._pinned.pop(rollout, None))
        self._pinned[rollout] = upstream
        upstream.rollouts += 1
        if len(self._pinned) > self._max_pinned:
            self._unpin(self._pinned.popitem(last=False)[1])

    @staticmethod
    def _unpin(upstream: Upstream | None) -> None:
        if upstream is not None:
            upstream.rollouts -= 1


def _load(upstream: Upstream) -> tuple[int, int]:
    """Rollouts call in turns: those that are between two calls weigh where calls alone do not decide."""
    return upstream.calls_in_flight, upstream.rollouts
