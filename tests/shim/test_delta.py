# SPDX-License-Identifier: Apache-2.0
"""What a frame costs and what planning it costs, by counting bytes and calls; never by a clock."""

import json
import random
import sys
from collections import Counter
from dataclasses import replace

import pytest
from history_delta_protocol import chain, frame, pieces, values
from history_delta_protocol.dialect import CHAT, MESSAGES, RESPONSES, Dialect
from history_delta_protocol.frame import HELD, Frame, Pieces
from history_delta_shim import delta
from history_delta_shim.conversations import Conversation
from history_delta_shim.delta import TakenApart, build_frame, take_apart
from support import json_bodies
from support.json_bodies import Body, as_history, body, said, text

DIALECTS = {json_bodies.CHAT: CHAT, json_bodies.RESPONSES: RESPONSES, json_bodies.MESSAGES: MESSAGES}
CONTENT_TYPE = "application/json"


def taken_after(new: Body, *before: Body, dialect: Dialect = CHAT) -> TakenApart:
    scope = (dialect.name, "", "r")
    held = [take_apart(scope, dialect, old.raw, []).conversation for old in reversed(before)]
    return take_apart(scope, dialect, new.raw, held)


def frame_after(new: Body, *before: Body, dialect: Dialect = CHAT) -> Frame:
    """The frame for ``new``, where the server holds ``before``, the most recent last."""
    taken = taken_after(new, *before, dialect=dialect)
    heads = {chain.item_hash(old.head): old.head for old in reversed(before)}
    tails = {chain.item_hash(old.tail): old.tail for old in reversed(before)}
    built = build_frame(taken, CONTENT_TYPE, heads, tails)
    check_against(built, new, before, dialect)
    return built


def check_against(built: Frame, new: Body, before: tuple[Body, ...], dialect: Dialect) -> None:
    """A frame rebuilds to the body, by the rules alone and by plain means."""
    by_chain: dict[bytes, tuple[tuple[tuple[bytes, bytes], ...], int]] = {}
    for old in before:
        values = [chain.start(dialect.name)]
        for separator, message in old.history:
            values.append(chain.extend(values[-1], separator, message))
        by_chain.update({value: (old.history, count) for count, value in enumerate(values)})
    base_history, base_count = by_chain.get(built.base_chain, ((), 0))
    base = list(base_history[:base_count])
    assert len(base) == built.base_count
    history, position = [], 0
    for edit in built.edits:
        history += base[position : edit.at]
        for separator, message in edit.insert:
            source = base[message.source][1] if isinstance(message, Pieces) else b""
            history.append((separator, pieces.apply(source, message.pieces) if source else message))
        position = edit.at + edit.remove
    history += base[position:] + built.append
    assert tuple(history) == new.history
    items = {chain.item_hash(item): item for old in before for item in (old.head, old.tail)}
    for item, digest, expected in [
        (built.head, built.result.head, new.head),
        (built.tail, built.result.tail, new.tail),
    ]:
        if isinstance(item, Pieces):
            item = pieces.apply(items[item.source], item.pieces)
        assert (items[digest] if item == HELD else item) == expected
    assert built.result.length == len(new.raw)
    assert frame.decode(frame.encode(built), len(new.raw)) == built


def cost(new: Body, *before: Body, dialect: Dialect = CHAT) -> int:
    """Bytes of the whole frame, line and literals, uncompressed."""
    return len(frame.encode(frame_after(new, *before, dialect=dialect)))


def size(*messages: bytes) -> int:
    return sum(len(message) + 1 for message in messages)


# What a call costs beside what is new in it.
FIXED = 400
LONG = body(*(said(n, 3000) for n in range(40)), tail=b'],"tools":[%s]}' % (b'{"a tool":1},' * 700 + b"0"))


@pytest.mark.parametrize("target", DIALECTS)
@pytest.mark.parametrize("new", [[said(100, 50)], [said(101, 30_000)], [said(n, 300) for n in range(100, 104)]])
def test_appending_costs_what_is_appended(target, new):
    before = body(*(said(n, 3000) for n in range(40)), target=target)
    after = before.and_then(*new)
    built = frame_after(after, before, dialect=DIALECTS[target])
    assert (built.base_count, built.edits, len(built.append)) == (40, [], len(new))
    assert len(frame.encode(built)) <= size(*new) + FIXED


