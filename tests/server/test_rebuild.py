# SPDX-License-Identifier: Apache-2.0
"""Rebuilding: honest frames come to the exact body, and hostile ones to an exact refusal that leaves no trace."""

import json
import tracemalloc
from collections.abc import Generator
from typing import Any

import pytest
from history_delta_protocol import chain, scan, wire
from history_delta_protocol.dialect import CHAT, MESSAGES, RESPONSES
from history_delta_protocol.frame import HELD, Edit, Frame, Malformed, Pieces, Result, TooLarge, encode
from history_delta_server.history import HistoryLimits, HistoryStore
from history_delta_server.rebuild import (
    OVER_LIMIT,
    Rebuilt,
    Resync,
    rebuild_frame,
    rebuild_frame_in_steps,
    receive_full,
    receive_full_in_steps,
)
from support.accounting import check_server
from support.json_bodies import Body, body, said

HEAD, TAIL = b'{"model":"m","messages":[', b'],"tools":["a tool of some length"]}'
H0 = chain.start("chat")
HISTORY = [b'{"role":"system"}', b"[1, 2]", said(1), said(2), b"7"]


def names(history: list[tuple[bytes, bytes]], dialect: str = "chat") -> list[bytes]:
    """h0 and the chain value after each of the (separator, message) pairs."""
    values = [chain.start(dialect)]
    for separator, message in history:
        values.append(chain.extend(values[-1], separator, message))
    return values


def joined(messages: list[bytes]) -> list[tuple[bytes, bytes]]:
    return [(b"," if index else b"", message) for index, message in enumerate(messages)]


BASE = joined(HISTORY)
VALUES = names(BASE)


def result_of(history: list[tuple[bytes, bytes]], head: bytes = HEAD, tail: bytes = TAIL, **changed: Any) -> Result:
    whole = Body(head, tuple(history), tail)
    right = Result(len(history), names(history)[-1], chain.item_hash(head), chain.item_hash(tail), len(whole.raw))
    return right._replace(**changed)


def frame_of(**fields: Any) -> Frame:
    """A frame that changes nothing of BASE, but for ``fields``."""
    unchanged = Frame("application/json", HELD, len(BASE), VALUES[-1], [], [], HELD, result_of(BASE))
    return unchanged._replace(**fields)


class Held:
    """A rollout that holds BASE, and what it holds in all."""

    def __init__(self, store: HistoryStore) -> None:
        self.store = store
        with store.in_flight("r") as self.rollout:
            receive_full(self.rollout, CHAT, Body(HEAD, tuple(BASE), TAIL).raw)

    def rebuild(self, sent: Frame | bytes, **limits: int) -> Rebuilt:
        data = sent if isinstance(sent, bytes) else encode(sent)
        with self.store.in_flight("r") as rollout:
            return rebuild_frame(rollout, CHAT, data, **limits)

    def contents(self) -> object:
        rollout = self.rollout
        nodes = {value: (node.data, node.children, node.count) for value, node in rollout._nodes.items()}
        tally = self.store.tally
        return nodes, list(rollout._tips), dict(rollout._items), rollout.held_bytes, tally.bytes, tally.messages

    def refuses(self, sent: Frame | bytes, expected: type[Exception], **limits: int) -> Any:
        """The refusal; nothing has changed by it."""
        before = self.contents()
        with pytest.raises(expected) as refused:
            self.rebuild(sent, **limits)
        assert self.contents() == before
        check_server(self.store)
        return refused.value


@pytest.fixture
def held() -> Held:
    return Held(HistoryStore())


def test_nothing_new(held):
    rebuilt = held.rebuild(frame_of())
    assert rebuilt.body == Body(HEAD, tuple(BASE), TAIL).raw
    assert rebuilt.content_type == "application/json"
    assert rebuilt.held == (5, VALUES[-1])
    assert rebuilt.held_header == "5 " + chain.to_text(VALUES[-1])


