# SPDX-License-Identifier: Apache-2.0
"""An agent's conversation, turn by turn, over a raw connection: what it sent, and what came back and how it ended."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import h11

from .endpoints import Endpoint, Message
from .json_bodies import CHAT, MESSAGES, RESPONSES, Body, body, said
from .model_server import head

DIALECTS = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
# Long enough that any frame is smaller than the body from the second call on.
_OPENING = 3
_rollouts = count(1)


@dataclass
class Received:
    """What an agent saw of a response; ``ended`` says whether it came to an end that HTTP takes for one."""

    message: Message
    ended: bool

    @property
    def status(self) -> int:
        return self.message.line[0]

    @property
    def body(self) -> bytes:
        return self.message.body

    def headers(self) -> list[tuple[str, str]]:
        """What the model said to the agent: without framing and what is between neighbours."""
        hop = ("connection", "transfer-encoding", "content-length")
        return [(name, value) for name, value in self.message.headers if name.lower() not in hop]


def new_rollout() -> str:
    return f"r{next(_rollouts)}"


@dataclass
class Conversation:
    """Grows by ``turn``; ``request`` is the call as bytes, and ``sent`` holds every body that was made into one."""

    target: str = CHAT
    streamed: bool = False
    rollout: str | None = field(default_factory=new_rollout)
    sent: list[bytes] = field(default_factory=list)
    _seeds: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        tail = b'],"stream":%s,"tools":[%s]}' % (
            b"true" if self.streamed else b"false",
            b'{"name":"shell"},' * 30 + b"0",
        )
        self._body: Body = body(target=self.target, tail=tail)
        for _ in range(_OPENING):
            self.turn()

    @property
    def path(self) -> str:
        return (f"/ng-rollout/{self.rollout}" if self.rollout else "") + self.target

    def turn(self) -> None:
        """One more message, that of a tool or of a user."""
        self.say(said(next(self._seeds), 600))

    def say(self, message: bytes) -> None:
        self._body = self._body.and_then(message)

    def request(self, *headers: str) -> bytes:
        self.sent.append(self._body.raw)
        lines = (f"POST {self.path} HTTP/1.1", "Host: agent", "Content-Type: application/json", *headers)
        return head(*lines, f"Content-Length: {len(self._body.raw)}") + self._body.raw


def receive(agent: Endpoint) -> Received:
    """A response as far as it comes."""
    message = agent.read_response_head("POST")
    pieces, ended = [], True
    try:
        while (data := agent.next_data()) is not None:
            pieces.append(data)
    except (h11.RemoteProtocolError, ConnectionResetError):
        ended = False
    message.body = b"".join(pieces)
    return Received(message, ended)
