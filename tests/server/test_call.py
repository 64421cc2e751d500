# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from history_delta_server.call import Call, EarlyClose, Framing, Head, State

HEAD = Head(200, b"OK", [], Framing.CHUNKED)
WINDOW = 256 * 1024


@dataclass
class Timers:
    """Stands where the event loop's timers would: they fire when a test says so."""

    waiting: dict[int, tuple[float, Callable[[], object]]] = field(default_factory=dict)
    count: int = 0

    def __call__(self, seconds: float, action: Callable[[], object]) -> "Timer":
        self.count += 1
        self.waiting[self.count] = (seconds, action)
        return Timer(self, self.count)

    def fire(self) -> None:
        for number in list(self.waiting):
            self.waiting.pop(number)[1]()


@dataclass
class Timer:
    timers: Timers
    number: int

    def cancel(self) -> None:
        self.timers.waiting.pop(self.number, None)


@pytest.fixture
def timers() -> Timers:
    return Timers()


def cancellable(call: Call) -> list[str]:
    cancelled: list[str] = []
    call.cancel = lambda: cancelled.append("cancelled")
    return cancelled


async def everything(reader) -> bytes:
    return b"".join([data async for data in reader])


async def test_a_reader_gets_the_head_then_each_piece_as_it_comes_then_the_end(timers: Timers) -> None:
    call = Call(timers)
    with call.join() as reader:
        waiting = asyncio.ensure_future(reader.head())
        await asyncio.sleep(0)
        assert not waiting.done()
        call.start(HEAD)
        assert await waiting is HEAD
        call.append(b"one")
        assert await anext(reader) == b"one"
        waiting_piece = asyncio.ensure_future(anext(reader))
        await asyncio.sleep(0)
        assert not waiting_piece.done()
        call.append(b"two")
        assert await waiting_piece == b"two"
        call.finish()
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
    assert call.state is State.COMPLETE


async def test_a_call_that_ends_without_a_head_says_so(timers: Timers) -> None:
    for end, state in ((Call.fail, State.BROKEN), (Call.fail_unsent, State.UNREACHABLE)):
        call = Call(timers)
        with call.join() as reader:
            end(call, "why")
            assert await reader.head() is None
        assert (call.state, call.failure) == (state, "why")


def test_the_first_end_counts(timers: Timers) -> None:
    call = Call(timers)
    ends: list[str] = []
    call.on_end.append(lambda: ends.append(call.state.value))
    call.start(HEAD)
    call.finish()
    call.fail("late")
    call.append(b"late")
    assert (call.state, call.failure, call.received, ends) == (State.COMPLETE, "", 0, ["complete"])


async def test_who_joins_later_reads_from_the_first_byte_of_a_kept_call(timers: Timers) -> None:
    call = Call(timers, kept=True)
    with call.join() as first:
        call.start(HEAD)
        call.append(b"one")
        first.take()
        with call.join() as second:
            call.append(b"two")
            call.fail("broke off")
            assert await everything(first) == b"two"
            assert await everything(second) == b"onetwo"
    with call.join() as third:
        assert await third.head() is HEAD
        assert await everything(third) == b"onetwo"


async def test_what_is_not_kept_is_let_go_of_as_it_is_read(timers: Timers) -> None:
    call = Call(timers)
    with call.join() as reader:
        call.start(HEAD)
        for _ in range(100):
            call.append(b"x" * 1000)
            assert reader.take() == b"x" * 1000
            assert call.kept_bytes == 0
    assert not call._pieces


async def test_present_readers_still_get_all_of_what_is_no_longer_kept(timers: Timers) -> None:
    call = Call(timers, kept=True)
    with call.join() as fast, call.join() as slow:
        call.start(HEAD)
        call.append(b"one")
        fast.take()
        call.stop_keeping()
        call.append(b"two")
        call.finish()
        assert await everything(fast) == b"two"
        assert await everything(slow) == b"onetwo"
    assert not call._pieces


def held_back(call: Call) -> list[bool]:
    told: list[bool] = []
    call.throttle = told.append
    return told


def test_the_model_is_held_back_while_the_agent_is_slow(timers: Timers) -> None:
    call = Call(timers)
    told = held_back(call)
    with call.join() as reader:
        call.start(HEAD)
        call.append(b"x" * WINDOW)
        assert told == []
        call.append(b"x")
        assert told == [True]
        reader.take()
        assert told == [True, False]


def test_a_dead_first_connection_does_not_hold_up_the_one_that_repeats_it(timers: Timers) -> None:
    call = Call(timers, kept=True)
    told = held_back(call)
    with call.join(), call.join() as repeat:
        call.start(HEAD)
        for _ in range(10):
            call.append(b"x" * WINDOW)
            repeat.take()
        assert told == []


def test_once_nothing_is_kept_the_slowest_sets_the_pace_so_that_memory_is_bounded(timers: Timers) -> None:
    call = Call(timers, kept=True)
    told = held_back(call)
    with call.join(), call.join() as fast:
        call.start(HEAD)
        call.append(b"x" * WINDOW)
        fast.take()
        call.append(b"x")
        assert told == []
        call.stop_keeping()
        call.append(b"x")
        assert told == [True]


def test_when_the_last_agent_leaves_the_model_may_go_on_for_a_moment(timers: Timers) -> None:
    call = Call(timers, EarlyClose(0.25, 100))
    cancelled = cancellable(call)
    with call.join():
        call.start(HEAD)
    assert [seconds for seconds, _ in timers.waiting.values()] == [0.25]
    call.append(b"x" * 100)
    assert cancelled == []
    timers.fire()
    assert cancelled == ["cancelled"]


def test_and_for_so_many_bytes(timers: Timers) -> None:
    call = Call(timers, EarlyClose(0.25, 100))
    cancelled = cancellable(call)
    with call.join() as reader:
        call.start(HEAD)
        call.append(b"x" * 1000)
        reader.take()
    call.append(b"x" * 60)
    assert cancelled == []
    call.append(b"x" * 60)
    assert cancelled == ["cancelled"]


def test_a_response_that_ends_in_that_moment_is_complete(timers: Timers) -> None:
    call = Call(timers)
    cancelled = cancellable(call)
    with call.join():
        call.start(HEAD)
    call.append(b"the end")
    call.finish()
    timers.fire()
    assert (cancelled, call.state) == ([], State.COMPLETE)


def test_one_who_joins_in_that_moment_keeps_the_model_going(timers: Timers) -> None:
    call = Call(timers, kept=True)
    cancelled = cancellable(call)
    with call.join():
        call.start(HEAD)
    with call.join():
        timers.fire()
        assert cancelled == []


def test_others_still_reading_keep_the_model_going(timers: Timers) -> None:
    call = Call(timers, kept=True)
    with call.join():
        with call.join():
            pass
        assert not timers.waiting


def test_a_large_response_is_taken_in_bounded_pieces(timers: Timers) -> None:
    call = Call(timers, kept=True)
    call.start(HEAD)
    for _ in range(100):
        call.append(b"x" * 10_000)
    with call.join() as reader:
        sizes = []
        while data := reader.take():
            sizes.append(len(data))
    assert sum(sizes) == 1_000_000
    assert max(sizes) <= WINDOW + 10_000
