# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_server.call import Call, Framing, Head
from history_delta_server.deliveries import Deliveries, DeliveryLimits, Identity, Reused

HEAD = Head(200, b"OK", [], Framing.CHUNKED)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class NoTimer:
    def cancel(self) -> None:
        pass


def asked(content: str | None = "content", method: str = "POST", target: str = "/v1/responses") -> Identity:
    return Identity(method, target, content)


def new_call() -> Call:
    return Call(lambda seconds, action: NoTimer(), kept=True)


def added(deliveries: Deliveries, delivery: str = "d", rollout: str = "r", content: str | None = "content") -> Call:
    call = new_call()
    deliveries.add(rollout, delivery, asked(content), call)
    return call


def answered(deliveries: Deliveries, delivery: str, size: int) -> Call:
    call = added(deliveries, delivery)
    call.start(HEAD)
    call.append(b"x" * size)
    call.finish()
    return call


def test_the_same_delivery_is_the_same_call_while_it_runs_and_for_a_while_after(clock: Clock) -> None:
    deliveries = Deliveries(DeliveryLimits(keep_seconds=60), clock)
    assert deliveries.find("r", "d", asked()) is None
    call = added(deliveries)
    clock.now += 3600
    assert deliveries.find("r", "d", asked()) is call
    call.start(HEAD)
    call.finish()
    clock.now += 59.9
    assert deliveries.find("r", "d", asked()) is call
    clock.now += 0.1
    assert deliveries.find("r", "d", asked()) is None
    assert len(deliveries) == 0


def test_with_other_content_it_is_refused_also_after_its_end(clock: Clock) -> None:
    deliveries = Deliveries(clock=clock)
    call = added(deliveries)
    with pytest.raises(Reused, match="d"):
        deliveries.find("r", "d", asked("other content"))
    call.fail("broke off")
    with pytest.raises(Reused):
        deliveries.find("r", "d", asked("other content"))


def test_an_id_has_a_meaning_only_in_its_rollout(clock: Clock) -> None:
    deliveries = Deliveries(clock=clock)
    added(deliveries)
    assert deliveries.find("another rollout", "d", asked()) is None


def test_a_failed_call_is_known_and_one_that_never_ran_is_not(clock: Clock) -> None:
    deliveries = Deliveries(clock=clock)
    failed = added(deliveries, "failed")
    failed.fail("broke off")
    unsent = added(deliveries, "unsent")
    unsent.fail_unsent("unreachable")
    assert deliveries.find("r", "failed", asked()) is failed
    assert deliveries.find("r", "unsent", asked()) is None


def test_content_that_was_streamed_cannot_be_compared_and_counts_as_the_same(clock: Clock) -> None:
    deliveries = Deliveries(clock=clock)
    streamed = added(deliveries, "streamed", content=None)
    whole = added(deliveries, "whole")
    assert deliveries.find("r", "streamed", asked("anything")) is streamed
    assert deliveries.find("r", "whole", asked(None)) is whole


@pytest.mark.parametrize("content", [None, "content"])
def test_method_and_target_are_compared_also_where_the_content_was_streamed(clock: Clock, content: str | None) -> None:
    deliveries = Deliveries(clock=clock)
    added(deliveries, content=content)
    for other in (asked(None, target="/v1/messages"), asked(None, "PUT"), asked(target="/v1/responses?x")):
        with pytest.raises(Reused):
            deliveries.find("r", "d", other)


def test_a_response_over_its_limit_is_known_but_not_kept(clock: Clock) -> None:
    deliveries = Deliveries(DeliveryLimits(response_bytes=1000), clock)
    call = added(deliveries)
    call.start(HEAD)
    call.append(b"x" * 900)
    assert call.kept
    assert deliveries.kept_bytes > 0
    call.append(b"x" * 100)
    assert not call.kept
    assert deliveries.kept_bytes == 0
    assert deliveries.find("r", "d", asked()) is call


def test_over_the_workers_limit_the_oldest_responses_go_first(clock: Clock) -> None:
    deliveries = Deliveries(DeliveryLimits(worker_bytes=3000), clock)
    calls = [answered(deliveries, str(number), 900) for number in range(5)]
    assert [call.kept for call in calls] == [False, False, True, True, True]
    assert deliveries.kept_bytes <= 3000
    assert all(deliveries.find("r", str(number), asked()) is calls[number] for number in range(5))


def test_running_calls_together_are_bounded_too(clock: Clock) -> None:
    deliveries = Deliveries(DeliveryLimits(worker_bytes=3000), clock)
    calls = [added(deliveries, str(number)) for number in range(5)]
    for call in calls:
        call.start(HEAD)
        call.append(b"x" * 900)
        assert deliveries.kept_bytes <= 3000
    assert [call.kept for call in calls] == [True, True, True, False, False]


def test_the_count_is_bounded_and_running_calls_stay_known(clock: Clock) -> None:
    deliveries = Deliveries(DeliveryLimits(count=10), clock)
    running = added(deliveries, "running")
    for number in range(10_000):
        answered(deliveries, str(number), 10)
    assert len(deliveries) <= 10
    assert deliveries.find("r", "running", asked()) is running
    assert deliveries.find("r", "0", asked()) is None
    assert deliveries.find("r", "9999", asked()) is not None


def test_expiry_gives_all_memory_back(clock: Clock) -> None:
    deliveries = Deliveries(clock=clock)
    for number in range(100):
        answered(deliveries, str(number), 1000)
    assert deliveries.kept_bytes > 100_000
    clock.now += 60
    deliveries.find("r", "none", asked())
    assert (deliveries.kept_bytes, len(deliveries), len(deliveries._replayable)) == (0, 0, 0)
