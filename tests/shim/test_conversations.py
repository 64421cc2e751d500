# SPDX-License-Identifier: Apache-2.0
import tracemalloc

import pytest
from history_delta_protocol import chain, scan
from history_delta_protocol.dialect import CHAT
from history_delta_shim import conversations
from history_delta_shim.conversations import (
    Conversation,
    Conversations,
    Health,
    HeldItems,
    best_match,
    find_head_end,
)
from history_delta_shim.delta import take_apart
from support.json_bodies import Body, as_history, body, said, text

SCOPE = ("chat", "", "r1")
OTHER = ("chat", "", "r2")


def held(sent: Body, scope=SCOPE) -> Conversation:
    return take_apart(scope, CHAT, sent.raw, []).conversation


def shared(old: Body, new: Body) -> int:
    return held(old).shared_with(new.raw, len(new.head))


ONE = body(said(1), said(2), said(3))


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (ONE, 3),
        (ONE.and_then(said(4)), 3),
        (ONE.having(said(1), said(2)), 2),
        (ONE.having(said(1), said(2), said(7)), 2),
        (ONE.having(said(8), said(2), said(3)), 0),
        (ONE.having(), 0),
        (body(said(1), said(2), said(3), head=b'{"max_tokens":77,"'), 3),
        (Body(ONE.head, ((b" ", said(1)), *ONE.history[1:]), ONE.tail), 0),
        (Body(ONE.head, (ONE.history[0], (b", ", said(2)), ONE.history[2]), ONE.tail), 1),
        # Blanks behind the last message are the tail's, not the message's.
        (Body(ONE.head, ONE.history, b" \n" + ONE.tail), 3),
    ],
)
def test_shared_messages_are_counted_from_the_front(new, expected):
    assert shared(ONE, new) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([b"1"], [b"12"], 0),
        ([b"0", b"1"], [b"0", b"12"], 1),
        ([b"1"], [b"1", b"2"], 1),
        ([b"1"], [b"1.5"], 0),
        ([b"1"], [b"1e5"], 0),
        ([b"-1"], [b"-12"], 0),
        ([b"12"], [b"1"], 0),
        ([b"true"], [b"true"], 1),
        ([b'"a"'], [b'"a"', b'"b"'], 1),
        ([b'"a\\\\"'], [b'"a\\\\"b"'], 0),
        ([b"[]", b"1"], [b"[]", b"[1]"], 1),
    ],
)
def test_a_number_ends_where_the_new_body_ends_it(old, new, expected):
    assert shared(body(*old), body(*new)) == expected


@pytest.mark.parametrize("blank", [b" ", b"\n\t ", b" " * 100_000])
def test_blanks_behind_a_shared_number_are_skipped(blank):
    old, one_more = (
        body(b"0", b"1", tail=blank + b"]}"),
        Body(body().head, ((b"", b"0"), (b",", b"1")), blank + b",2]}"),
    )
    assert shared(old, one_more) == 2
    assert shared(old, Body(body().head, ((b"", b"0"), (b",", b"1")), blank + b"2]}")) == 1


def test_a_body_cut_off_behind_a_number_shares_nothing_uncertain():
    assert held(body(b"0", b"1")).shared_with(b'{"model":"m","messages":[0,1', len(body().head)) == 1


def matched(new: Body, *candidates: Conversation) -> tuple[Conversation, int] | None:
    return best_match(new.raw, len(new.head), candidates)


def test_the_longest_shared_history_wins_whatever_its_age():
    near, far = held(ONE), held(ONE.having(said(1)))
    new = ONE.and_then(said(4))
    assert matched(new, far, near) == (near, 3)
    assert matched(new, near, far) == (near, 3)


def test_the_most_recent_of_equals_wins():
    older, newer = held(ONE), held(ONE)
    assert matched(ONE.and_then(said(4)), newer, older)[0] is newer


def test_a_fork_is_told_by_what_comes_after_the_stem():
    stem = ONE
    left, right = held(stem.and_then(said(10))), held(stem.and_then(said(20)))
    assert matched(stem.and_then(said(20), said(21)), left, right) == (right, 4)
    assert matched(stem.and_then(said(30)), left, right) == (left, 3)


def test_nothing_shared_is_no_match():
    assert matched(body(said(9)), held(ONE)) is None
    assert matched(body(), held(ONE)) is None
    assert matched(ONE, held(body())) is None
    assert matched(ONE) is None


def test_a_match_under_another_head_counts_its_own_history():
    long_head = held(body(said(1), head=b'{"x":"%s","' % (b"y" * 5000)))
    assert matched(ONE, long_head, held(ONE.having(said(1), said(2))))[1] == 2


