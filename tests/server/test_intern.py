# SPDX-License-Identifier: Apache-2.0
import random

from history_delta_server.intern import Interner

LONG = b"system prompt " * 100


def copy_of(data: bytes) -> bytes:
    return b"".join([data[:1], data[1:]])


def test_equal_contents_share_one_copy():
    interner = Interner()
    first, second = copy_of(LONG), copy_of(LONG)
    assert first is not second
    assert interner.intern(first) is first
    assert interner.intern(second) is first
    assert len(interner) == 1


def test_a_copy_lives_until_its_last_reference_is_released():
    interner = Interner()
    kept = [interner.intern(copy_of(LONG)) for _ in range(3)]
    for data in kept[:2]:
        interner.release(data)
    assert interner.intern(copy_of(LONG)) is kept[0]
    interner.release(kept[0])
    interner.release(kept[0])
    assert len(interner) == 0
    again = copy_of(LONG)
    assert interner.intern(again) is again


def test_the_same_object_twice_counts_twice():
    interner = Interner()
    assert interner.intern(LONG) is interner.intern(LONG)
    interner.release(LONG)
    assert len(interner) == 1
    interner.release(LONG)
    assert len(interner) == 0


def test_short_contents_take_no_entry():
    interner = Interner()
    short = b"x" * 511
    assert interner.intern(short) is short
    assert len(interner) == 0
    interner.release(short)
    assert len(interner) == 0
    assert interner.intern(b"x" * 512)
    assert len(interner) == 1


def test_any_order_of_interning_and_releasing_ends_empty():
    rng = random.Random(1)
    contents = [bytes([n]) * rng.randint(500, 600) for n in range(20)]
    interner, held = Interner(), []
    for _ in range(2000):
        if rng.random() < 0.5 and held:
            interner.release(held.pop(rng.randrange(len(held))))
        else:
            data = rng.choice(contents)
            kept = interner.intern(copy_of(data))
            assert kept == data
            held.append(kept)
        assert len(interner) == len({data for data in held if len(data) >= 512})
    for data in held:
        interner.release(data)
    assert len(interner) == 0
    assert not interner._more