def test_nothing_new_costs_the_line():
    assert cost(LONG, LONG) <= FIXED


def test_the_line_beside_the_appended_bytes_stays_under_its_bound_for_long_histories():
    before = body(*(b"%d" % n for n in range(99_000)))
    assert cost(before.and_then(said(1)), before) <= size(said(1)) + FIXED


@pytest.mark.parametrize("marked", [1, 2])
def test_a_moving_mark_costs_the_mark_not_the_message(marked):
    """The anthropic dialect's cache_control stands at the newest messages, and moves on with every call."""

    def call(count: int) -> Body:
        contents = [said(n, 6000)[40:-2] for n in range(count)]
        return body(
            *(text(content, n >= count - marked) for n, content in enumerate(contents)), target=json_bodies.MESSAGES
        )

    before, after = call(20), call(22)
    appended = [message for _, message in after.history[20:]]
    built = frame_after(after, before, dialect=MESSAGES)
    assert built.base_count == 20
    assert [edit.remove for edit in built.edits] == [marked]
    assert len(frame.encode(built)) <= size(*appended) + FIXED + 120 * marked


def test_a_mark_that_leaves_the_only_message_costs_the_mark():
    """The first call of all has but one message, and the mark on it."""
    long = said(1, 6000)[40:-2]
    before = body(text(long, marked=True), target=json_bodies.MESSAGES)
    after = body(text(long, marked=False), said(2, 300), text(said(3)[40:-2], True), target=json_bodies.MESSAGES)
    appended = [message for _, message in after.history[1:]]
    other = body(said(70), said(71), target=json_bodies.MESSAGES)
    assert cost(after, before, other, dialect=MESSAGES) <= size(*appended) + FIXED + 120


def test_a_rewritten_last_message_that_shares_nothing_costs_itself():
    after = LONG.having(*(message for _, message in LONG.history[:-1]), said(99, 3000)).and_then(said(100, 100))
    built = frame_after(after, LONG)
    assert (built.base_count, built.edits) == (39, [])
    assert len(frame.encode(built)) <= size(said(99, 3000), said(100, 100)) + FIXED


def test_a_pruned_old_message_costs_its_replacement():
    pruned = b'{"role":"tool","content":"[old output cleared]"}'
    messages = [message for _, message in LONG.history]
    after = LONG.having(*messages[:5], pruned, *messages[6:], said(100, 100))
    built = frame_after(after, LONG)
    assert (built.base_count, [(edit.at, edit.remove) for edit in built.edits]) == (40, [(5, 1)])
    assert len(frame.encode(built)) <= size(pruned, said(100, 100)) + FIXED


def test_several_old_messages_changed_cost_what_is_new_of_each():
    messages = [message for _, message in LONG.history]
    for index in (3, 17, 30):
        messages[index] = messages[index].replace(b'"user"', b'"assistant"', 1)
    del messages[25]
    messages[10:10] = [said(90, 500)]
    after = LONG.having(*messages).and_then(said(100, 100))
    assert cost(after, LONG) <= size(said(90, 500), said(100, 100)) + FIXED + 5 * 100


def test_the_first_message_changed_costs_itself():
    """A system prompt that tells the time."""
    after = LONG.having(said(90, 2000), *(message for _, message in LONG.history[1:])).and_then(said(100, 100))
    other = body(said(70), said(71))
    assert cost(after, LONG, other) <= size(said(90, 2000), said(100, 100)) + FIXED


@pytest.mark.parametrize("keep", [0, 1, 7, 39])
def test_truncation_costs_the_line(keep):
    after = LONG.having(*(message for _, message in LONG.history[:keep]))
    assert cost(after, LONG) <= FIXED
    assert cost(after.and_then(said(100, 500)), LONG) <= size(said(100, 500)) + FIXED


