# SPDX-License-Identifier: Apache-2.0
"""Request bodies as agents write them, long enough that a frame pays, and the odd ones that an agent may write too."""

from dataclasses import dataclass, replace

TARGETS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
CHAT = TARGETS["chat"]
_KEYS = {"chat": b"messages", "responses": b"input", "messages": b"messages"}
_TAIL = b'],"tools":[%s],"stream":true}' % b",".join(
    b'{"name":"tool-%d","description":"Does thing %d as often as it is asked to"}' % (number, number * 7919)
    for number in range(6)
)


@dataclass(frozen=True)
class Body:
    """A body by its parts; between two messages stands ``separator``."""

    head: bytes
    messages: tuple[bytes, ...]
    tail: bytes = _TAIL
    separator: bytes = b","

    @property
    def raw(self) -> bytes:
        return self.head + self.separator.join(self.messages) + self.tail

    def and_then(self, *messages: bytes) -> "Body":
        return replace(self, messages=self.messages + messages)

    def having(self, *messages: bytes) -> "Body":
        return replace(self, messages=messages)


def said(number: int, size: int = 500) -> bytes:
    """A message of about ``size`` octets, unlike that of any other number from its first words to its last."""
    words = b" ".join(b"%d-%d" % (number, place * number % 9973) for place in range(1, size // 8))
    return b'{"role":"user","content":"%d: %s"}' % (number, words)


def conversation(number: int, messages: int = 3, dialect: str = "chat") -> Body:
    """The beginning of a conversation that shares no message with that of another number."""
    head = b'{"model":"m","metadata":{"conversation":%d},"%s":[' % (number, _KEYS[dialect])
    return Body(head, tuple(said(number * 1000 + place + 1) for place in range(messages)))


def grown(number: int, turns: int, dialect: str = "chat") -> list[bytes]:
    """The bodies of a conversation's first turns, each with two messages more than the one before."""
    body = conversation(number, dialect=dialect)
    bodies = []
    for turn in range(turns):
        bodies.append(body.raw)
        body = body.and_then(said(number * 1000 + 2 * turn + 101), said(number * 1000 + 2 * turn + 102))
    return bodies
