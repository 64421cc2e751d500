# SPDX-License-Identifier: Apache-2.0
"""The numbers that /metrics shows, in a registry of their own."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .admission import Admission
from .deliveries import Deliveries
from .history import HistoryStore
from .pass_through import PassThroughs
from .report import AGENT_LEFT, DELTA, FULL, PASS_THROUGH, Report

_REBUILD_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Metrics:
    """Counts reports, and reads the live state when it is asked."""

    def __init__(
        self, histories: HistoryStore, admission: Admission, deliveries: Deliveries, pass_throughs: PassThroughs
    ) -> None:
        self.registry = CollectorRegistry()
        self._calls = self._counter("calls", "requests passed to a model server", "kind")
        self._full = self._counter("full_sends", "model calls whose body came in full", "reason")
        self._passed = self._counter("pass_throughs", "requests passed on without a look at their body", "reason")
        self._resyncs = self._counter("resyncs", "frames refused because they cannot be rebuilt here", "reason")
        self._answered = self._counter("answered", "requests answered by this server itself", "reason")
        self._repeated = self._counter("deliveries_repeated", "deliveries that came again", "outcome")
        self._outcomes = self._counter("outcomes", "how calls ended", "outcome")
        self._received = self._counter("received_bytes", "request body bytes of model calls as received")
        self._rebuilt = self._counter("rebuilt_bytes", "request body bytes of model calls as dispatched")
        self._saved = self._counter("saved_bytes", "the difference, where a frame was received")
        self._rebuild = Histogram(
            "history_delta_rebuild_seconds",
            "from the last byte received to a body rebuilt and checked",
            registry=self.registry,
            buckets=_REBUILD_BUCKETS,
        )
        for kind in (FULL, DELTA, PASS_THROUGH):
            self._calls.labels(kind)
        self._gauge("histories_bytes", "bytes of histories held", lambda: histories.tally.bytes)
        self._gauge("histories_messages", "messages held", lambda: histories.tally.messages)
        self._gauge("histories", "rollouts of which histories are held", lambda: len(histories))
        self._gauge("calls_in_flight", "model calls in flight", lambda: admission.calls)
        self._gauge("pass_throughs_in_flight", "requests passed through in flight", lambda: pass_throughs.in_flight)
        self._gauge("bytes_in_flight", "request bytes in flight", lambda: admission.total_bytes)
        self._gauge("deliveries", "deliveries known", lambda: len(deliveries))
        self._gauge("replays_bytes", "response bytes kept for repeats", lambda: deliveries.kept_bytes)

    def count(self, report: Report) -> None:
        """A request is over."""
        if report.resync is not None:
            self._resyncs.labels(report.resync).inc()
        if report.outcome == AGENT_LEFT:
            self._outcomes.labels(AGENT_LEFT).inc()
        elif report.kind is None:
            self._answered.labels(report.reason).inc()
        elif report.repeated:
            self._repeated.labels(report.outcome).inc()
        else:
            self._count_call(report)

    def _count_call(self, report: Report) -> None:
        self._calls.labels(report.kind).inc()
        self._outcomes.labels(report.outcome).inc()
        if report.kind == PASS_THROUGH:
            self._passed.labels(report.reason).inc()
            return
        if report.kind == FULL:
            self._full.labels(report.reason).inc()
        self._received.inc(report.received_bytes)
        self._rebuilt.inc(report.body_bytes)
        if report.kind == DELTA:
            self._saved.inc(max(0, report.body_bytes - report.received_bytes))
        if report.rebuild_seconds is not None:
            self._rebuild.observe(report.rebuild_seconds)

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"history_delta_{name}", help, labels, registry=self.registry)

    def _gauge(self, name: str, help: str, read: Callable[[], float]) -> None:
        Gauge(f"history_delta_{name}", help, registry=self.registry).set_function(read)
