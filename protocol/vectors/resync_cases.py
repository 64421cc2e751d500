# SPDX-License-Identifier: Apache-2.0
"""Well-formed frames that cannot be rebuilt, and what heals them: SPEC.md section 7."""

from collections.abc import Callable, Iterator
from typing import Any

import slow_reference
from compose import Composed, Of, compose, frame, full, refused
from describe import Description
from scenario_cases import SYSTEM, M, chat, parts, scenario

OLD, NEW, LATER = chat(SYSTEM, *M[:2]), chat(SYSTEM, *M[:4]), chat(SYSTEM, *M[:6])
OTHER_TAIL = chat(SYSTEM, *M[:2], tail=b'],"stream":false,"store":false}')


def resync(reason: str, composed: Composed, dialect: str = "chat", rollout: str = "a") -> Description:
    return refused(dialect, composed, 409, "gym_history_resync", rollout=rollout, reason=reason)


def ordinary(dialect: str = "chat") -> Composed:
    return compose(dialect, OLD, NEW)


def cases() -> Iterator[Description]:
    yield from _bases()
    yield from _items()
    yield from _mismatches()
    yield from _states()


def _bases() -> Iterator[Description]:
    reason = "unknown-base"
    yield scenario(
        "nothing-held",
        "the server knows nothing, as after a restart; a full send heals it",
        resync(reason, ordinary()),
        full("chat", NEW),
        frame("chat", compose("chat", NEW, LATER), LATER),
    )
    yield scenario(
        "base-never-sent", "a history that was never sent", full("chat", chat(M[0])), resync(reason, ordinary())
    )
    yield scenario(
        "base-of-another-rollout",
        "what another rollout holds is unknown here",
        full("chat", OLD, "b"),
        resync(reason, ordinary()),
    )
    yield scenario(
        "base-of-another-dialect",
        "the same octets, held in another dialect",
        full("messages", OLD),
        resync(reason, ordinary()),
        full("chat", OLD),
        frame("chat", ordinary(), NEW),
    )
    for name, about, count in [("low", "one message fewer", 2), ("high", "one message more", 4), ("zero", "none", 0)]:
        miscounted = ordinary()
        miscounted.line["base"][0] = count
        about = f"a held chain value with another count: {about}"
        yield scenario(f"base-count-{name}", about, full("chat", OLD), resync(reason, miscounted))
    wrong_start = compose("chat", None, NEW, head=None, tail=None)
    wrong_start.line["base"][1] = slow_reference.text(slow_reference.chain_values("messages", [])[0])
    yield scenario("empty-base-of-another-dialect", "each dialect has an h(0) of its own", resync(reason, wrong_start))
    longer = compose("chat", None, NEW, head=None, tail=None)
    longer.line["base"][0] = 1
    yield scenario("empty-base-with-a-count", "h(0) names no message", resync(reason, longer))


def _items() -> Iterator[Description]:
    other = chat(SYSTEM, *M[:2], head=b'{"model":"x","messages":[')
    new = chat(SYSTEM, *M[:4], head=b'{"model":"x","messages":[')
    step = resync("unknown-head", compose("chat", OLD, new))
    yield scenario("head-never-sent", "the base is held, the head is not", full("chat", OLD), step, full("chat", new))
    new = chat(SYSTEM, *M[:4], tail=b'],"stream":false}')
    step = resync("unknown-tail", compose("chat", OLD, new))
    yield scenario("tail-never-sent", "the tail is not held", full("chat", OLD), step, full("chat", new))
    from_other = compose("chat", OLD, NEW, head=Of(parts(other).head, [(0, 10), b"m", (11, 14)]))
    step = resync("unknown-head", from_other)
    yield scenario("head-source-never-sent", "pieces of a head that is not held", full("chat", OLD), step)
    from_other = compose("chat", OLD, NEW, tail=Of(parts(OTHER_TAIL).tail, [(0, 11), b"true}"]))
    step = resync("unknown-tail", from_other)
    yield scenario("tail-source-never-sent", "pieces of a tail that is not held", full("chat", OLD), step)
    yield scenario(
        "tail-source-of-another-rollout",
        "nor of one that another rollout holds",
        full("chat", OLD),
        full("chat", OTHER_TAIL, "b"),
        resync("unknown-tail", from_other),
    )
    nothing = compose("chat", None, NEW)
    yield scenario("head-before-tail", "of two unknown items the head is named", resync("unknown-head", nothing))


def _mismatches() -> Iterator[Description]:
    hash_of_nothing = slow_reference.item_text(b"")

    def change(place: int, value: Any) -> Callable[[Composed], Any]:
        return lambda broken: broken.line["result"].__setitem__(place, value)

    def literal(broken: Composed) -> None:
        broken.literals = broken.literals.replace(b"number", b"NUMBER", 1)

    def split_elsewhere(broken: Composed) -> None:
        broken.line["append"][0][0] += 1
        broken.line["append"][0][1] -= 1

    for name, about, how in [
        ("count-low", "one message fewer than it makes", change(0, 4)),
        ("count-high", "one message more", change(0, 6)),
        ("count-zero", "no message", change(0, 0)),
        ("chain", "the chain value of the base", change(1, slow_reference.text(b"\x00" * 32))),
        ("length-short", "one octet fewer", change(4, len(NEW) - 1)),
        ("length-long", "one octet more", change(4, len(NEW) + 1)),
        ("length-zero", "no octet", change(4, 0)),
        ("literal", "an appended message that changed on the way", literal),
        ("boundary", "the same octets, parted elsewhere", split_elsewhere),
    ]:
        broken = ordinary()
        how(broken)
        steps = full("chat", OLD), resync("mismatch", broken), frame("chat", ordinary(), NEW)
        yield scenario(f"mismatch-{name}", f"the result differs: {about}", *steps)
    for place, name in [(2, "head"), (3, "tail")]:
        literals = compose("chat", OLD, NEW, head=None, tail=None)
        literals.line["result"][place] = hash_of_nothing
        about = f"a literal {name} that is not what its hash names"
        yield scenario(f"mismatch-{name}", about, full("chat", OLD), resync("mismatch", literals))
    many = compose("chat", OLD, NEW, tail=Of(parts(OLD).tail, [(0, 11), b"true}"]))
    many.line["tail"]["pieces"] = [[0, 16]] * 63 + [5]
    about = "pieces that come to more than the result's length"
    yield scenario("mismatch-amplified", about, full("chat", OLD), resync("mismatch", many))


def _states() -> Iterator[Description]:
    broken = ordinary()
    broken.line["result"][4] += 1
    yield scenario(
        "refused-is-not-held",
        "nothing of a refused frame is a base",
        full("chat", OLD),
        resync("mismatch", broken),
        resync("unknown-base", compose("chat", NEW, LATER)),
        full("chat", LATER),
        frame("chat", compose("chat", NEW, chat(SYSTEM, *M[:4], M[7])), chat(SYSTEM, *M[:4], M[7])),
    )
    other_head = chat(SYSTEM, *M[:2], head=b'{"model":"x","messages":[')
    refused_head = compose("chat", OLD, other_head, head=None)
    refused_head.line["result"][4] += 1
    yield scenario(
        "refused-head-is-not-held",
        "nor is its head",
        full("chat", OLD),
        resync("mismatch", refused_head),
        resync("unknown-head", compose("chat", OLD, other_head)),
    )
