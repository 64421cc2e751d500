# SPDX-License-Identifier: Apache-2.0
"""Calls of a rollout in order, each in full or as a frame, that a receiver must take: SPEC.md sections 6 and 7."""

import json
from collections.abc import Iterator
from itertools import pairwise

import gzip_members
import slow_reference
from compose import Of, compose, frame, full
from describe import Description, run
from split_cases import CALL, TOOL, USER, compact

JSON = "application/json"


def scenario(name: str, about: str, *steps: Description) -> Description:
    return {"id": name, "about": about, "steps": list(steps)}


def chat(*messages: bytes, head: bytes = b'{"model":"m","messages":[', tail: bytes = b'],"stream":true}') -> bytes:
    return head + b",".join(messages) + tail


def parts(body: bytes, dialect: str = "chat") -> slow_reference.Split:
    return slow_reference.split(body, dialect)


SYSTEM = compact({"role": "system", "content": "You are a careful engineer. " * 4})
M = [compact({"role": ["user", "assistant"][i % 2], "content": f"message number {i}"}) for i in range(8)]


def cases() -> Iterator[Description]:
    yield from _appending()
    yield from _self_contained()
    yield from _several_conversations()
    yield from _editing()
    yield from _heads_and_tails()
    yield from _contents()
    yield from _forms()


def _appending() -> Iterator[Description]:
    for dialect, key in slow_reference.HISTORY_KEYS.items():
        head = b'{"model":"m","' + key.encode() + b'":['
        old = chat(SYSTEM, compact(USER), head=head)
        new = chat(SYSTEM, compact(USER), compact(CALL), compact(TOOL), head=head)
        steps = full(dialect, old), frame(dialect, compose(dialect, old, new), new)
        yield scenario(f"append-{dialect}", "two messages appended: the ordinary case", *steps)
    bodies = [chat(*M[:count]) for count in range(1, 6)]
    steps_of_many = [full("chat", bodies[0])]
    for old, new in pairwise(bodies):
        steps_of_many.append(frame("chat", compose("chat", old, new), new))
    yield scenario("append-again-and-again", "each frame builds on the one before it", *steps_of_many)
    old, new = chat(*M[:2]), chat(*M[:4])
    same = frame("chat", compose("chat", old, old), old)
    yield scenario("append-nothing", "the same body again is a call of its own", full("chat", old), same, same)
    yield scenario(
        "append-to-empty",
        "the base is the empty history",
        full("chat", chat()),
        frame("chat", compose("chat", chat(), old), old),
    )
    yield scenario(
        "base-inside-a-history",
        "any prefix of a held history is a base, also of one that a frame brought",
        full("chat", old),
        frame("chat", compose("chat", old, new), new),
        frame("chat", compose("chat", new, chat(*M[:3], M[6]), base=3), chat(*M[:3], M[6])),
        frame("chat", compose("chat", new, chat(M[0], M[5]), base=1), chat(M[0], M[5])),
    )
    spaced = [json.dumps({"model": "m", "messages": [USER, CALL, TOOL][:count]}, indent=2).encode() for count in (2, 3)]
    yield scenario(
        "append-indented",
        "separators of indented JSON; the history's last blanks are the tail's",
        full("chat", spaced[0]),
        frame("chat", compose("chat", spaced[0], spaced[1]), spaced[1]),
    )
    yield scenario(
        "number-that-goes-on",
        "[1 begins [12, but the message 1 is no base of it",
        full("chat", chat(b"1")),
        frame("chat", compose("chat", chat(b"1"), chat(b"12"), base=0), chat(b"12")),
        frame("chat", compose("chat", chat(b"12"), chat(b"12", b"3")), chat(b"12", b"3")),
    )


def _self_contained() -> Iterator[Description]:
    body, next_body = chat(SYSTEM, *M[:2]), chat(SYSTEM, *M[:4])
    first = compose("chat", None, body, head=None, tail=None)
    yield scenario(
        "self-contained",
        "a first send as a frame that takes nothing held; the next builds on it",
        frame("chat", first, body),
        frame("chat", compose("chat", body, next_body), next_body),
    )
    empty = chat()
    yield scenario(
        "self-contained-empty",
        "with no message at all",
        frame("chat", compose("chat", None, empty, head=None, tail=None), empty),
    )
    yield scenario(
        "self-contained-edit",
        "an edit may insert into the empty base",
        frame("chat", compose("chat", None, body, head=None, tail=None, edits=[(0, 0, [0, 1])]), body),
    )
    yield scenario(
        "compaction-shares-envelope-alone",
        "after a compaction nothing of the history is left, but head and tail",
        full("chat", body),
        frame("chat", compose("chat", None, chat(M[7])), chat(M[7])),
    )


