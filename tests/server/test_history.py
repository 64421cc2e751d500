# SPDX-License-Identifier: Apache-2.0
import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from history_delta_protocol import chain
from history_delta_server.history import (
    ITEM_OVERHEAD,
    NODE_OVERHEAD,
    ROLLOUT_OVERHEAD,
    HistoryLimits,
    HistoryStore,
    Message,
    RolloutHistories,
)
from support.accounting import check_forgets_all, check_server

START = chain.start("chat")


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def told(*contents: bytes, after: bytes = START) -> list[Message]:
    """Messages with their chain values, each behind a comma."""
    messages = []
    for content in contents:
        after = chain.extend(after, b",", content)
        messages.append(Message(after, b"," + content, 1))
    return messages


def item(data: bytes) -> tuple[bytes, bytes]:
    return chain.item_hash(data), data


def contents(rollout: RolloutHistories, tip: bytes) -> list[bytes]:
    return [node.data[node.separator_length :] for node in rollout.lineage(rollout.node(tip))]


@contextmanager
def rollout_of(store: HistoryStore, name: str = "r") -> Iterator[RolloutHistories]:
    with store.in_flight(name) as rollout:
        yield rollout
    check_server(store)


def test_a_history_is_held_message_by_message():
    store = HistoryStore()
    messages = told(b"a", b"bb", b"ccc")
    with rollout_of(store) as rollout:
        rollout.store(None, messages, [])
        node = rollout.node(messages[1].chain)
        assert node is not None
        assert (node.count, node.data, node.separator_length) == (2, b",bb", 1)
        assert contents(rollout, messages[2].chain) == [b"a", b"bb", b"ccc"]
        assert rollout.lineage(None) == []
        assert rollout.node(START) is None
        assert rollout.message_count == 3


def test_storing_what_is_there_changes_nothing():
    store = HistoryStore()
    with rollout_of(store) as rollout:
        for _ in range(3):
            rollout.store(None, told(b"a", b"b"), [item(b"{"), item(b"}")])
            assert rollout.message_count == 2
            assert rollout.held_bytes == ROLLOUT_OVERHEAD + 2 * (2 + NODE_OVERHEAD) + 2 * (1 + ITEM_OVERHEAD)


def test_branches_share_their_beginning():
    store = HistoryStore()
    stem = told(b"system", b"task")
    one, other = told(b"x", after=stem[1].chain), told(b"y", b"z", after=stem[1].chain)
    with rollout_of(store) as rollout:
        rollout.store(None, stem, [])
        base = rollout.node(stem[1].chain)
        rollout.store(base, one, [])
        rollout.store(base, other, [])
        assert rollout.message_count == 5
        assert contents(rollout, one[0].chain) == [b"system", b"task", b"x"]
        assert contents(rollout, other[1].chain) == [b"system", b"task", b"y", b"z"]


def test_rollouts_share_memory_and_nothing_else():
    store = HistoryStore()
    prompt = b"prompt" * 200
    with rollout_of(store, "one") as one, rollout_of(store, "two") as two:
        one.store(None, told(bytes(bytearray(prompt))), [item(prompt)])
        assert two.node(told(prompt)[0].chain) is None
        assert two.item(chain.item_hash(prompt)) is None
        two.store(None, told(bytes(bytearray(prompt))), [])
        tip = told(prompt)[0].chain
        assert one.node(tip).data is two.node(tip).data
        assert one.node(tip) is not two.node(tip)


def bounded(*, messages: int = 10, size: int = 20, **limits) -> HistoryStore:
    """A store that holds so many messages of so many bytes a rollout."""
    room = ROLLOUT_OVERHEAD + messages * (size + 1 + NODE_OVERHEAD)
    return HistoryStore(HistoryLimits(rollout_bytes=room, **limits))


