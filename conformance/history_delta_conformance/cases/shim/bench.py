# SPDX-License-Identifier: Apache-2.0
"""A shim between an agent and a server that are both in the case's hands, with what must hold of every call.

``Bench.talk`` is one call of the agent: whatever a case is about, a body that arrives changed, a frame that is built
on what nobody acknowledged, or a header that one side should not see fails it.
"""

import contextlib
import re
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from history_delta_protocol import wire

from ..base import CaseFailed, NotRun
from ..check import expect, none_of_ours, same_octets
from ..transcript import Transcript
from ..wire import Connection, Header, Response, request_head
from .bodies import CHAT
from .process import Command
from .upstream import Call, Capabilities, Upstream, speaking

JSON = ("Content-Type", "application/json")
_DELIVERY = re.compile(r"[0-9a-f]{32}")
# Of one hop alone, or made anew on each.
_NOT_END_TO_END = {
    *("host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate", "te"),
    *("trailer", "transfer-encoding", "upgrade", "content-length", "expect"),
}


@dataclass(frozen=True)
class Talk:
    """A call of the agent: what it got, and the calls that reached the server for it, in order."""

    response: Response
    calls: list[Call]

    @property
    def call(self) -> Call:
        """The last of them."""
        if not self.calls:
            raise CaseFailed("a call to reach the server", "none")
        return self.calls[-1]


class Target:
    """What a case is given: it starts as many shims as it wants."""

    def __init__(self, command: Command, transcript: Transcript) -> None:
        self.command = command
        self._transcript = transcript

    @contextlib.asynccontextmanager
    async def bench(self, capabilities: Capabilities | None = None) -> AsyncIterator["Bench"]:
        """A fresh shim before a server that answers the question for capabilities so, and as usual without."""
        async with contextlib.AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            upstream = await stack.enter_async_context(Upstream(capabilities or speaking(), self._transcript))
            async with self.command.shim(upstream.origin, folder) as shim:
                bench = Bench(shim.port, upstream, self._transcript)
                try:
                    yield bench
                finally:
                    await bench.close()
                    for fault in upstream.faults:  # of the case itself, which explains whatever else it met
                        raise fault
            expect(not upstream.not_http, "requests of HTTP/1.1 alone", str(upstream.not_http))


class Bench:
    """One running shim."""

    def __init__(self, port: int, upstream: Upstream, transcript: Transcript) -> None:
        self.upstream = upstream
        self._port, self._transcript = port, transcript
        self._agents: list[Connection] = []

    async def agent(self) -> Connection:
        """A new connection to the shim."""
        name = f"agent {len(self._agents) + 1}"
        self._agents.append(await Connection.open("127.0.0.1", self._port, self._transcript, name))
        return self._agents[-1]

    async def close(self) -> None:
        for agent in self._agents:
            await agent.close()

    async def talk(
        self,
        body: bytes,
        *headers: Header,
        target: str = CHAT,
        agent: Connection | None = None,
        content_type: Header | None = JSON,
        lost: bool = False,
    ) -> Talk:
        """A call to its end, with everything checked that must hold of all calls. One at a time.

        ``lost``: the server has let go of what it acknowledged, so that a frame may build on it.
        """
        first = len(self.upstream.calls)
        sent = [*([content_type] if content_type else []), *headers]
        connection = agent or await self.agent()
        await connection.send(post(body, *sent, target=target))
        talk = Talk(await connection.read_response(), self.upstream.calls[first:])
        for call in talk.calls:
            if lost and call.problem:
                continue
            check_call(call, body, sent, target)
        none_of_ours("a response to the agent", talk.response.headers)
        if agent is None:
            await connection.close()
        return talk

    async def send(self, agent: Connection, body: bytes, *headers: Header, target: str = CHAT) -> None:
        """A call of which the case reads the response itself."""
        await agent.send(post(body, JSON, *headers, target=target))

    async def talks(self, bodies: list[bytes], target: str = CHAT) -> list[Talk]:
        """Calls one after the other, each of which the server must have answered well."""
        talks = [await self.talk(body, target=target) for body in bodies]
        for talk in talks:
            expect(talk.response.status == 200, "each call to succeed", f"status {talk.response.status}")
        return talks


def post(body: bytes, *headers: Header, target: str = CHAT) -> bytes:
    """A request of the agent with its length."""
    return request_head("POST", target, [("Host", "agent"), *headers, ("Content-Length", str(len(body)))]) + body


def expect_frame(talk: Talk) -> Call:
    """The call, where it was a frame. A shim may send any body in full, but then such a case shows nothing of it."""
    call = talk.call
    if not call.is_frame:
        reason = call.request.value(wire.FULL_HEADER) or "no reason given"
        raise NotRun(f"the shim sent no frame where it could have ({reason})")
    return call


def expect_full(talk: Talk, why: str) -> Call:
    """The call, which must have been sent in full."""
    frames = sum(call.is_frame for call in talk.calls)
    expect(not frames, f"a full body ({why})", f"{frames} frame(s)")
    return talk.call


def check_call(call: Call, body: bytes, sent: list[Header], target: str) -> None:
    """What must hold of a call that reached the server, against what the agent sent."""
    expect(not call.problem, "a frame that is rebuilt out of what was acknowledged", call.problem)
    same_octets("the agent's body", call.body, body)
    request = call.request
    expect(request.target == target, f"the target {target!r}", repr(request.target))
    expect(request.values(wire.VERSION_HEADER) == ["1"], "one version header, 1", str(request.headers))
    deliveries = request.values(wire.DELIVERY_HEADER)
    expect(len(deliveries) == 1 and _DELIVERY.fullmatch(deliveries[0]) is not None, "one delivery id", str(deliveries))
    got = end_to_end(request.headers)
    wanted = _framed(end_to_end(sent), call) if call.is_frame else end_to_end(sent)
    expect(got == wanted, f"the agent's headers as they were, {wanted}", str(got))


def end_to_end(headers: list[Header]) -> list[Header]:
    """What travels on: without the hop's own headers, what Connection names, and the protocol's."""
    named = {
        token.strip().lower() for name, value in headers if name.lower() == "connection" for token in value.split(",")
    }
    return [
        (name, value)
        for name, value in headers
        if name.lower() not in _NOT_END_TO_END | named and not name.lower().startswith(wire.HEADER_PREFIX)
    ]


def _framed(headers: list[Header], call: Call) -> list[Header]:
    """The agent's headers as a frame has them (C-9)."""
    framed = [(name, wire.FRAME_MEDIA_TYPE if name.lower() == "content-type" else value) for name, value in headers]
    content_type = next((value for name, value in headers if name.lower() == "content-type"), None)
    if content_type is None:
        framed.append(("Content-Type", wire.FRAME_MEDIA_TYPE))
    restored = call.frame.content_type if call.frame else None
    expect(restored == content_type, f"the content type {content_type!r} in the frame", repr(restored))
    if call.request.values("Content-Encoding"):
        framed.append(("Content-Encoding", "gzip"))
    return framed
