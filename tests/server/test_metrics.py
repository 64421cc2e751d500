# SPDX-License-Identifier: Apache-2.0
"""What a report adds to which numbers, and the state that is read when somebody asks."""

import asyncio

import pytest
from history_delta_server.admission import Admission
from history_delta_server.call import Call
from history_delta_server.deliveries import Deliveries
from history_delta_server.dispatch import Dispatcher
from history_delta_server.history import HistoryStore
from history_delta_server.kinds import UPSTREAMS
from history_delta_server.metrics import Metrics
from history_delta_server.pass_through import PassThroughs
from history_delta_server.pool import ConnectionPool
from history_delta_server.report import AGENT_LEFT, DELTA, FULL, PASS_THROUGH, REFUSED_REPEAT, Report
from history_delta_server.settings import Settings
from history_delta_server.upstreams import Upstreams
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, ...], float]


class Worker:
    """The parts whose state is shown."""

    def __init__(self) -> None:
        dispatcher = Dispatcher(Upstreams(UPSTREAMS.read("http://127.0.0.1:1")), ConnectionPool())
        self.histories = HistoryStore()
        self.admission = Admission()
        self.deliveries = Deliveries()
        self.pass_throughs = PassThroughs(Settings(), dispatcher, lambda: Call(asyncio.get_running_loop().call_later))
        self.metrics = Metrics(self.histories, self.admission, self.deliveries, self.pass_throughs)

    def samples(self) -> Samples:
        """All of the rendered text but what is a time."""
        return {
            (sample.name.removeprefix("history_delta_"), *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(self.metrics.render().decode("ascii"))
            for sample in family.samples
            if not sample.name.endswith("_created")
        }

    def added(self, report: Report) -> Samples:
        """What counting the report changes."""
        before = self.samples()
        self.metrics.count(report)
        return {
            key: value - before.get(key, 0.0)
            for key, value in self.samples().items()
            if value != before.get(key, 0.0) and "bucket" not in key[0]
        }


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_before_anything_happened_each_kind_is_there_as_zero(worker: Worker) -> None:
    samples = worker.samples()
    assert {key[1] for key in samples if key[0] == "calls_total"} == {"full", "delta", "pass-through"}
    assert set(samples.values()) == {0.0}


def test_a_full_send_counts_its_reason_and_bytes_and_saves_nothing(worker: Worker) -> None:
    report = Report(
        "/x", kind=FULL, reason="first-call", outcome="complete", received_bytes=90, body_bytes=100, rebuild_seconds=0.5
    )
    assert worker.added(report) == {
        ("calls_total", "full"): 1,
        ("full_sends_total", "first-call"): 1,
        ("outcomes_total", "complete"): 1,
        ("received_bytes_total",): 90,
        ("rebuilt_bytes_total",): 100,
        ("rebuild_seconds_count",): 1,
        ("rebuild_seconds_sum",): 0.5,
    }


def test_a_delta_counts_what_it_saved(worker: Worker) -> None:
    report = Report("/x", kind=DELTA, outcome="broken", received_bytes=40, body_bytes=100)
    assert worker.added(report) == {
        ("calls_total", "delta"): 1,
        ("outcomes_total", "broken"): 1,
        ("received_bytes_total",): 40,
        ("rebuilt_bytes_total",): 100,
        ("saved_bytes_total",): 60,
    }


def test_a_delta_larger_than_its_body_saves_nothing(worker: Worker) -> None:
    report = Report("/x", kind=DELTA, outcome="complete", received_bytes=100, body_bytes=40)
    assert ("saved_bytes_total",) not in worker.added(report)


def test_a_pass_through_counts_among_model_calls_in_no_number(worker: Worker) -> None:
    report = Report("/x", kind=PASS_THROUGH, reason="no-rollout", outcome="complete", received_bytes=5, body_bytes=5)
    assert worker.added(report) == {
        ("calls_total", "pass-through"): 1,
        ("pass_throughs_total", "no-rollout"): 1,
        ("outcomes_total", "complete"): 1,
    }


def test_an_answer_of_ours_is_no_call(worker: Worker) -> None:
    report = Report("/x")
    report.answered(413, "too-large")
    assert worker.added(report) == {("answered_total", "too-large"): 1}


def test_a_resync_counts_beside_the_answer(worker: Worker) -> None:
    report = Report("/x", resync="unknown-base")
    report.answered(409, "unknown-base")
    assert worker.added(report) == {("answered_total", "unknown-base"): 1, ("resyncs_total", "unknown-base"): 1}


@pytest.mark.parametrize("outcome", ["complete", REFUSED_REPEAT])
def test_a_delivery_that_came_again_is_no_second_call(worker: Worker, outcome: str) -> None:
    report = Report("/x", kind=FULL, reason="first-call", repeated=True, outcome=outcome, received_bytes=9)
    assert worker.added(report) == {("deliveries_repeated_total", outcome): 1}


@pytest.mark.parametrize("kind", [None, FULL, PASS_THROUGH])
def test_an_agent_that_left_counts_as_that_alone_and_as_no_label_none(worker: Worker, kind: str | None) -> None:
    report = Report("/x", kind=kind)
    report.agent_left()
    assert worker.added(report) == {("outcomes_total", AGENT_LEFT): 1}
    assert b"None" not in worker.metrics.render()


async def test_the_live_state_is_read_when_asked_for(worker: Worker) -> None:
    ticket = worker.admission.enter("r")
    ticket.resize(70)
    worker.pass_throughs.in_flight = 3
    with worker.histories.in_flight("r"):
        samples = worker.samples()
        assert (samples["calls_in_flight",], samples["bytes_in_flight",]) == (1, 70)
        assert (samples["pass_throughs_in_flight",], samples["histories",]) == (3, 1)
    ticket.release()
    assert (worker.samples()["calls_in_flight",], worker.samples()["bytes_in_flight",]) == (0, 0)


def test_two_workers_in_one_process_share_no_number(worker: Worker) -> None:
    other = Worker()
    worker.metrics.count(Report("/x", kind=DELTA, outcome="complete"))
    assert other.samples()["calls_total", "delta"] == 0
