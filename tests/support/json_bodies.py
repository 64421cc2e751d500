# SPDX-License-Identifier: Apache-2.0
"""Request bodies for tests of both ends: readable ones by hand, and Hypothesis strategies for conversations that grow,
change and fork. The hostile JSON in them is tests/protocol/hostile_json.py's.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import strategies as st

_HOSTILE = str(Path(__file__).parents[1] / "protocol")
if _HOSTILE not in sys.path:
    sys.path.insert(0, _HOSTILE)

import hostile_json  # noqa: E402

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
KEYS = {CHAT: b"messages", RESPONSES: b"input", MESSAGES: b"messages"}


@dataclass(frozen=True)
class Body:
    """A body by its parts; ``history`` holds (separator, message) pairs."""

    head: bytes
    history: tuple[tuple[bytes, bytes], ...]
    tail: bytes

    @property
    def raw(self) -> bytes:
        return self.head + b"".join(separator + message for separator, message in self.history) + self.tail

    def having(self, *messages: bytes) -> "Body":
        """The same with these messages, compactly."""
        return replace(self, history=tuple((b"," if index else b"", item) for index, item in enumerate(messages)))

    def and_then(self, *messages: bytes) -> "Body":
        return self.having(*(message for _, message in self.history), *messages)


def body(
    *messages: bytes, target: str = CHAT, head: bytes = b'{"model":"m","', tail: bytes = b'],"stream":true}'
) -> Body:
    return Body(head + KEYS[target] + b'":[', (), tail).having(*messages)


def said(number: int, size: int = 400) -> bytes:
    """A message of about ``size`` bytes, unlike that of any other number from its first words to its last."""
    words = b" ".join(b"%d-%d" % (number, index * number % 9973) for index in range(1, size // 8))
    return b'{"role":"user","content":"%d: %s"}' % (number, words)


def text(message: bytes, marked: bool) -> bytes:
    """A message as the anthropic dialect has it, with or without the mark that ends what is to be cached."""
    mark = b',"cache_control":{"type":"ephemeral"}' if marked else b""
    return b'{"role":"user","content":[{"type":"text","text":"%s"%s}]}' % (message, mark)


separators = st.builds(lambda before, after: before + b"," + after, hostile_json.blanks, hostile_json.blanks)
# Long enough that a frame pays, or as short and as odd as JSON can be; 1 begins 12, "a" begins nothing.
messages = st.one_of(
    st.builds(said, st.integers(1, 50), st.integers(20, 1500)),
    st.builds(said, st.integers(1, 50), st.integers(300, 900)),
    st.sampled_from([b"1", b"12", b"123", b'"a"', b"-0", b"1e999", b"1.5", b"{}", b"[]", b"NaN"]),
    hostile_json.values,
)
pairs = st.tuples(separators, messages)


def _history(first_blank: bytes, pairs: list[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple((separator if index else first_blank, message) for index, (separator, message) in enumerate(pairs))


def as_history(pairs: list[tuple[bytes, bytes]]) -> tuple[tuple[bytes, bytes], ...]:
    """Pairs cut out of other histories: the first has no comma, all others have one."""
    return tuple(
        (separator.replace(b",", b"") if not index else separator if b"," in separator else separator + b",", message)
        for index, (separator, message) in enumerate(pairs)
    )


histories = st.builds(_history, hostile_json.blanks, st.lists(pairs, max_size=5))
_members = st.lists(hostile_json.member(st.sampled_from([b'"a"', b'"model"', b'"n"']), hostile_json.values), max_size=2)


def heads(target: str) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.builds(
            lambda number: b'{"model":"m","max_tokens":%d,"%s":[' % (number, KEYS[target]), st.integers(1, 99999)
        ),
        st.just(b'{"%s":[' % KEYS[target]),
        st.builds(
            lambda blank, members, key: blank + b"{" + b"".join(m + b"," for m in members) + key + b": [",
            hostile_json.blanks,
            _members,
            hostile_json.spelled(KEYS[target].decode()),
        ),
    )


def _envelope(members: list[int], spread: bytes) -> bytes:
    """Members in any order behind the history, as Codex writes them."""
    return b"],%s" % spread + b",".join(b'"member_%d":{"of":"some length %d"}' % (n, n * 7919) for n in members) + b"}"


tails = st.one_of(
    st.builds(_envelope, st.permutations(range(8)), st.sampled_from([b"", b" ", b'"tools":[' + b"{}," * 400 + b"0],"])),
    st.just(b"]}"),
    st.builds(
        lambda blank, members: blank + b"]" + b"".join(b"," + m for m in members) + b"}\n",
        hostile_json.blanks,
        _members,
    ),
)


def bodies(target: str) -> st.SearchStrategy[Body]:
    return st.builds(Body, heads(target), histories, tails)


def raw_bodies(target: str) -> st.SearchStrategy[bytes]:
    """What may also come: hostile, not JSON, a string for a history."""
    key = KEYS[target].decode()
    hostile = hostile_json.bodies(key)
    return st.one_of(
        hostile,
        hostile_json.damaged(hostile),
        st.just(b'{"%s":"a string"}' % KEYS[target]),
        st.just(b"[]"),
        st.just(b""),
        st.binary(max_size=40),
    )
