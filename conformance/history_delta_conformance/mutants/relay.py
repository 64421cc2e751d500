# SPDX-License-Identifier: Apache-2.0
"""An HTTP relay that lets one mutant at each request and its response on the way to a target.

Unlike the recording relay it parses and writes anew what passes. It is no proxy for use: one request after the other on
a connection, a body in memory, a new connection to the target for each request.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Self

import h11

from ..relay import address_of
from .mutant import Mutant, Request

_MAX_HEAD = 256 * 1024
_CHUNK = 64 * 1024
_FRAMING = (b"content-length", b"transfer-encoding", b"connection")


class MutatingRelay:
    """Use as an async context manager; ``target``, an origin, must be set before the first request comes."""

    def __init__(self, mutant: Mutant) -> None:
        self.target = ""
        self._mutant = mutant
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = "http://{}:{}".format(*listener.getsockname())
        self._server = await asyncio.start_server(self._accept, sock=listener)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, h11.ProtocolError):
            pass  # An end went away; the close below tells the other.
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        agent = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
        while (request := await _read_request(agent, reader)) is not None:
            *before, last = await self._mutant.requests(request)
            for extra in before:
                async for _ in _events(self.target, extra):
                    pass
            async for event in _events(self.target, last):
                writer.write(self._relayed(agent, event))
                await writer.drain()
            if agent.our_state is h11.SEND_BODY and self._mutant.ends_what_is_cut():
                writer.write(agent.send(h11.EndOfMessage()) or b"")
            if agent.our_state is not h11.DONE:
                return  # cut, as the model did it
            agent.start_next_cycle()

    def _relayed(self, agent: h11.Connection, event: h11.Event) -> bytes:
        if isinstance(event, h11.Response):
            status = self._mutant.status(event.status_code)
            return agent.send(h11.Response(status_code=status, headers=_response_headers(event))) or b""
        if isinstance(event, h11.Data):
            data = self._mutant.response_data(bytes(event.data))
            return (agent.send(h11.Data(data=data)) or b"") if data else b""
        return agent.send(event) or b""


async def _read_request(agent: h11.Connection, reader: asyncio.StreamReader) -> Request | None:
    """None where the agent closes."""
    head, body = None, b""
    while True:
        event = agent.next_event()
        if event is h11.NEED_DATA:
            agent.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return Request(head.method, head.target, list(head.headers.raw_items()), body)
        else:
            return None


async def _events(target: str, request: Request) -> AsyncIterator[h11.Event]:
    """The events of the response, up to its end or to where it is cut."""
    model = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)
    reader, writer = await asyncio.open_connection(*address_of(target))
    try:
        writer.write(b"".join(_written(model, request)))
        while model.their_state is not h11.DONE:
            event = model.next_event()
            if isinstance(event, h11.Event):
                yield event
            else:
                model.receive_data(await reader.read(_CHUNK))
    except (h11.RemoteProtocolError, OSError):
        return
    finally:
        writer.close()


def _written(model: h11.Connection, request: Request) -> Iterator[bytes]:
    headers = [(name, value) for name, value in request.headers if name.lower() not in _FRAMING]
    if request.body:
        headers.append((b"Content-Length", b"%d" % len(request.body)))
    yield model.send(h11.Request(method=request.method, target=request.target, headers=headers)) or b""
    if request.body:
        yield model.send(h11.Data(data=request.body)) or b""
    yield model.send(h11.EndOfMessage()) or b""


def _response_headers(response: h11.Response) -> list[tuple[bytes, bytes]]:
    """Without a length, so that data may be left out: h11 sends chunks then."""
    return [(name, value) for name, value in response.headers.raw_items() if name.lower() not in _FRAMING]