def test_few_candidates_are_looked_at_whole(monkeypatch):
    """Two hundred forks and other conversations: all but those that can be better are passed over at one message."""
    stem = body(*(said(n) for n in range(50)))
    forks = [held(stem.and_then(said(100 + n), said(300 + n))) for n in range(100)]
    others = [held(body(said(500 + n), *(said(n) for n in range(30)))) for n in range(100)]
    compared = []
    monkeypatch.setattr(Conversation, "shared_with", counting(Conversation.shared_with, compared))
    new = stem.and_then(said(142), said(342), said(600))
    assert matched(new, *forks, *others) == (forks[42], 52)
    assert len(compared) == 2


def test_earlier_states_of_a_conversation_are_passed_over(monkeypatch):
    states = [held(body(*(said(n) for n in range(count)))) for count in range(60, 0, -1)]
    compared = []
    monkeypatch.setattr(Conversation, "shared_with", counting(Conversation.shared_with, compared))
    assert matched(body(*(said(n) for n in range(61))), *states) == (states[0], 60)
    assert len(compared) == 1


def counting(function, calls: list):
    def counted(*args):
        calls.append(args)
        return function(*args)

    return counted


def words(number: int) -> bytes:
    return b" ".join(b"%d" % (number * word) for word in range(60))


def lives_on(old: Body, new: Body) -> bool:
    return held(old).lives_on_in(held(new), shared(old, new))


MARKED = body(*(text(words(n), marked=n == 3) for n in range(4)))
MARKED_NEXT = body(*(text(words(n), marked=n == 5) for n in range(6)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ONE, ONE.and_then(said(4))),
        (ONE, ONE),
        (MARKED, MARKED_NEXT),
        (
            body(text(b"a", marked=True), text(b"b", marked=True)),
            body(text(b"a", marked=False), text(b"b", marked=False)),
        ),
        (body(), body(said(1))),
    ],
)
def test_a_conversation_lives_on_in_what_it_becomes(old, new):
    assert lives_on(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # A fork: the stem is long, what comes after it is not the same.
        (ONE.and_then(said(10)), ONE.and_then(said(20), said(21))),
        # A truncation, a compaction, another conversation.
        (ONE, ONE.having(said(1))),
        (ONE, ONE.having(said(1), said(9), said(3))),
        (ONE, body(said(9))),
        # An old message pruned: what is behind it may come back.
        (body(*(said(n) for n in range(9))), body(*(said(n if n != 2 else 99) for n in range(10)))),
        # More rewritten than any mark would.
        (
            body(*(text(words(n), marked=n > 1) for n in range(6))),
            body(*(text(words(n), marked=False) for n in range(6))),
        ),
    ],
)
def test_a_fork_or_a_shorter_history_is_another_conversation(old, new):
    assert not lives_on(old, new)


def test_a_known_head_is_found_without_scanning(monkeypatch):
    candidates = [held(body(head=b'{"other":1,"')), held(ONE)]
    monkeypatch.setattr(scan, "find_history", None)
    assert find_head_end(ONE.and_then(said(4)).raw, "messages", candidates) == len(ONE.head)


def test_an_unknown_head_is_scanned_for():
    new = body(said(1), head=b'{"n":3,"')
    assert find_head_end(new.raw, "messages", [held(ONE)]) == len(new.head)
    with pytest.raises(scan.NotUnderstood):
        find_head_end(b'{"input":"x"}', "messages", [held(ONE)])


# --- Conversations --------------------------------------------------------------------------------------------------


def recount(store: Conversations) -> int:
    return sum(conversation.size for conversation in store._held.values())


def test_the_least_recently_held_goes_first():
    kept = [held(body(b"%1000d" % n)) for n in range(20)]
    store = Conversations(max_bytes=5 * kept[0].size)
    for conversation in kept:
        store.hold(conversation)
        assert store.bytes == recount(store) <= 5 * kept[0].size
    assert store.candidates(SCOPE) == kept[:-6:-1]


def test_bounded_in_number_too():
    store = Conversations(max_bytes=10**9, max_count=3)
    for n in range(10):
        store.hold(held(body(said(n))))
    assert len(store) == 3
    assert store.bytes == recount(store)


def test_candidates_are_those_of_the_scope_most_recent_first():
    store = Conversations(10**6)
    first, other, last = held(ONE), held(ONE, OTHER), held(body(said(9)))
    for conversation in (first, other, last):
        store.hold(conversation)
    assert store.candidates(SCOPE) == [last, first]
    assert store.candidates(OTHER) == [other]
    assert store.candidates(("messages", "", "r1")) == []


def test_holding_or_dropping_twice_counts_once():
    store = Conversations(10**6)
    one, two = held(ONE), held(ONE)
    for _ in range(2):
        store.hold(one)
    store.hold(two)
    assert store.bytes == one.size + two.size
    for _ in range(2):
        store.drop(one)
    assert store.bytes == two.size
    store.drop(two)
    assert (store.bytes, len(store)) == (0, 0)