def test_appended_messages(held):
    new = [(b" , ", said(8)), (b",", b'"x"')]
    rebuilt = held.rebuild(frame_of(append=new, result=result_of(BASE + new)))
    assert rebuilt.body == HEAD + b",".join(HISTORY) + b" , " + said(8) + b',"x"' + TAIL
    # And that can be built on.
    more = [*new, (b",", b"9")]
    on_top = frame_of(base_count=7, base_chain=names(BASE + new)[-1], append=more[2:], result=result_of(BASE + more))
    assert held.rebuild(on_top).body.endswith(b'"x",9' + TAIL)
    check_server(held.store)


def test_any_prefix_is_a_base(held):
    for count in range(6):
        shorter = frame_of(base_count=count, base_chain=VALUES[count], result=result_of(BASE[:count]))
        assert held.rebuild(shorter).body == HEAD + b",".join(HISTORY[:count]) + TAIL


def test_edits_at_both_borders_and_between(held):
    edits = [
        Edit(0, 0, [(b"", b'"before all"')]),
        Edit(1, 2, []),
        Edit(3, 1, [(b",", Pieces(3, [(0, 40), b"changed", (47, len(HISTORY[3]) - 47)])), (b", ", b"0")]),
        Edit(5, 0, [(b",", Pieces(0, [(0, len(HISTORY[0]))]))]),
    ]
    rewritten = HISTORY[3][:40] + b"changed" + HISTORY[3][47:]
    history = [
        (b"", b'"before all"'),
        BASE[0],
        (b",", rewritten),
        (b", ", b"0"),
        BASE[4],
        (b",", HISTORY[0]),
        (b",", b"8"),
    ]
    rebuilt = held.rebuild(frame_of(edits=edits, append=history[-1:], result=result_of(history)))
    assert rebuilt.body == Body(HEAD, tuple(history), TAIL).raw
    check_server(held.store)


def test_everything_removed(held):
    rebuilt = held.rebuild(frame_of(edits=[Edit(0, 5, [])], result=result_of([])))
    assert rebuilt.body == HEAD + TAIL
    assert rebuilt.held == (0, H0)


def test_head_and_tail_in_pieces(held):
    head = b'{"model":"other","messages":['
    tail = TAIL[:10] + b"," + TAIL[10:]
    sent = frame_of(
        head=Pieces(chain.item_hash(HEAD), [(0, 10), b"other", (11, len(HEAD) - 11)]),
        tail=Pieces(chain.item_hash(TAIL), [(0, 10), b",", (10, len(TAIL) - 10)]),
        result=result_of(BASE, head, tail),
    )
    assert held.rebuild(sent).body == head + b",".join(HISTORY) + tail
    again = frame_of(result=result_of(BASE, head, tail))
    assert held.rebuild(again).body == head + b",".join(HISTORY) + tail


def test_a_self_contained_frame_needs_nothing():
    store = HistoryStore()
    whole = frame_of(head=HEAD, tail=TAIL, base_count=0, base_chain=H0, append=BASE)
    with store.in_flight("new") as rollout:
        assert rebuild_frame(rollout, CHAT, encode(whole)).body == Body(HEAD, tuple(BASE), TAIL).raw
        assert rollout.message_count == 5


def test_a_frame_and_the_full_body_that_it_stands_for_have_one_identity(held):
    new = [(b",", said(8))]
    rebuilt = held.rebuild(frame_of(append=new, result=result_of(BASE + new)))
    with held.store.in_flight("other") as rollout:
        full = receive_full(rollout, CHAT, rebuilt.body)
    assert full.identity == rebuilt.identity
    with held.store.in_flight("other") as rollout:
        assert receive_full(rollout, CHAT, rebuilt.body.replace(b"model", b"madel")).identity != rebuilt.identity
        assert receive_full(rollout, MESSAGES, rebuilt.body).identity != rebuilt.identity