def _several_conversations() -> Iterator[Description]:
    old, new = chat(SYSTEM, M[0]), chat(SYSTEM, M[0], M[1], M[2])
    title = chat(b'{"role":"user","content":"A title for this, please."}', M[0], tail=b'],"max_tokens":20}')
    yield scenario(
        "title-call-between",
        "another conversation of the same rollout comes between two calls",
        full("chat", old),
        full("chat", title),
        frame("chat", compose("chat", old, new), new),
        frame("chat", compose("chat", title, title), title),
    )
    yield scenario(
        "identical-conversations",
        "two conversations with the same octets; they part later",
        full("chat", old),
        full("chat", old),
        frame("chat", compose("chat", old, new), new),
        frame("chat", compose("chat", old, new), new),
        frame("chat", compose("chat", new, chat(SYSTEM, *M[:3], M[5])), chat(SYSTEM, *M[:3], M[5])),
        frame("chat", compose("chat", new, chat(SYSTEM, *M[:3], M[6])), chat(SYSTEM, *M[:3], M[6])),
    )
    yield scenario(
        "forks",
        "two sub-agents go on from the same prefix",
        full("chat", old),
        frame("chat", compose("chat", old, chat(SYSTEM, M[0], M[3])), chat(SYSTEM, M[0], M[3])),
        frame("chat", compose("chat", old, chat(SYSTEM, M[0], M[5])), chat(SYSTEM, M[0], M[5])),
    )
    yield scenario(
        "dialects-apart",
        "the same octets are held in each dialect on their own",
        full("chat", old),
        full("messages", old),
        frame("messages", compose("messages", old, new), new),
        frame("chat", compose("chat", old, new), new),
    )
    yield scenario(
        "rollouts-apart",
        "and in each rollout",
        full("chat", old, "a"),
        full("chat", old, "b"),
        frame("chat", compose("chat", old, new), new, rollout="b"),
        frame("chat", compose("chat", old, new), new, rollout="a"),
    )
    yield scenario(
        "not-held-is-passed-on",
        "a body that is not understood is passed on, and changes nothing",
        full("chat", old),
        full("chat", b'{"messages":"hello"}'),
        full("chat", b"\xef\xbb\xbf" + old),
        frame("chat", compose("chat", old, new), new),
    )


def _editing() -> Iterator[Description]:
    old = chat(*M[:6])
    yield from (
        scenario(name, about, full("chat", old), frame("chat", compose("chat", old, new, edits=edits), new))
        for name, about, new, edits in [
            ("last-rewritten", "the last message rewritten", chat(*M[:5], M[7]), [(5, 1, [5])]),
            ("old-rewritten", "one old message rewritten", chat(M[0], M[7], *M[2:6]), [(1, 1, [1])]),
            (
                "several-rewritten",
                "several old messages rewritten, others kept between them, and one appended",
                chat(M[0], M[7], M[2], M[6], M[4], M[5], M[0]),
                [(1, 1, [1]), (3, 1, [3])],
            ),
            ("neighbours-rewritten", "edits side by side", chat(M[6], M[7], *M[2:6]), [(0, 1, [0]), (1, 1, [1])]),
            ("one-by-two", "one message replaced by two", chat(M[0], M[6], M[7], *M[2:6]), [(1, 1, [1, 2])]),
            ("two-by-one", "two messages replaced by one", chat(M[0], M[7], *M[3:6]), [(1, 2, [1])]),
            ("inserted", "a message put in, none taken", chat(*M[:2], M[7], *M[2:6]), [(2, 0, [2])]),
            ("inserted-last", "put in behind the base's last, and another appended", chat(*M[:8]), [(6, 0, [6])]),
            ("removed", "messages taken out of the middle", chat(M[0], *M[4:6]), [(1, 3, [])]),
            ("removed-last", "and at the end", chat(*M[:2]), [(2, 4, [])]),
            ("all-replaced", "all of it", chat(M[7]), [(0, 6, [0])]),
            (
                "first-removed",
                "the second message becomes the first and loses its comma: a copy of itself",
                chat(*M[1:6]),
                [(0, 2, [(0, Of(1, [(0, len(M[1]))]))])],
            ),
            (
                "inserted-first",
                "a message put in front: the first one gets a comma",
                chat(M[7], *M[:6]),
                [(0, 1, [0, (1, Of(0, [(0, len(M[0]))]))])],
            ),
        ]
    )
    for name, about, kept in [
        ("truncated", "all but three messages gone", 3),
        ("compacted", "the first alone left", 1),
    ]:
        new = chat(*M[:kept])
        yield scenario(name, about, full("chat", old), frame("chat", compose("chat", old, new, base=kept), new))
    new = chat(M[0], b'{"role":"user","content":"A summary of all that was said."}')
    step = frame("chat", compose("chat", old, new, base=1), new)
    yield scenario("compacted-to-a-summary", "the first message, then a summary", full("chat", old), step)
    yield from _message_pieces()