@pytest.mark.parametrize(("first", "final"), [(1, 0), (4, 0), (4, 6), (0, 3)])
def test_compaction_costs_the_summary(first, final):
    """The first messages survive, or some of the last, or both."""
    messages = [message for _, message in LONG.history]
    after = LONG.having(*messages[:first], said(90, 2500), *messages[40 - final :])
    assert cost(after, LONG) <= size(said(90, 2500)) + FIXED


def metadata_member(order: list[int]) -> bytes:
    """Codex's client_metadata: twelve members of 1.3 kB in all, one of them JSON in a string."""
    turn = json.dumps(
        {
            "session_id": "019a8f3e-58f1-7a20-9d6e-1f0d3c7b2a44",
            "thread_id": "019a8f3e-58f1-7a20-9d6e-1f0d3c7b2a44",
            "turn_id": "019a8f3e-6012-7c51-8b1f-aa5290d1e6f3",
            "request_kind": "turn",
            "workspaces": {"/workspace": {"latest_git_commit_hash": "5f2c0f0e5b6d6d1a2f0f4f2c8d9e7b6a5c4d3e2f"}},
            "permissions": {"filesystem": {"read": ["/"], "write": ["/workspace", "/tmp"]}, "network": "restricted"},
            "parent_thread_id": "019a8f3e-4e02-7d11-9b5c-3bb0a2c4d5e6",
            "source": {"subagent": {"kind": "review", "depth": 1, "nickname": "a careful second pair of eyes"}},
        },
        separators=(",", ":"),
    )
    members = [
        ("x-codex-turn-metadata", turn),
        ("x-codex-window-id", "019a8f3e-58f1-7a20-9d6e-1f0d3c7b2a44:0"),
        ("x-codex-installation-id", "4c0d52f2-f7a4-45e7-b2ad-5c4f9d2a8e10"),
        ("session_id", "019a8f3e-58f1-7a20-9d6e-1f0d3c7b2a44"),
        ("thread_id", "019a8f3e-58f1-7a20-9d6e-1f0d3c7b2a44"),
        ("x-codex-beta-features", "multi_agent,apply_patch_freeform,view_image_tool"),
        ("originator", "codex_exec"),
        ("user_agent", "codex_exec/0.171.0 (Linux 6.1.0; x86_64) xterm-256color"),
        ("sandbox_policy", json.dumps({"mode": "danger-full-access", "network_access": True})),
        ("approval_policy", "never"),
        ("x-codex-parent-thread-id", "019a8f3e-4e02-7d11-9b5c-3bb0a2c4d5e6"),
        ("x-openai-subagent", "collab_spawn, third of three, with a budget of 120000 tokens"),
    ]
    told = [json.dumps(members[place][0]) + ":" + json.dumps(members[place][1]) for place in order]
    return b'"client_metadata":{' + ",".join(told).encode() + b"}"


def test_shuffled_metadata_at_the_end_of_the_envelope_costs_little_more_than_its_order():
    tools = b",".join(
        b'{"type":"function","name":"tool_%d","description":"%s","parameters":{"type":"object"}}' % (n, b"does. " * 62)
        for n in range(17)
    )
    rng = random.Random(5)
    before = None
    for call in range(12):
        order = rng.sample(range(12), 12)
        tail = b'],"tools":[%s],"store":false,%s}' % (tools, metadata_member(order))
        assert len(tail) > 8500
        assert 1250 < len(metadata_member(order)) < 1450
        messages = [said(n, 2000) for n in range(3 + call)]
        after = body(*messages, target=json_bodies.RESPONSES, tail=tail)
        if before is not None:
            assert cost(after, before, dialect=RESPONSES) <= size(messages[-1]) + FIXED + 350
        before = after


def test_a_changing_number_in_the_head_costs_bytes_of_the_head():
    before = replace(LONG, head=b'{"model":"m","max_tokens":31999,"messages":[')
    after = replace(LONG, head=b'{"model":"m","max_tokens":3071,"messages":[').and_then(said(100, 100))
    assert cost(after, before) <= size(said(100, 100)) + FIXED
    # And in a head that holds 20 kB of system prompt, as the anthropic dialect's does.
    system = b'{"model":"m","system":"%s","max_tokens":%%d,"messages":[' % said(1, 20_000).replace(b'"', b"'")
    before, after = replace(LONG, head=system % 31999), replace(after, head=system % 3071)
    assert cost(after, before) <= size(said(100, 100)) + FIXED