OTHER = chain.item_hash(b"never seen")
UNKNOWN = {
    "a base that nobody holds": (frame_of(base_chain=OTHER), "unknown-base"),
    "no such base of any length": (frame_of(base_count=0), "unknown-base"),
    "the count of another prefix": (frame_of(base_count=4), "unknown-base"),
    "a count beyond the base's": (frame_of(base_count=6), "unknown-base"),
    "h0 with a count": (frame_of(base_chain=H0, base_count=1), "unknown-base"),
    "h0 of another dialect": (frame_of(base_chain=chain.start("messages"), base_count=0), "unknown-base"),
    "the base of another dialect": (frame_of(base_chain=names(BASE, "messages")[-1]), "unknown-base"),
    "a head that nobody holds": (frame_of(result=result_of(BASE, head=OTHER)), "unknown-head"),
    "pieces of a head that nobody holds": (frame_of(head=Pieces(OTHER, [(0, 5)])), "unknown-head"),
    "a tail that nobody holds": (frame_of(result=result_of(BASE, tail=OTHER)), "unknown-tail"),
    "pieces of a tail that nobody holds": (frame_of(tail=Pieces(OTHER, [(0, 5)])), "unknown-tail"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_held_asks_for_a_resync(held, case):
    sent, reason = UNKNOWN[case]
    assert held.refuses(sent, Resync).reason == reason


def appended(**changed: Any) -> Frame:
    new = [(b",", said(8))]
    return frame_of(append=new, result=result_of(BASE + new, **changed))


MISMATCHES = {
    "count": appended(message_count=5),
    "a count far beyond": appended(message_count=wire.MAX_MESSAGES),
    "chain": appended(chain=VALUES[-1]),
    "head": frame_of(head=HEAD + b" ", result=result_of(BASE, length=len(Body(HEAD, tuple(BASE), TAIL).raw) + 1)),
    "tail": frame_of(tail=TAIL + b" ", result=result_of(BASE, length=len(Body(HEAD, tuple(BASE), TAIL).raw) + 1)),
    "one byte short": appended(length=len(Body(HEAD, (*BASE, (b",", said(8))), TAIL).raw) - 1),
    "one byte long": appended(length=len(Body(HEAD, (*BASE, (b",", said(8))), TAIL).raw) + 1),
    "length nothing": appended(length=0),
    "the length of the base": appended(length=len(Body(HEAD, tuple(BASE), TAIL).raw)),
    "other bytes of the same length": frame_of(
        append=[(b",", said(8).replace(b"8", b"9"))], result=result_of([*BASE, (b",", said(8))])
    ),
    "a separator moved into the message": frame_of(
        append=[(b"", b"," + said(8))], result=result_of([*BASE, (b",", said(8))])
    ),
    "an edit told as nothing": frame_of(result=result_of([*BASE[:4], (b",", b"8")])),
    "a message removed that is still counted": frame_of(
        edits=[Edit(4, 1, [])], result=result_of(BASE[:4], message_count=5)
    ),
    "self-contained, other chain": frame_of(
        head=HEAD, tail=TAIL, base_count=0, base_chain=H0, append=BASE, result=result_of(BASE, chain=OTHER)
    ),
    "pieces of the right length from the wrong place": frame_of(
        edits=[Edit(2, 1, [(b",", Pieces(2, [(1, len(HISTORY[2]) - 1), b"x"]))])],
        result=result_of(BASE),
    ),
}


@pytest.mark.parametrize("case", MISMATCHES)
def test_what_does_not_come_to_its_result_asks_for_a_resync(held, case):
    assert held.refuses(MISMATCHES[case], Resync).reason == "mismatch"


def pieces_out_of_range(offset: int, length: int) -> dict[str, tuple[Frame, str]]:
    """A copy that reaches behind what it copies from, in every place that may copy; the claimed length is as said."""
    head = frame_of(
        head=Pieces(chain.item_hash(HEAD), [(offset, length)]),
        result=result_of(BASE, length=len(Body(HEAD, tuple(BASE), TAIL).raw) - len(HEAD) + length),
    )
    tail = frame_of(
        tail=Pieces(chain.item_hash(TAIL), [(offset, length)]),
        result=result_of(BASE, length=len(Body(HEAD, tuple(BASE), TAIL).raw) - len(TAIL) + length),
    )
    message = frame_of(
        edits=[Edit(1, 1, [(b",", b"0"), (b",", Pieces(4, [(offset, length)]))])],
        result=result_of(BASE, length=len(Body(HEAD, tuple(BASE), TAIL).raw) - len(HISTORY[1]) + 2 + length),
    )
    return {"head.pieces": head, "tail.pieces": tail, "edits[0][2][1][1].pieces": message}


@pytest.mark.parametrize("offset_and_length", [(0, 10_000), (10_000, 1), (2**53 - 1, 1), (1, 100_000_000)])
@pytest.mark.parametrize("field", ["head.pieces", "tail.pieces", "edits[0][2][1][1].pieces"])
def test_a_copy_beyond_its_source_is_malformed(held, field, offset_and_length):
    sent = pieces_out_of_range(*offset_and_length)[field]
    before = memory_peak_of(lambda: held.refuses(sent, Malformed))
    assert before[1].field in (field, field.removesuffix(".pieces"))
    # A copy of a hundred megabytes was not even begun.
    assert before[0] < 1_000_000


def memory_peak_of(act: Any) -> tuple[int, Any]:
    tracemalloc.start()
    try:
        made = act()
        return tracemalloc.get_traced_memory()[1], made
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def large() -> Held:
    """A rollout with a head of a megabyte and a message of a megabyte."""
    held = Held(HistoryStore())
    with held.store.in_flight("r") as rollout:
        receive_full(rollout, CHAT, LARGE_HEAD + LARGE_MESSAGE + TAIL)
    return held


LARGE_HEAD = b'{"x":"%s","messages":[' % (b"h" * 1_000_000)
LARGE_MESSAGE = b'"%s"' % (b"m" * 1_000_000)
ALL_OF_IT = [(0, 1_000_000)] * wire.MAX_PIECES
LARGE_VALUE = chain.extend(H0, b"", LARGE_MESSAGE)


@pytest.mark.parametrize("length", [0, 1000, 64_000_000 - 1, 64_000_001])
@pytest.mark.parametrize("place", ["head", "tail", "message"])
def test_a_frame_that_lies_about_a_multiplied_length_copies_nothing(large, place, length):
    """A few hundred bytes name 64 MB: what they come to is checked before they are copied."""
    many = Pieces(chain.item_hash(LARGE_HEAD), ALL_OF_IT)
    fields: dict[str, Any] = {place: many} if place != "message" else {}
    edits = [Edit(0, 1, [(b"", Pieces(0, ALL_OF_IT))])] if place == "message" else []
    sent = frame_of(base_count=1, base_chain=LARGE_VALUE, edits=edits, result=result_of(BASE, length=length), **fields)
    assert len(encode(sent)) < 2000
    peak, refused = memory_peak_of(lambda: large.refuses(sent, Resync))
    assert refused.reason == "mismatch"
    assert peak < 1_000_000


def test_a_multiplied_length_over_the_limit_is_refused_by_its_number(large):
    many = Pieces(chain.item_hash(LARGE_HEAD), ALL_OF_IT)
    sent = frame_of(head=many, result=result_of(BASE, length=64_000_000))
    peak, refused = memory_peak_of(lambda: large.refuses(sent, TooLarge, max_body=63_000_000))
    assert (refused.limit, refused.setting) == (63_000_000, "max_body_bytes")
    assert peak < 1_000_000


def test_a_long_line_is_refused_before_it_is_read(held):
    sent = appended()
    size = encode(sent).index(b"\n")
    assert held.rebuild(sent, max_line=size).held
    refused = held.refuses(sent, TooLarge, max_line=size - 1)
    assert refused.setting == "max_frame_line_bytes"


def raw(**members: Any) -> bytes:
    line = json.loads(encode(frame_of()).split(b"\n")[0])
    line.update(members)
    return json.dumps(line).encode() + b"\n"


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        (raw(edits=[[5, 1, []]]), "edits[0][1]"),
        (raw(edits=[[6, 0, [[0, 1]]]]) + b"1", "edits[0][0]"),
        (raw(edits=[[0, 2, []], [1, 1, []]]), "edits[1][0]"),
        (raw(edits=[[1, 0, [[0, 1]]], [1, 1, []]]) + b"1", "edits[1][0]"),
        (raw(edits=[[2, 1, []], [0, 1, []]]), "edits[1][0]"),
        (raw(edits=[[0, 6, []]]), "edits[0][1]"),
        (raw(edits=[[-1, 1, []]]), "edits[0][0]"),
        (raw(edits=[[1, 0, []]]), "edits[0]"),
        (raw(edits=[[0, 1, [[0, {"of": 5, "pieces": [[0, 1]]}]]]]), "edits[0][2][0][1].of"),
        (raw(edits=[[0, 1, [[0, {"of": 0, "pieces": [[0, 1]] * 65}]]]]), "edits[0][2][0][1].pieces"),
        (raw(append=[[1, 100]]) + b",1", "append[0][1]"),
        (raw() + b"left", "literals"),
        (raw(base=[True, chain.to_text(VALUES[-1])]), "base[0]"),
        (encode(frame_of())[:-1], "line"),
        (b"", "line"),
        (b"[" * 60_000 + b"\n", "line"),
    ],
)
def test_what_breaks_the_grammar_is_malformed(held, sent, field):
    assert held.refuses(sent, Malformed).field == field