def _message_pieces() -> Iterator[Description]:
    """As in the messages dialect, where a marker moves to the newest message with each call."""
    marked = b'{"role":"user","content":[{"type":"text","text":"A long task, told in many words.","cache_control":{}}]}'
    plain = marked.replace(b',"cache_control":{}', b"")
    cut = marked.index(b',"cache_control"')
    rest = len(marked) - len(b"}]}")
    old, new = chat(SYSTEM, marked), chat(SYSTEM, plain, M[1])
    unmark = Of(1, [(0, cut), (rest, 3)])
    yield scenario(
        "message-from-pieces",
        "the last message loses a member; all the rest is copied",
        full("messages", old),
        frame("messages", compose("messages", old, new, edits=[(1, 1, [(1, unmark)])]), new),
    )
    mark = Of(1, [(0, cut), b',"cache_control":{}', (cut, len(plain) - cut)])
    again = chat(SYSTEM, marked)
    yield scenario(
        "message-from-pieces-with-literal",
        "and gets it back",
        full("messages", chat(SYSTEM, plain)),
        frame("messages", compose("messages", chat(SYSTEM, plain), again, edits=[(1, 1, [(1, mark)])]), again),
    )
    far = chat(SYSTEM, M[0], plain)
    yield scenario(
        "message-from-another",
        "the source may be any base message, also one that goes",
        full("messages", chat(SYSTEM, M[0], marked, M[2])),
        frame(
            "messages",
            compose(
                "messages", chat(SYSTEM, M[0], marked, M[2]), far, edits=[(2, 2, [(2, Of(2, [(0, cut), (rest, 3)]))])]
            ),
            far,
        ),
    )


def _heads_and_tails() -> Iterator[Description]:
    members = [b'"session_id":"0123456789abcdef"', b'"turn":12', b'"window":"abcdef:3"', b'"originator":"an-agent"']
    tools = b'],"tools":[' + b",".join([b'{"type":"function","name":"shell"}'] * 6) + b'],"client_metadata":{'
    old_tail, new_tail = (tools + b",".join(order) + b"}}" for order in (members, [members[i] for i in (2, 0, 3, 1)]))
    head = b'{"model":"m","stream":true,"input":['
    old, new = chat(M[0], head=head, tail=old_tail), chat(M[0], M[1], head=head, tail=new_tail)
    shuffled: list[tuple[int, int] | bytes] = [(0, len(tools))]
    for place, index in enumerate((2, 0, 3, 1)):
        shuffled += [b","] if place else []
        shuffled.append((old_tail.index(members[index]), len(members[index])))
    shuffled.append((len(old_tail) - 2, 2))
    yield scenario(
        "member-re-ordered-in-tail",
        "an envelope member at the end of the body has its own members in another order",
        full("responses", old),
        frame("responses", compose("responses", old, new, tail=Of(old_tail, shuffled)), new),
    )
    literal_tail = chat(M[0], M[1], tail=b'],"stream":false}')
    yield scenario(
        "tail-literal",
        "another tail, in full; the one before it stays held",
        full("chat", chat(M[0])),
        frame("chat", compose("chat", chat(M[0]), literal_tail, tail=None), literal_tail),
        frame("chat", compose("chat", literal_tail, chat(*M[:3])), chat(*M[:3])),
    )
    head_of = b'{"model":"another-model","temperature":0,"messages":['
    new = chat(M[0], M[1], head=head_of)
    renamed = Of(parts(chat()).head, [(0, 10), b"another-model", (11, 3), b'temperature":0,"', (14, 11)])
    yield scenario(
        "head-from-pieces",
        "another model is named in the head",
        full("chat", chat(M[0])),
        frame("chat", compose("chat", chat(M[0]), new, head=renamed), new),
    )
    whole = Of(parts(chat()).tail, [(0, len(parts(chat()).tail))])
    yield scenario(
        "tail-copied-whole",
        "a copy of the whole item is as good as held",
        full("chat", chat(M[0])),
        frame("chat", compose("chat", chat(M[0]), chat(M[0], M[1]), tail=whole), chat(M[0], M[1])),
    )
    new = chat(M[0], tail=b'],"model":"m"}')
    from_head = Of(parts(chat()).head, [b"],", (1, 11), b"}"])
    yield scenario(
        "tail-from-a-head",
        "any held item may be the source",
        full("chat", chat(M[0])),
        frame("chat", compose("chat", chat(M[0]), new, tail=from_head), new),
    )
    source = b'],a_____________"}'
    pieces: list[tuple[int, int] | bytes] = [b'],"x":"', *[(2, 1), b"b"] * 29, (16, 1), (17, 1), b" ", b" ", b" "]
    many = chat(M[0], tail=b'],"x":"' + b"ab" * 29 + b'"}   ')
    assert len(pieces) == 64
    yield scenario(
        "64-pieces",
        "the most that a list may have",
        full("chat", chat(M[0], tail=source)),
        frame("chat", compose("chat", chat(M[0], tail=source), many, tail=Of(source, pieces)), many),
    )
    literal_only = Of(parts(chat()).tail, [b'],"stream"', b":false}"])
    new = chat(M[0], tail=b'],"stream":false}')
    yield scenario(
        "pieces-without-a-copy",
        "allowed, if pointless; the source must be held nevertheless",
        full("chat", chat(M[0])),
        frame("chat", compose("chat", chat(M[0]), new, tail=literal_only), new),
    )