def test_the_least_recently_used_history_goes_first():
    store = bounded(messages=6)
    first, second, third = (told(*(b"%d%019d" % (n, i) for i in range(2))) for n in range(3))
    with rollout_of(store) as rollout:
        for history in (first, second, third):
            rollout.store(None, history, [])
        rollout.store(None, first, [])  # used again
        rollout.store(None, told(b"one more"), [])
        assert rollout.node(second[-1].chain) is None
        assert rollout.node(second[0].chain) is None
        assert rollout.node(first[-1].chain)
        assert rollout.node(third[-1].chain)


def test_a_dropped_branch_leaves_what_others_run_through():
    store = bounded(messages=5)
    stem = told(*(b"%020d" % i for i in range(3)))
    one, other = (told(b"%020d" % n, after=stem[-1].chain) for n in (7, 8))
    with rollout_of(store) as rollout:
        rollout.store(None, stem, [])
        rollout.store(rollout.node(stem[-1].chain), one, [])
        rollout.store(rollout.node(stem[-1].chain), other, [])
        rollout.store(None, told(b"%020d" % 9), [])
        assert rollout.node(one[0].chain) is None
        assert len(contents(rollout, other[0].chain)) == 4


def test_a_history_that_has_grown_is_dropped_whole():
    store = bounded(messages=10)
    with rollout_of(store) as rollout:
        value = START
        for n in range(10):
            rollout.store(rollout.node(value), told(b"%020d" % n, after=value), [])
            value = told(b"%020d" % n, after=value)[0].chain
        assert rollout.message_count == 10
        rollout.store(None, told(*(b"%019dx" % n for n in range(10))), [])
        assert rollout.node(value) is None
        assert rollout.message_count == 10


def test_one_history_over_the_limit_is_not_held():
    store = bounded(messages=3)
    with rollout_of(store) as rollout:
        rollout.store(None, told(*(b"%020d" % i for i in range(4))), [])
        assert rollout.message_count == 0


def test_what_a_call_in_flight_needs_is_never_dropped():
    store = bounded(messages=4)
    needed = told(b"%020d" % 1, b"%020d" % 2)
    with rollout_of(store) as rollout:
        rollout.store(None, needed, [])
        with rollout.pinned(needed[-1].chain):
            with rollout.pinned(needed[-1].chain):
                rollout.store(None, told(*(b"%019dx" % i for i in range(3))), [])
            # Still one of the two.
            rollout.store(None, told(*(b"%019dy" % i for i in range(3))), [])
            assert rollout.node(needed[-1].chain)
            assert rollout.message_count == 2
        rollout.store(None, told(*(b"%019dz" % i for i in range(3))), [])
        assert rollout.node(needed[-1].chain) is None
        assert rollout.message_count == 3


def test_a_pinned_history_outlives_what_grew_out_of_it():
    store = bounded(messages=4)
    needed = told(b"%020d" % 1)
    grown = told(b"%020d" % 2, after=needed[0].chain)
    with rollout_of(store) as rollout:
        rollout.store(None, needed, [])
        rollout.store(rollout.node(needed[0].chain), grown, [])
        with rollout.pinned(needed[0].chain):
            rollout.store(None, told(*(b"%019dx" % i for i in range(3))), [])
            assert rollout.node(grown[0].chain) is None
            assert rollout.node(needed[0].chain)


def test_over_the_limit_while_all_is_pinned_shrinks_at_the_end_of_the_call():
    store = bounded(messages=4)
    needed = told(*(b"%020d" % i for i in range(4)))
    with rollout_of(store) as rollout:
        rollout.store(None, needed, [])
        with rollout.pinned(needed[-1].chain):
            rollout.store(None, [], [item(b"the head"), item(b"the tail")])
            assert rollout.message_count == 4
        assert rollout.message_count == 0


def test_pinning_what_is_not_held_is_harmless():
    store = HistoryStore()
    with rollout_of(store) as rollout:
        with rollout.pinned(START), rollout.pinned(b"x" * 32):
            rollout.store(None, told(b"a"), [])
        assert not rollout._pins