def test_another_rollout_is_another_world(held):
    with held.store.in_flight("other") as rollout:
        with pytest.raises(Resync, match="unknown-base"):
            rebuild_frame(rollout, CHAT, encode(frame_of()))
        whole = frame_of(base_count=0, base_chain=H0, append=BASE)
        with pytest.raises(Resync, match="unknown-head"):
            rebuild_frame(rollout, CHAT, encode(whole))
        assert rollout.message_count == 0


@pytest.mark.parametrize("dialect", [CHAT, RESPONSES, MESSAGES])
def test_a_full_body_is_held_by_its_chain(dialect):
    whole = body(*HISTORY, target="/v1" + dialect.suffix).raw
    with HistoryStore().in_flight("r") as rollout:
        rebuilt = receive_full(rollout, dialect, whole)
        assert rebuilt.body is whole
        assert rebuilt.held == (5, names(BASE, dialect.name)[-1])
        assert rebuilt.content_type is rebuilt.reason is None
        split = scan.split(whole, dialect.history_key)
        assert rollout.item(chain.item_hash(whole[: split.head_end]))
        assert rollout.item(chain.item_hash(whole[split.tail_start :]))


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"no json", scan.NOT_JSON),
        (b"", scan.NOT_JSON),
        (b'{"input":"a string"}', scan.NO_HISTORY),
        (b'{"messages":[1,2', scan.NOT_JSON),
        (b'{"messages":[%s]}' % (b"[" * 600 + b"]" * 600), scan.TOO_DEEP),
    ],
)
def test_a_body_that_is_not_understood_is_not_held_and_no_error(sent, reason):
    store = HistoryStore()
    with store.in_flight("r") as rollout:
        rebuilt = receive_full(rollout, CHAT, sent)
        assert (rebuilt.body, rebuilt.held, rebuilt.held_header, rebuilt.reason) == (sent, None, None, reason)
        assert rollout.message_count == 0
        assert not rollout._items
        assert rebuilt.identity != receive_full(rollout, CHAT, sent + b" ").identity