def test_one_over_the_bound_pushes_nothing_out():
    small, large = held(ONE), held(body(said(1, 50_000)))
    store = Conversations(max_bytes=2 * small.size)
    store.hold(small)
    store.hold(large)
    assert store.candidates(SCOPE) == [small]


@pytest.mark.parametrize(("messages", "size"), [(1, 1000), (10, 1000), (1000, 10), (1000, 1000)])
def test_a_conversation_costs_what_is_counted(messages, size):
    def one(seed: int) -> Conversation:
        return held(body(*(b'"%0*d"' % (size - 2, seed * messages + n) for n in range(messages))))

    tracemalloc.start()
    try:
        made = [one(seed) for seed in range(4 if messages > 100 else 200)]
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    counted = sum(conversation.size for conversation in made)
    assert 0.85 * counted <= used <= 1.02 * counted


# --- HeldItems ------------------------------------------------------------------------------------------------------


def item(data: bytes) -> tuple[bytes, bytes]:
    return chain.item_hash(data), data


def test_items_by_scope_most_recent_first():
    items = HeldItems(1000)
    for scope, data in [(SCOPE, b"a"), (OTHER, b"b"), (SCOPE, b"c"), (SCOPE, b"a")]:
        items.hold(scope, *item(data))
    assert list(items.of(SCOPE).items()) == [item(b"a"), item(b"c")]
    assert list(items.of(OTHER).values()) == [b"b"]
    assert items.bytes == 3


def test_items_are_bounded_in_bytes_and_number():
    items = HeldItems(100, max_count=4)
    for n in range(30):
        items.hold(SCOPE, *item(b"%030d" % n))
        assert items.bytes <= 100
    assert list(items.of(SCOPE).values()) == [b"%030d" % n for n in (29, 28, 27)]
    for n in range(30):
        items.hold(SCOPE, *item(b"%d" % n))
    assert len(items.of(SCOPE)) == 4
    items.hold(SCOPE, *item(b"x" * 101))
    assert len(items.of(SCOPE)) == 4


def test_a_scope_has_its_latest_few():
    """Codex has another tail with each call."""
    items = HeldItems(10_000, max_of_scope=3)
    items.hold(OTHER, *item(b"other"))
    for n in range(30):
        items.hold(SCOPE, *item(b"%d" % n))
    assert list(items.of(SCOPE).values()) == [b"29", b"28", b"27"]
    assert list(items.of(OTHER).values()) == [b"other"]
    assert items.bytes == 3 * 2 + 5


def test_a_forgotten_scope_leaves_the_others():
    items = HeldItems(1000)
    for scope in (SCOPE, OTHER):
        items.hold(scope, *item(b"head"))
    items.forget(SCOPE)
    items.forget(SCOPE)
    assert not items.of(SCOPE)
    assert items.of(OTHER)
    assert items.bytes == 4
    # The same bytes under another hash are another item.
    items.hold(OTHER, b"x" * 32, b"head")
    assert items.bytes == 8


# --- Health ---------------------------------------------------------------------------------------------------------


def suspended_calls(health: Health) -> int:
    count = 0
    while health.suspended():
        count += 1
    return count


def resync_three_times(health: Health) -> int:
    assert [health.resynced(), health.resynced()] == [0, 0]
    assert not health.suspended()
    return health.resynced()


def test_suspensions_double_up_to_64_calls():
    health = Health()
    assert not health.suspended()
    for expected in (8, 16, 32, 64, 64, 64):
        assert resync_three_times(health) == expected
        assert suspended_calls(health) == expected
        assert not health.suspended()


def test_an_accepted_frame_ends_the_row():
    health = Health()
    for _ in range(10):
        health.resynced()
        health.resynced()
        health.accepted()
    assert not health.suspended()


def test_an_accepted_frame_starts_the_suspensions_anew():
    health = Health()
    for expected in (8, 16, 32):
        assert resync_three_times(health) == expected
        suspended_calls(health)
    health.accepted()
    assert resync_three_times(health) == 8


def test_a_failure_that_may_be_the_frame_s_fault_sends_one_call_in_full_and_counts_in_the_row():
    health = Health()
    for expected in (1, 1, 8, 1, 1, 16):
        health.failed()
        assert suspended_calls(health) == expected


def test_histories_are_cut_at_their_messages():
    conversation = held(Body(b'{"messages":[', as_history([(b" ", b"1"), (b" , ", b"[2]")]), b" ]}"))
    assert [conversation.piece(0), conversation.piece(1)] == [b" 1", b" , [2]"]
    assert [conversation.message(0), conversation.message(1)] == [b"1", b"[2]"]
    assert (conversation.head, conversation.tail, conversation.count) == (b'{"messages":[', b" ]}", 2)
    assert conversations._MOST_REWRITTEN == 2