def test_heads_and_tails_are_bounded_in_number():
    store = HistoryStore(HistoryLimits(items=3))
    with rollout_of(store) as rollout:
        for n in range(3):
            rollout.store(None, [], [item(b"%d" % n)])
        assert rollout.item(chain.item_hash(b"0")) == b"0"  # used again
        rollout.store(None, [], [item(b"3")])
        assert rollout.item(chain.item_hash(b"1")) is None
        assert rollout.item(chain.item_hash(b"0"))
        assert rollout.item(chain.item_hash(b"3"))


def test_heads_and_tails_take_a_quarter_of_the_rollout_at_most():
    store = HistoryStore(HistoryLimits(rollout_bytes=40_000))
    with rollout_of(store) as rollout:
        for n in range(40):
            rollout.store(None, [], [item(b"%04d" % n * 250)])
        assert rollout._item_bytes <= 10_000
        # The latest head and tail stay, whatever they weigh.
        rollout.store(None, [], [item(b"h" * 9_000), item(b"t" * 9_000)])
        assert rollout.item(chain.item_hash(b"h" * 9_000))
        assert rollout.item(chain.item_hash(b"t" * 9_000))


def test_a_rollout_idle_for_too_long_goes():
    clock = Clock()
    store = HistoryStore(HistoryLimits(idle_seconds=900), clock)
    for name in ("old", "kept"):
        with store.in_flight(name) as rollout:
            rollout.store(None, told(b"a"), [])
        clock.now += 500
    with store.in_flight("kept") as rollout:
        assert rollout.message_count == 1
    assert len(store) == 1
    check_server(store)


def test_a_call_that_takes_long_keeps_its_rollout():
    clock = Clock()
    store = HistoryStore(HistoryLimits(idle_seconds=900, worker_bytes=1), clock)
    with store.in_flight("slow") as rollout:
        rollout.store(None, told(b"a"), [])
        clock.now += 5000
        with store.in_flight("other"):
            pass
        store.expire()
        assert rollout.message_count == 1
    # Idle begins when the call ends, not when it began.
    assert store._used["slow"] == clock.now


def test_the_worker_is_bounded_over_all_rollouts():
    clock = Clock()
    limit = 20 * (ROLLOUT_OVERHEAD + 1001 + NODE_OVERHEAD)
    store = HistoryStore(HistoryLimits(worker_bytes=limit), clock)
    for n in range(100):
        clock.now += 1
        with store.in_flight(f"r{n}") as rollout:
            rollout.store(None, told(b"%1000d" % n), [])
        assert store.tally.bytes <= limit + ROLLOUT_OVERHEAD + 1001 + NODE_OVERHEAD
    check_server(store)
    # The longest idle went first.
    assert list(store._rollouts) == [f"r{n}" for n in range(79, 100)]
    check_forgets_all(store)


def test_no_recursion_over_long_histories():
    store = HistoryStore()
    messages = told(*(b"%d" % n for n in range(100_000)))
    with store.in_flight("r") as rollout:
        rollout.store(None, messages, [])
        assert len(rollout.lineage(rollout.node(messages[-1].chain))) == 100_000
    del rollout
    check_forgets_all(store)