@pytest.mark.parametrize("length", [10, 1000])
def test_only_what_is_new_is_hashed(monkeypatch, length):
    history = joined([said(n) for n in range(length)])
    store = HistoryStore()
    with store.in_flight("r") as rollout:
        receive_full(rollout, CHAT, Body(HEAD, tuple(history), TAIL).raw)
        new = (b",", said(5000))
        sent = frame_of(
            base_count=length, base_chain=names(history)[-1], append=[new], result=result_of([*history, new])
        )
        hashed = []
        real = chain.begin
        monkeypatch.setattr(chain, "begin", lambda *args: hashed.append(args) or real(*args))
        assert rebuild_frame(rollout, CHAT, encode(sent)).held == (length + 1, sent.result.chain)
        assert len(hashed) == 1


MEGABYTES = [(b"", said(1))] + [(b",", b'"%d%s"' % (n, b"m" * 1_000_000)) for n in range(6)]


def an_early_edit(store: HistoryStore) -> tuple[bytes, bytes]:
    """A small frame that has to hash all of a large history anew, and its body."""
    with store.in_flight("r") as rollout:
        receive_full(rollout, CHAT, Body(HEAD, tuple(MEGABYTES), TAIL).raw)
    changed = [(b"", said(2)), *MEGABYTES[1:]]
    edit = Edit(0, 1, [(b"", said(2))])
    sent = frame_of(base_count=7, base_chain=names(MEGABYTES)[-1], edits=[edit], result=result_of(changed))
    return encode(sent), Body(HEAD, tuple(changed), TAIL).raw


