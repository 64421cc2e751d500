# SPDX-License-Identifier: Apache-2.0
"""How much of agents' request bodies may stand in memory at once.

A body over its own limit, or over what is left for all, is not refused: it is passed through piece by piece.
"""

import threading

from history_delta_protocol import wire

ALL_BODIES_BYTES = 64 * wire.MIB

# Why a body is not held.
TOO_LARGE = "too-large"
OVER_BUDGET = "over-memory-budget"


class BodyBudget(object):
    """The bytes that are left, shared by all exchanges."""

    def __init__(self, each: int = wire.MAX_HELD_BODY_BYTES, together: int = ALL_BODIES_BYTES) -> None:
        self.each = each
        self._left = together
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take so many bytes (give back: negative); False where there are not so many left."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True


class Lease(object):
    """What one exchange holds of the budget; a context manager that gives it back."""

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._held = 0
        self.shortage = ""  # why a body was not covered

    def covers(self, size: int) -> bool:
        """Whether a body of that size may be held, having taken what is needed for it."""
        if size <= self._held:
            return True
        if size > self._budget.each:
            self.shortage = TOO_LARGE
            return False
        if not self._budget.take(size - self._held):
            self.shortage = OVER_BUDGET
            return False
        self._held = size
        return True

    def __enter__(self) -> "Lease":
        return self

    def __exit__(self, *_: object) -> None:
        self._budget.take(-self._held)