def test_another_envelope_of_the_same_conversation_is_not_sent_twice():
    """A call without tools in between: both tails stay held."""
    side = replace(LONG, tail=b"]}").and_then(said(90))
    assert cost(LONG.and_then(said(91)), LONG, side) <= size(said(91)) + FIXED


def test_the_deepest_of_many_bases_is_taken():
    forks = [LONG.and_then(said(100 + n, 2000), said(200 + n, 2000)) for n in range(20)]
    for n in (0, 7, 19):
        assert cost(forks[n].and_then(said(300)), *forks) <= size(said(300)) + FIXED


@pytest.mark.parametrize("seed", range(6))
def test_messages_moved_about_come_out_right(seed):
    """Repeated, moved, removed and rewritten messages: right, whatever the cost."""
    rng = random.Random(seed)
    messages = [said(n % 12, 200) for n in range(25)]
    before = body(*messages)
    for _ in range(30):
        changed = list(messages)
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(changed))
            changed[at : at + rng.randint(0, 3)] = [said(rng.randrange(14), 200) for _ in range(rng.randint(0, 2))]
            if rng.random() < 0.3:
                changed.insert(rng.randrange(len(changed) + 1), changed.pop(rng.randrange(len(changed))))
        after = Body(
            before.head, as_history([(rng.choice([b",", b", "]), message) for message in changed]), before.tail
        )
        frame_after(after, before)


# --- what planning costs ----------------------------------------------------------------------------------------------


class Work:
    """Counts what planning does: values scanned, bytes hashed, bytes decoded, conversations compared."""

    def __init__(self, monkeypatch) -> None:
        self.counts: Counter[str] = Counter()
        scan_value, extend_over, is_harmless = values._scan_value, chain.extend_over, values._is_harmless

        def counting_scan(text, position):
            self.counts["scanned"] += 1
            return scan_value(text, position)

        def counting_extend(value, body, position, starts, ends):
            self.counts["hashed"] += ends[-1] - position if len(ends) else 0
            return extend_over(value, body, position, starts, ends)

        def counting_harmless(region, levels):
            self.counts["decoded"] += len(region)
            return is_harmless(region, levels)

        monkeypatch.setattr(values, "_scan_value", counting_scan)
        monkeypatch.setattr(chain, "extend_over", counting_extend)
        monkeypatch.setattr(values, "_is_harmless", counting_harmless)
        monkeypatch.setattr(Conversation, "shared_with", self._counted(Conversation.shared_with, "compared"))

    def _counted(self, function, name):
        def counted(*args):
            self.counts[name] += 1
            return function(*args)

        return counted


@pytest.mark.parametrize("length", [10, 300, 3000])
@pytest.mark.parametrize("new", [1, 4])
def test_planning_an_append_looks_at_what_is_appended(monkeypatch, length, new):
    before = body(*(said(n, 1000) for n in range(length)))
    appended = [said(9000 + n, 500) for n in range(new)]
    after = before.and_then(*appended).raw
    held = [take_apart(("chat", "", "r"), CHAT, before.raw, []).conversation]
    work = Work(monkeypatch)
    take_apart(("chat", "", "r"), CHAT, after, held)
    assert work.counts["scanned"] == new
    assert work.counts["hashed"] == size(*appended)
    assert work.counts["decoded"] <= size(*appended) + len(before.tail)
    assert work.counts["compared"] == 1


def test_a_new_head_is_found_without_decoding_the_history(monkeypatch):
    before = body(*(said(n, 1000) for n in range(2000)), head=b'{"max_tokens":1,"')
    held = [take_apart(("chat", "", "r"), CHAT, before.raw, []).conversation]
    after = replace(before, head=before.head.replace(b"1", b"2")).and_then(said(1))
    work = Work(monkeypatch)
    take_apart(("chat", "", "r"), CHAT, after.raw, held)
    assert work.counts["decoded"] <= values.MAX_MARKS + size(said(1)) + len(before.tail)