def the_rest_of(steps: Generator[None, None, Rebuilt]) -> Rebuilt:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def test_a_small_frame_that_makes_much_work_gives_control_back():
    store = HistoryStore()
    data, expected = an_early_edit(store)
    assert len(data) < 1500
    with store.in_flight("r") as rollout:
        before = rollout.message_count
        steps = rebuild_frame_in_steps(rollout, CHAT, data)
        for _ in range(3):
            next(steps)
            assert rollout.message_count == before
        assert the_rest_of(steps).body == expected


def test_one_large_message_gives_control_back_while_it_is_hashed():
    store = HistoryStore()
    first, large = (b"", said(1)), (b",", b'"%s"' % (b"x" * 8_000_000))
    grown = [first, large]
    data = encode(frame_of(base_count=1, base_chain=names([first])[-1], append=[large], result=result_of(grown)))
    with store.in_flight("r") as rollout:
        receive_full(rollout, CHAT, Body(HEAD, (first,), TAIL).raw)
        steps = rebuild_frame_in_steps(rollout, CHAT, data)
        for _ in range(7):
            next(steps)
        assert the_rest_of(steps).body == Body(HEAD, tuple(grown), TAIL).raw


@pytest.mark.parametrize("again", [False, True])
def test_a_base_let_go_of_between_two_steps_is_stored_anew(again):
    """Another call of the rollout runs in between, and needs the room."""
    store = HistoryStore(HistoryLimits(rollout_bytes=10_000_000))
    base = joined([said(n) for n in range(5)])
    grown = [*base, *MEGABYTES[1:4], (b",", b"1")]
    with store.in_flight("r") as rollout:
        receive_full(rollout, CHAT, Body(HEAD, tuple(base), TAIL).raw)
        sent = frame_of(base_count=5, base_chain=names(base)[-1], append=grown[5:], result=result_of(grown))
        steps = rebuild_frame_in_steps(rollout, CHAT, encode(sent))
        next(steps)
        for filler in (b"x", b"y"):
            receive_full(rollout, CHAT, body(*(b'"%d%s"' % (n, filler * 1_000_000) for n in range(6))).raw)
        assert rollout.node(names(base)[-1]) is None
        if again:
            receive_full(rollout, CHAT, Body(HEAD, tuple(base), TAIL).raw)
        rebuilt = the_rest_of(steps)
        assert rebuilt.body == Body(HEAD, tuple(grown), TAIL).raw
        assert rebuilt.held == (9, names(grown)[-1])
        assert [node.data for node in rollout.lineage(rollout.node(names(grown)[-1]))] == [a + b for a, b in grown]
    check_server(store)


def test_many_bytes_of_one_large_message_cost_themselves():
    """A frame of 47 kB that takes 1,500 times one byte of a large message: were the message copied each time, that
    would be 15 GB, and its peak shows already."""
    held = Held(HistoryStore())
    base = [(b"", b"0"), (b",", b'"%s"' % (b"m" * 10_000_000))]
    with held.store.in_flight("r") as rollout:
        receive_full(rollout, CHAT, Body(HEAD, tuple(base), TAIL).raw)
    inserts = [(b",", Pieces(1, [(1, 1)])) for _ in range(1500)]
    # Without the large message itself, so that no copy of it is needed.
    new = [base[0], *[(b",", b"m")] * 1500]
    sent = frame_of(base_count=2, base_chain=names(base)[-1], edits=[Edit(1, 1, inserts)], result=result_of(new))
    peak, rebuilt = memory_peak_of(lambda: held.rebuild(sent))
    assert rebuilt.body == Body(HEAD, tuple(new), TAIL).raw
    assert peak < 5_000_000