def _contents() -> Iterator[Description]:
    strange = [
        b'"\\ud800"',
        b"NaN",
        b"18446744073709551616",
        b'{"a":1,"a":2}',
        '"\u2028\u00a0"'.encode(),
        b'"\xff\xfe\x00\n"',
        b"[" + run(b"[", 511) + run(b"]", 511) + b"]",
        run(b"9", 10_000),
        b"0",
    ]
    old, new = chat(b"0"), chat(b"0", *strange)
    yield scenario(
        "strange-messages",
        "what no JSON writer would write, appended and built on",
        full("chat", old),
        frame("chat", compose("chat", old, new), new),
        frame("chat", compose("chat", new, chat(b"0", *strange, b"1")), chat(b"0", *strange, b"1")),
    )
    large = b'"' + run(b"0123456789abcdef", 131_072) + b'"'
    bodies = [chat(b"0"), chat(b"0", large), chat(b"0", large, b"1")]
    yield scenario(
        "large-message",
        "a message of 2 MB comes in a frame, then stays behind",
        full("chat", bodies[0]),
        frame("chat", compose("chat", bodies[0], bodies[1]), bodies[1]),
        frame("chat", compose("chat", bodies[1], bodies[2]), bodies[2]),
    )
    old = b'{"messages":[ \n1 , 2\t]}'
    new = b'{"messages":[ \n1 , 2\t\r\n,\r\n\r\n3 ,4 , 5\t]}'
    yield scenario(
        "odd-separators",
        "separators are octets like any others",
        full("chat", old),
        frame("chat", compose("chat", old, new), new),
    )
    old, new = b'{"m\\u0065ssages":[1],"messages":[2]}', b'{"m\\u0065ssages":[1,3],"messages":[2]}'
    yield scenario(
        "odd-key",
        "an escaped key, and a second history in the tail",
        full("chat", old),
        frame("chat", compose("chat", old, new), new),
    )


def _forms() -> Iterator[Description]:
    old, new = chat(*M[:2]), chat(*M[:4])
    first = full("chat", old)
    types = [
        ("none", None),
        ("charset", "application/json; charset=utf-8"),
        ("odd", 'Application/JSON ;\ta="\u00e9\u00ff"'),
        ("empty", ""),
    ]
    for name, content_type in types:
        step = frame("chat", compose("chat", old, new, content_type=content_type), new)
        yield scenario(f"content-type-{name}", "the agent's own header value, or none", first, step)
    ordinary = compose("chat", old, new)
    backwards = dict(reversed(ordinary.line.items()))
    spaced = b" " + json.dumps(backwards, indent=1).replace("\n", "\t").encode() + b"\r\n" + ordinary.literals
    yield scenario("line-spaced", "members in another order, blanks, a CR", first, frame("chat", spaced, new))
    escaped = ordinary.data.replace(b'"held"', b'"\\u0068eld"').replace(b'"append"', b'"\\u0061ppend"')
    yield scenario("line-escaped", "names and strings with escapes", first, frame("chat", escaped, new))
    line, _, literals = ordinary.data.partition(b"\n")
    longest = line + run(b" ", 65_536 - len(line)) + b"\n" + literals
    yield scenario("line-of-64-kib", "the longest line by default", first, frame("chat", longest, new))
    data = ordinary.data
    for name, about, packed in [
        ("gzip", "one gzip member", gzip_members.stored(data)),
        ("gzip-with-name", "one that carries a file name and a time", gzip_members.stored(data, name=b"frame", time=1)),
        (
            "gzip-in-blocks",
            "one of several deflate blocks, an empty one among them",
            gzip_members.stored(data, block=100),
        ),
    ]:
        yield scenario(name, about, first, frame("chat", data, new, packed=packed))