def test_any_sequence_keeps_the_books():
    """Branches anywhere, pins that overlap, rollouts that expire: what is counted is what is there."""
    rng = random.Random(7)
    clock = Clock()
    limits = HistoryLimits(rollout_bytes=30_000, worker_bytes=90_000, idle_seconds=50, items=4)
    store = HistoryStore(limits, clock)
    with ExitStack() as open_calls:
        for step in range(1500):
            clock.now += rng.random() * 3
            if step % 40 == 0:
                open_calls.close()
            rollout = open_calls.enter_context(store.in_flight(f"r{rng.randrange(6)}"))
            base = rng.choice([None, *rollout._nodes.values()])
            new = told(*(b"%d" % rng.randrange(3) * rng.choice([1, 600]) for _ in range(rng.randint(0, 4))))
            if base is not None:
                new = told(*(message.data[1:] for message in new), after=base.chain)
            rollout.store(base, new, [item(b"%d" % rng.randrange(9) * rng.choice([1, 700])) for _ in range(2)])
            if new and rng.random() < 0.3:
                open_calls.enter_context(rollout.pinned(new[-1].chain))
            for held in store._rollouts.values():
                assert all(pin not in held._nodes or pin in held._tips for pin in held._pins)
            if step % 40 == 39:
                open_calls.close()
                check_server(store)
                assert all(held.held_bytes <= 30_000 for held in store._rollouts.values())
    check_forgets_all(store)


def measured(make: Callable[[], object]) -> tuple[int, object]:
    """Bytes that live on from what ``make`` does, and what it made."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = make()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before, made
    finally:
        tracemalloc.stop()


def filled(calls: int, size: int, items: int = 0) -> HistoryStore:
    """A rollout of many calls, each with two new messages, as agents make them."""
    rng = random.Random(size)
    store = HistoryStore(HistoryLimits(items=max(items, 2)))
    with store.in_flight("r") as rollout:
        tip = START
        for _ in range(calls):
            new = told(rng.randbytes(size), rng.randbytes(size), after=tip)
            rollout.store(rollout.node(tip), new, [])
            tip = new[-1].chain
        for _ in range(items):
            rollout.store(None, [], [item(rng.randbytes(size))])
    return store


@pytest.mark.parametrize("size", [600, 1500])
def test_a_message_costs_what_is_counted(size):
    used, store = measured(lambda: filled(2000, size))
    assert 0.9 <= used / store.tally.bytes <= 1.05


@pytest.mark.parametrize("size", [600, 9000])
def test_a_head_or_tail_costs_what_is_counted(size):
    used, store = measured(lambda: filled(0, size, items=1500))
    assert 0.9 <= used / store.tally.bytes <= 1.05


def test_a_rollout_costs_what_is_counted():
    def many() -> HistoryStore:
        store = HistoryStore()
        for n in range(2000):
            with store.in_flight(f"{n:032x}"):
                pass
        return store

    used, store = measured(many)
    assert 0.8 <= used / store.tally.bytes <= 1.1


def test_memory_is_at_most_1_3_of_the_history_bytes():
    used, store = measured(lambda: filled(2000, 1500))
    history_bytes = 4000 * 1501
    assert used <= 1.3 * history_bytes
    assert store.tally.messages == 4000


def test_memory_is_flat_over_ten_thousand_short_rollouts():
    clock = Clock()
    store = HistoryStore(HistoryLimits(idle_seconds=900), clock)
    rng = random.Random(3)
    system = rng.randbytes(9000)

    def episode(n: int) -> None:
        clock.now += 10
        tip = START
        for call in range(2):
            with store.in_flight(f"episode-{n}") as rollout:
                new = told(
                    *([rng.randbytes(rng.randint(100, 2000)) for _ in range(2)] if call else [system]), after=tip
                )
                rollout.store(rollout.node(tip), new, [item(b"head"), item(b"tail" * 300)])
                tip = new[-1].chain

    def live(episodes: range) -> list[int]:
        levels = []
        for n in episodes:
            episode(n)
            if n % 500 == 499:
                gc.collect()
                levels.append(tracemalloc.get_traced_memory()[0])
        return levels

    tracemalloc.start()
    try:
        levels = live(range(10_000))
    finally:
        tracemalloc.stop()
    # 90 rollouts fit in the idle time; from then on nothing grows.
    assert len(store) <= 91
    assert max(levels[1:]) <= 1.1 * min(levels[1:])
    check_server(store)
    check_forgets_all(store)