def test_pieces_of_a_message_do_not_reach_into_its_separator():
    held = Held(HistoryStore())
    base = [(b"", b"0"), (b"   ,   ", b'"abc"')]
    with held.store.in_flight("r") as rollout:
        receive_full(rollout, CHAT, Body(HEAD, tuple(base), TAIL).raw)

    def edited(*parts) -> Frame:
        new = [base[0], (b",", b'"abc"')]
        edit = Edit(1, 1, [(b",", Pieces(1, list(parts)))])
        return frame_of(base_count=2, base_chain=names(base)[-1], edits=[edit], result=result_of(new))

    assert held.rebuild(edited((0, 3), b'c"')).body.endswith(b'[0,"abc"' + TAIL)
    assert held.refuses(edited((1, 5)), Malformed).field == "edits[0][2][0][1].pieces"


def test_a_body_is_admitted_before_a_byte_of_it_is_copied(large):
    many = Pieces(chain.item_hash(LARGE_HEAD), ALL_OF_IT)
    whole = result_of([(b"", LARGE_MESSAGE)], length=64_000_000 + len(LARGE_MESSAGE) + len(TAIL))
    sent = encode(frame_of(head=many, base_count=1, base_chain=LARGE_VALUE, result=whole))
    admitted = []

    def admit(length: int) -> None:
        admitted.append(length)
        raise MemoryError

    def try_it() -> None:
        with large.store.in_flight("r") as rollout, pytest.raises(MemoryError):
            next(rebuild_frame_in_steps(rollout, CHAT, sent, admit=admit))

    before = large.contents()
    assert memory_peak_of(try_it)[0] < 1_000_000
    assert admitted == [whole.length]
    assert large.contents() == before


def test_a_full_body_gives_control_back_between_messages():
    with HistoryStore().in_flight("r") as rollout:
        steps = receive_full_in_steps(rollout, CHAT, Body(HEAD, tuple(BASE), TAIL).raw)
        # The member before the history, the history's beginning, and its messages.
        for _ in range(2 + len(BASE)):
            next(steps)
            # Nothing is held before all is.
            assert rollout.message_count == 0
        with pytest.raises(StopIteration) as done:
            next(steps)
        assert done.value.value.held == (5, VALUES[-1])


def test_what_does_not_fit_is_not_said_to_be_held():
    store = HistoryStore(HistoryLimits(rollout_bytes=2000))
    whole = Body(HEAD, tuple(joined([said(n) for n in range(5)])), TAIL).raw
    with store.in_flight("r") as rollout:
        rebuilt = receive_full(rollout, CHAT, whole)
        assert (rebuilt.body, rebuilt.held, rebuilt.reason) == (whole, None, OVER_LIMIT)
        assert rollout.message_count == 0
    check_server(store)


def test_the_base_may_go_while_what_is_built_on_it_stays():
    """A history at the edge of the limit: its last call is held, and complete."""
    store = HistoryStore(HistoryLimits(rollout_bytes=8000))
    history = joined([said(1)])
    with store.in_flight("r") as rollout:
        receive_full(rollout, CHAT, Body(HEAD, tuple(history), TAIL).raw)
        for number in range(2, 30):
            base, new = names(history), (b",", said(number))
            known = rollout.node(base[-1]) is not None
            sent = frame_of(
                base_count=len(history), base_chain=base[-1], append=[new], result=result_of([*history, new])
            )
            history.append(new)
            if not known:
                with pytest.raises(Resync, match="unknown-base"):
                    rebuild_frame(rollout, CHAT, encode(sent))
                break
            rebuilt = rebuild_frame(rollout, CHAT, encode(sent))
            assert rebuilt.body == Body(HEAD, tuple(history), TAIL).raw
            assert (rebuilt.held is not None) == (rollout.node(names(history)[-1]) is not None)
    assert number > 5
    check_server(store)


def test_a_rollout_with_room_holds_what_it_rebuilds_in_one_copy(held):
    """Rebuilding the same again adds nothing."""
    before = held.contents()
    for _ in range(3):
        held.rebuild(frame_of())
        held.rebuild(frame_of(head=HEAD, tail=TAIL, base_count=0, base_chain=H0, append=BASE))
    assert held.contents() == before
