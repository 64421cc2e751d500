# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_server.admission import Admission, AdmissionLimits, Busy


def test_one_call_more_than_allowed_is_busy_until_another_leaves() -> None:
    admission = Admission(AdmissionLimits(rollout_calls=2))
    first = admission.enter("r")
    admission.enter("r")
    with pytest.raises(Busy, match=r"calls in flight of this rollout .* limit of 2 \(setting max_calls_in_flight\)"):
        admission.enter("r")
    admission.enter("another rollout")
    first.release()
    admission.enter("r")
    assert admission.calls == 3


def test_bytes_are_bounded_per_rollout_and_in_all() -> None:
    admission = Admission(AdmissionLimits(rollout_bytes=100, worker_bytes=150))
    admission.enter("r").resize(60)
    second = admission.enter("r")
    with pytest.raises(Busy, match=r"of this rollout .* 100 \(setting max_rollout_bytes_in_flight\)"):
        second.resize(41)
    second.resize(40)
    other = admission.enter("s")
    with pytest.raises(Busy, match=r"in all .* 150 \(setting max_bytes_in_flight\)"):
        other.resize(51)
    assert admission.total_bytes == 100


def test_a_refused_growth_leaves_what_was_held() -> None:
    admission = Admission(AdmissionLimits(rollout_bytes=100))
    admission.enter("r").resize(90)
    ticket = admission.enter("r")
    ticket.resize(5)
    with pytest.raises(Busy):
        ticket.resize(50)
    ticket.release()
    assert admission.total_bytes == 90


def test_a_body_that_is_alone_passes_whatever_its_size() -> None:
    admission = Admission(AdmissionLimits(rollout_bytes=100, worker_bytes=100))
    ticket = admission.enter("r")
    ticket.resize(1)
    ticket.resize(1000)
    with pytest.raises(Busy):
        admission.enter("s").resize(1)
    ticket.resize(0)
    admission.enter("s").resize(100)


def test_a_shared_ticket_counts_until_its_last_holder_releases_it() -> None:
    admission = Admission()
    ticket = admission.enter("r")
    ticket.resize(10)
    shared = ticket.share()
    ticket.release()
    assert (admission.calls, admission.total_bytes) == (1, 10)
    shared.release()
    assert (admission.calls, admission.total_bytes) == (0, 0)


def test_ten_thousand_short_rollouts_leave_nothing_behind() -> None:
    admission = Admission()
    for number in range(10_000):
        ticket = admission.enter(f"rollout-{number}")
        ticket.resize(number)
        ticket.release()
    assert not admission._calls
    assert not admission._bytes
    assert admission.total_bytes == 0
