# SPDX-License-Identifier: Apache-2.0
from history_delta_server.kinds import UPSTREAMS
from history_delta_server.upstreams import Upstream, Upstreams


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def upstreams(count: int, clock: Clock | None = None, max_pinned: int = 100) -> Upstreams:
    urls = UPSTREAMS.read(" ".join(f"http://model-{number}" for number in range(count)))
    return Upstreams(urls, retry_seconds=5, max_pinned=max_pinned, clock=clock or Clock())


def chosen(of: Upstreams, rollout: str | None, *tried: Upstream) -> Upstream:
    upstream = of.choose(rollout, tried)
    assert upstream is not None
    return upstream


def test_a_new_rollout_goes_to_the_least_loaded_and_stays_there() -> None:
    table = upstreams(3)
    first = chosen(table, "a")
    first.calls_in_flight = 1
    second = chosen(table, "b")
    second.calls_in_flight = 5
    assert second is not first
    assert chosen(table, "b") is second
    assert chosen(table, "a") is first


def test_where_calls_do_not_decide_rollouts_do() -> None:
    table = upstreams(3)
    homes = [chosen(table, f"rollout-{number}") for number in range(9)]
    assert sorted(homes.count(home) for home in set(homes)) == [3, 3, 3]
    assert [upstream.rollouts for upstream in set(homes)] == [3, 3, 3]


def test_calls_without_a_rollout_go_to_the_least_loaded_each_time() -> None:
    table = upstreams(2)
    first = chosen(table, None)
    first.calls_in_flight = 1
    assert chosen(table, None) is not first


def test_an_unreachable_one_is_avoided_for_a_while_and_its_rollouts_move() -> None:
    clock = Clock()
    table = upstreams(2, clock)
    home = chosen(table, "a")
    table.unreachable(home)
    moved = chosen(table, "a")
    assert moved is not home
    clock.now += 5
    # Its cache is warm where it is now.
    assert chosen(table, "a") is moved
    assert chosen(table, "b") is home


def test_with_none_healthy_the_call_is_the_probe() -> None:
    table = upstreams(1)
    only = chosen(table, "a")
    table.unreachable(only)
    assert chosen(table, "a") is only
    table.reached(only)
    assert only.avoid_until < 0


def test_what_was_tried_for_a_call_is_not_tried_again() -> None:
    table = upstreams(2)
    first = chosen(table, "a")
    second = chosen(table, "a", first)
    assert second is not first
    assert table.choose("a", (first, second)) is None


def test_the_table_forgets_the_longest_unused_rollout() -> None:
    table = upstreams(2, max_pinned=10)
    for number in range(10_000):
        table.choose(f"rollout-{number}")
    assert len(table._pinned) == 10
    assert "rollout-9999" in table._pinned
    assert sum(upstream.rollouts for upstream in table._upstreams) == 10
