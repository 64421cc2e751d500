# SPDX-License-Identifier: Apache-2.0
"""A response on its way from the upstream to the agent, piece by piece as it comes, framed as the agent can take it.

A length stays a length and chunks stay chunks. A body that ends with its connection becomes chunks, since undici takes
even a reset for its end; only an agent of HTTP/1.0 gets it, or chunks, as it was.
"""

from typing import Any, List, NamedTuple

from . import http1, http1_body
from .agent_connection import AgentConnection
from .connection import Broken, Connection
from .headers import FRAMING, Headers, end_to_end


class Framing(NamedTuple):
    """How the agent is told where the body ends; neither: by its length."""

    chunked: bool
    until_close: bool


def framing_for(connection: Connection, request: http1.Request) -> Framing:
    """How the body of the response that is being read on the connection is framed for the agent."""
    without_length = not isinstance(connection.reader.framing, http1_body.Length)
    old = request.version == "1.0"
    return Framing(without_length and not old, without_length and old)


def head_for(response: http1.Response, headers: Headers, framing: Framing, keep: bool) -> bytes:
    """The head that the agent gets."""
    headers = end_to_end(headers)
    if framing.chunked:
        headers.append(("Transfer-Encoding", "chunked"))
    if not keep:
        headers.append(("Connection", "close"))
    return http1.response_head(response.status, response.reason, headers)


def relay(agent: AgentConnection, connection: Connection, head: bytes, framing: Framing) -> None:
    """Pass the response on to its end, each time as much as has come.

    Raises AgentLeft, and Broken once all that came before the break has been passed on.
    """
    out = [head]
    event: Any = None
    while not isinstance(event, http1.End):
        try:
            event = connection.buffered_event()
            if event is http1.NEED_DATA:
                out = _flush(agent, out)
                connection.fill(agent.departure)
        except Broken:
            _flush(agent, out)
            raise
        if event is not http1.NEED_DATA:
            out.append(_framed(event, framing.chunked))
    _flush(agent, out)


def _flush(agent: AgentConnection, out: List[bytes]) -> List[bytes]:
    agent.send(b"".join(out))
    return []


def _framed(event: Any, chunked: bool) -> bytes:
    if isinstance(event, http1.Data):
        return http1.chunk(event.data) if chunked else event.data
    return http1.last_chunk(end_to_end(event.trailers, without=FRAMING)) if chunked else b""
