# SPDX-License-Identifier: Apache-2.0
"""Bounds what is in flight: calls and request bytes, per rollout and in all. A plain object without I/O.

A frame of 400 bytes stands for megabytes of traffic; without this it could buy them again and again.
"""

from collections import Counter
from dataclasses import dataclass

from history_delta_protocol import wire


class Busy(Exception):
    """One more would be over a limit; the message names it and the setting that changes it."""

    retry_after = 1

    def __init__(self, what: str, limit: int, setting: str) -> None:
        super().__init__(f"{what} would be over the limit of {limit} (setting {setting}); try again later")
        self.setting = setting


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    rollout_calls: int = 32
    rollout_bytes: int = 64 * wire.MIB
    worker_bytes: int = 512 * wire.MIB


class Ticket:
    """One call's share of what is in flight, until every holder has released it."""

    def __init__(self, admission: "Admission", rollout: str) -> None:
        self._admission = admission
        self._rollout = rollout
        self._bytes = 0
        self._holders = 1

    def resize(self, size: int) -> None:
        """This call now holds ``size`` request bytes. Raises Busy, and holds what it held, where that is too much."""
        self._admission._grow(self._rollout, self._bytes, size - self._bytes)
        self._bytes = size

    def share(self) -> "Ticket":
        """One more holder, who releases it as well."""
        self._holders += 1
        return self

    def release(self) -> None:
        self._holders -= 1
        if not self._holders:
            self._admission._leave(self._rollout, self._bytes)


class Admission:
    """What the calls under way hold together."""

    def __init__(self, limits: AdmissionLimits | None = None) -> None:
        self._limits = limits or AdmissionLimits()
        self._calls: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self.total_bytes = 0

    @property
    def calls(self) -> int:
        return self._calls.total()

    def enter(self, rollout: str) -> Ticket:
        """Raises Busy where the rollout has too many calls in flight already."""
        if self._calls[rollout] >= self._limits.rollout_calls:
            raise Busy("calls in flight of this rollout", self._limits.rollout_calls, "max_calls_in_flight")
        self._calls[rollout] += 1
        return Ticket(self, rollout)

    def _grow(self, rollout: str, own: int, growth: int) -> None:
        if growth > 0:
            self._check(
                self._bytes[rollout], own, growth, self._limits.rollout_bytes, "of this rollout", "max_rollout_"
            )
            self._check(self.total_bytes, own, growth, self._limits.worker_bytes, "in all", "max_")
        self._bytes[rollout] += growth
        self.total_bytes += growth

    @staticmethod
    def _check(held: int, own: int, growth: int, limit: int, whose: str, prefix: str) -> None:
        # A body that is alone passes whatever its size: it has a limit of its own, and waiting would not help it.
        if held > own and held + growth > limit:
            raise Busy(f"request bytes in flight {whose}", limit, f"{prefix}bytes_in_flight")

    def _leave(self, rollout: str, size: int) -> None:
        self._calls[rollout] -= 1
        self._bytes[rollout] -= size
        self.total_bytes -= size
        if not self._calls[rollout]:
            del self._calls[rollout], self._bytes[rollout]
