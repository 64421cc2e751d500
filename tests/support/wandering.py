# SPDX-License-Identifier: Apache-2.0
"""Long seeded walks through what agents do to their conversations, for runs that Hypothesis would be too slow for."""

import random
from collections.abc import Iterator
from dataclasses import replace

from .json_bodies import CHAT, MESSAGES, RESPONSES, Body, as_history, body, said

TARGETS = [CHAT, RESPONSES, MESSAGES, "/ng-rollout/other" + CHAT]
_SEPARATORS = [b",", b",", b",", b", ", b"\n ,\n\t"]


def wander(rng: random.Random, calls: int, conversations: int = 6) -> Iterator[tuple[str, bytes]]:
    """(target, body) of each call: several conversations in turns, each of them growing, changing and forking."""
    live: list[tuple[str, Body]] = []
    for _ in range(calls):
        if (len(live) < conversations and rng.random() < 0.1) or not live:
            target = rng.choice(TARGETS)
            live.append((target, _first(rng, target.removeprefix("/ng-rollout/other"))))
        place = rng.randrange(len(live))
        target, last = live[place]
        changed = rng.choices([step for step, _ in _STEPS], [weight for _, weight in _STEPS])[0](rng, last)
        if rng.random() < 0.1 and len(live) < conversations:
            live.append((target, changed))
        else:
            live[place] = (target, changed)
        yield target, changed.raw


def _message(rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        return rng.choice([b"1", b"12", b'"a"', b"[]", b'{"role":"tool","content":"\\ud800"}', b"NaN"])
    return said(rng.randrange(400), rng.choice([60, 300, 300, 900, 3000]))


def _first(rng: random.Random, target: str) -> Body:
    tail = b'],"tools":[%s],"metadata":{"a":"of some length %d","b":"and another"}}' % (b'{"x":1},' * 60 + b"0", 7)
    return body(*(_message(rng) for _ in range(rng.randrange(5))), target=target, tail=tail)


def _appended(rng: random.Random, last: Body) -> Body:
    new = [(rng.choice(_SEPARATORS), _message(rng)) for _ in range(rng.randint(1, 3))]
    return replace(last, history=as_history([*last.history, *new]))


def _edited(rng: random.Random, last: Body) -> Body:
    history = list(last.history)
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(history))
        put_in = [(rng.choice(_SEPARATORS), _message(rng)) for _ in range(rng.randint(0, 2))]
        history[at : at + rng.randint(0, 2)] = put_in
    return replace(last, history=as_history(history))


def _marked(rng: random.Random, last: Body) -> Body:
    """The last messages changed in part: a mark that moves."""
    count = rng.randint(1, 2)
    kept, rewritten = last.history[:-count], last.history[-count:]
    mark = rng.choice([b'{"mark":%d,' % rng.randrange(10), b"{"])
    return replace(last, history=(*kept, *((blank, message.replace(b"{", mark, 1)) for blank, message in rewritten)))


def _moved(rng: random.Random, last: Body) -> Body:
    history = list(last.history)
    rng.shuffle(history)
    return replace(last, history=as_history(history))


def _truncated(rng: random.Random, last: Body) -> Body:
    return replace(last, history=last.history[: rng.randint(0, len(last.history))])


def _compacted(rng: random.Random, last: Body) -> Body:
    first, final = rng.randint(0, 2), rng.randint(0, 3)
    rest = last.history[first:]
    history = [*last.history[:first], (b",", _message(rng)), *rest[len(rest) - final :]]
    return replace(last, history=as_history(history))


def _other_head(rng: random.Random, last: Body) -> Body:
    key = last.head.rsplit(b'"', 2)[1]
    return replace(last, head=b'{"model":"m","max_tokens":%d,"%s":[' % (rng.randrange(10**6), key))


def _other_tail(rng: random.Random, last: Body) -> Body:
    members = [b'"member_%d":"of some length %d"' % (n, n * 7919) for n in range(10)]
    rng.shuffle(members)
    return replace(last, tail=b'],"tools":[%s],"metadata":{%s}}' % (b'{"x":1},' * 60 + b"0", b",".join(members)))


def _same(rng: random.Random, last: Body) -> Body:
    return last


_STEPS = [
    (_appended, 12),
    (_edited, 3),
    (_marked, 3),
    (_moved, 1),
    (_truncated, 1),
    (_compacted, 1),
    (_other_head, 1),
    (_other_tail, 2),
    (_same, 1),
]