def calls_of(act) -> Counter[str]:
    """How often ``act`` calls which functions, those of C included."""
    calls: Counter[str] = Counter()

    def profile(frame, event, argument):
        if event in ("call", "c_call"):
            calls[frame.f_code.co_name if event == "call" else argument.__name__] += 1

    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def test_planning_and_building_takes_as_many_steps_for_any_length_of_history():
    def steps(length: int) -> int:
        before = body(*(said(n, 1000) for n in range(length)))
        after = before.and_then(said(9000), said(9001)).raw
        held = [take_apart(("chat", "", "r"), CHAT, before.raw, []).conversation]
        items = [{chain.item_hash(item): item} for item in (before.head, before.tail)]
        scope = ("chat", "", "r")
        return calls_of(lambda: build_frame(take_apart(scope, CHAT, after, held), CONTENT_TYPE, *items)).total()

    # The common prefix is compared by 64 kB, and its end found by halving: a few steps for each.
    assert steps(3000) - steps(300) <= 12 * (3000 - 300) * 1000 // 65536
    assert steps(300) < 400


HOSTILE = {
    "fragments that are nearly there": (
        b"x" * 20 + b"a" * 16_000 + b"y" * 20,
        b"x" * 20 + b",".join([b"a" * 15 + b"b"] * 900) + b"y" * 20,
    ),
    "one fragment many times": (
        b"x" * 20 + b",".join([b"a" * 20] * 700) + b"y" * 20,
        b"x" * 20 + b",".join([b"a" * 20, b"b" * 20] * 350) + b"y" * 20,
    ),
    "short ones": (
        b"x" * 20 + b"," * 16_000 + b"y" * 20,
        b"x" * 20 + b"1," * 8_000 + b"y" * 20,
    ),
    "nearly the same": (
        b"x" * 20 + b"ab" * 8_000 + b"y" * 20,
        b"x" * 20 + b"ba" * 8_000 + b"y" * 20,
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_rewritten_messages_of_any_shape_are_compared_in_linear_steps(case):
    """An agent that wants its own shim to be slow. (Searching each fragment in all of the old message took seconds.)"""
    old, new = HOSTILE[case]

    def steps(count: int) -> int:
        before = body(b"0", *[b'"%s"' % old] * count)
        after = body(b"0", *[b'"%s"' % new] * count)
        return calls_of(lambda: frame_after(after, before)).total()

    fragments = max(old.count(b","), new.count(b",")) + 100
    assert steps(4) <= 4 * 40 * fragments


@pytest.mark.parametrize("case", HOSTILE)
def test_no_step_of_a_search_walks_over_all_of_the_old_message(case):
    """The steps are linear in number; these would not be in length."""
    calls = calls_of(lambda: pieces.diff(*HOSTILE[case]))
    assert calls["finditer"] == 2
    assert not calls.keys() & {"find", "index", "count", "replace", "split"}


def test_many_small_messages_all_moved_take_linear_steps():
    def steps(count: int) -> int:
        before = body(b"0", *(b"%d" % n for n in range(count)))
        after = body(b"0", *(b"%d" % (count - n) for n in range(count)))
        return calls_of(lambda: taken_frame(after, before)).total()

    assert steps(4000) <= 2.5 * steps(2000)


def taken_frame(new: Body, before: Body) -> Frame:
    return build_frame(taken_after(new, before), CONTENT_TYPE, {}, {})


def test_few_sources_are_tried_for_a_new_tail(monkeypatch):
    tails = {chain.item_hash(b"%d" % n): b"%060d" % n for n in range(50)}
    tried = []
    real = pieces.diff
    monkeypatch.setattr(pieces, "diff", lambda *args: tried.append(args) or real(*args))
    build_frame(taken_after(replace(LONG, tail=b'],"new":1}'), LONG), CONTENT_TYPE, {}, tails)
    assert len(tried) == delta._MOST_SOURCES
