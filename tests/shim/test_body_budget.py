# SPDX-License-Identifier: Apache-2.0
from history_delta_shim.body_budget import OVER_BUDGET, TOO_LARGE, BodyBudget, Lease


def test_a_lease_grows_and_gives_everything_back():
    budget = BodyBudget(each=10, together=15)
    with Lease(budget) as lease:
        assert lease.covers(4)
        assert lease.covers(10)
        assert not lease.covers(11)
        assert lease.shortage == TOO_LARGE
        with Lease(budget) as other:
            assert other.covers(5)
            assert not other.covers(6)
            assert other.shortage == OVER_BUDGET
    assert budget.take(15)
    assert not budget.take(1)


def test_a_smaller_size_takes_nothing_more():
    budget = BodyBudget(each=10, together=10)
    with Lease(budget) as lease:
        assert lease.covers(10)
        assert lease.covers(3)
        assert not budget.take(1)
