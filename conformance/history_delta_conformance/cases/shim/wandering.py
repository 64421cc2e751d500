# SPDX-License-Identifier: Apache-2.0
"""Seeded walks through what agents do to their conversations: they grow, are edited, marked, compacted and forked."""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from .bodies import TARGETS, Body, conversation, said

_SEPARATORS = (b",", b",", b",", b", ", b"\n ,\n\t")
_ODD = (b"1", b"12", b'"a"', b"[]", b"NaN", b'{"role":"tool","content":"\\ud800"}', b"123456789012345678901234567890")


def wander(seed: int, calls: int, at_once: int = 5) -> Iterator[tuple[str, bytes]]:
    """(target, body) of each call; so many conversations take turns."""
    rng = random.Random(seed)
    live: list[tuple[str, Body]] = []
    for number in range(calls):
        if (len(live) < at_once and rng.random() < 0.2) or not live:
            dialect = rng.choice(list(TARGETS))
            prefix = rng.choice(["", "", "/ng-rollout/other"])
            live.append((prefix + TARGETS[dialect], conversation(number + 1, rng.randrange(5), dialect)))
        place = rng.randrange(len(live))
        target, body = live[place]
        changed = rng.choices(_STEPS, _WEIGHTS)[0](rng, body)
        if rng.random() < 0.1 and len(live) < at_once:
            live.append((target, changed))  # a fork: the other goes on as well
        else:
            live[place] = (target, changed)
        yield target, changed.raw


def _message(rng: random.Random) -> bytes:
    return rng.choice(_ODD) if rng.random() < 0.1 else said(rng.randrange(1, 400), rng.choice([60, 300, 900, 3000]))


def _grown(rng: random.Random, body: Body) -> Body:
    return body.and_then(*(_message(rng) for _ in range(rng.randint(1, 3))))


def _edited(rng: random.Random, body: Body) -> Body:
    messages = list(body.messages)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(messages))
        messages[at : at + rng.randint(0, 2)] = [_message(rng) for _ in range(rng.randint(0, 2))]
    return body.having(*messages)


def _marked(rng: random.Random, body: Body) -> Body:
    """The last messages changed in part: a mark that moves."""
    count = rng.randint(1, 2)
    mark = rng.choice([b'{"mark":%d,' % rng.randrange(10), b"{"])
    rewritten = [message.replace(b"{", mark, 1) for message in body.messages[-count:]]
    return body.having(*body.messages[:-count], *rewritten)


def _moved(rng: random.Random, body: Body) -> Body:
    return body.having(*rng.sample(body.messages, len(body.messages)))


def _truncated(rng: random.Random, body: Body) -> Body:
    return body.having(*body.messages[: rng.randint(0, len(body.messages))])


def _compacted(rng: random.Random, body: Body) -> Body:
    first, last = rng.randint(0, 2), rng.randint(0, 3)
    rest = body.messages[first:]
    return body.having(*body.messages[:first], _message(rng), *rest[len(rest) - last :])


def _spaced(rng: random.Random, body: Body) -> Body:
    return replace(body, separator=rng.choice(_SEPARATORS))


def _other_head(rng: random.Random, body: Body) -> Body:
    return replace(body, head=body.head.replace(b'{"model":"', b'{"model":"%d' % rng.randrange(100), 1))


def _other_tail(rng: random.Random, body: Body) -> Body:
    members = [b'"member_%d":"of some length %d"' % (number, number * 7919) for number in range(10)]
    rng.shuffle(members)
    return replace(body, tail=b'],"tools":[%s],"metadata":{%s}}' % (b'{"x":1},' * 60 + b"0", b",".join(members)))


def _same(rng: random.Random, body: Body) -> Body:
    return body


_WEIGHTED: list[tuple[Callable[[random.Random, Body], Body], int]] = [
    (_grown, 12),
    (_edited, 3),
    (_marked, 3),
    (_moved, 1),
    (_truncated, 1),
    (_compacted, 1),
    (_spaced, 1),
    (_other_head, 1),
    (_other_tail, 2),
    (_same, 1),
]
_STEPS = [step for step, _ in _WEIGHTED]
_WEIGHTS = [weight for _, weight in _WEIGHTED]
