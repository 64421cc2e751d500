# SPDX-License-Identifier: Apache-2.0
"""What the server's tests share: a model server and an agent made of raw sockets, and the server between them.

Both ends keep every byte that they receive: what is compared is what stood on the wire.
"""

import asyncio
import io
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvloop
from aiohttp import web
from history_delta_protocol import chain, scan
from history_delta_protocol.dialect import CHAT, Dialect
from history_delta_protocol.frame import HELD, Frame, Result, encode
from history_delta_server.kinds import UPSTREAMS, Address
from history_delta_server.log import Log
from history_delta_server.serve import Server
from history_delta_server.settings import Settings

CHAT_PATH = "/ng-rollout/r1/v1/chat/completions"

Header = tuple[Any, Any]


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Any]:
    """Everything with a socket runs on both loops: their transports differ where it matters here."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


# --- HTTP/1.1, as a test reads it -------------------------------------------------------------------------------------


@dataclass
class Message:
    """A request or response: its start line, header list and body, and whether its end was seen."""

    start_line: bytes
    headers: list[Header]
    body: bytes = b""
    complete: bool = True
    was_reset: bool = False

    @property
    def status(self) -> int:
        return int(self.start_line.split(b" ")[1])

    @property
    def target(self) -> str:
        return self.start_line.split(b" ")[1].decode("latin-1")

    def all(self, name: str) -> list[str]:
        return [value.decode("latin-1") for key, value in self.headers if key.decode("latin-1").lower() == name.lower()]

    def one(self, name: str) -> str | None:
        values = self.all(name)
        assert len(values) < 2, (name, values)
        return values[0] if values else None

    @property
    def error(self) -> dict[str, Any]:
        """Of an error in either dialect's shape."""
        document: dict[str, Any] = json.loads(self.body)["error"]
        return document


async def read_head(reader: asyncio.StreamReader) -> Message:
    raw = await reader.readuntil(b"\r\n\r\n")
    lines = raw[:-4].split(b"\r\n")
    return Message(lines[0], [(line.split(b": ", 1)[0], line.split(b": ", 1)[1]) for line in lines[1:]])


async def read_body(reader: asyncio.StreamReader, message: Message, on_data: Callable[[bytes], None]) -> None:
    """By length, by chunks or to the end of the connection; raises where the end does not come."""
    if message.one("Transfer-Encoding") == "chunked":
        while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
            on_data(await reader.readexactly(size))
            assert await reader.readexactly(2) == b"\r\n"
        assert await reader.readexactly(2) == b"\r\n"
    elif message.one("Content-Length") is not None:
        left = int(str(message.one("Content-Length")))
        while left:
            data = await reader.read(min(left, 65536))
            if not data:
                raise asyncio.IncompleteReadError(b"", left)
            left -= len(data)
            on_data(data)
    elif message.start_line.startswith(b"HTTP/"):
        while data := await reader.read(65536):
            on_data(data)


# --- the model's side -------------------------------------------------------------------------------------------------


@dataclass
class Exchange:
    """One request at the model, and the means to answer it."""

    request: Message
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    closed: asyncio.Event

    async def write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, body: bytes = b"{}", status: bytes = b"200 OK", headers: bytes = b"") -> None:
        await self.write(b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body))

    async def stream(self, headers: bytes = b"") -> None:
        await self.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%b" % headers)
        await self.write(b"Transfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, data: bytes) -> None:
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        await self.write(b"0\r\n\r\n")

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def gone(self) -> None:
        """Until the server has closed this connection."""
        async with asyncio.timeout(10):
            await self.closed.wait()


Behaviour = Callable[[Exchange], Awaitable[None]]


async def answers_at_once(exchange: Exchange) -> None:
    await exchange.respond()


async def does_nothing(exchange: Exchange) -> None:
    """The test answers, by way of ``model.arrived``."""


@dataclass
class Model:
    """A model server; ``behaviour`` answers each request, on kept connections too."""

    behaviour: Behaviour = answers_at_once
    requests: list[Message] = field(default_factory=list)
    connections: int = 0
    arrived: asyncio.Queue[Exchange] = field(default_factory=asyncio.Queue)
    url: str = ""
    _server: asyncio.Server | None = None
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def __aenter__(self) -> "Model":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def stop(self) -> None:
        await self.__aexit__()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        closed = asyncio.Event()
        try:
            while True:
                request = await read_head(reader)
                body = bytearray()
                await read_body(reader, request, body.extend)
                request.body = bytes(body)
                self.requests.append(request)
                exchange = Exchange(request, reader, writer, closed)
                self.arrived.put_nowait(exchange)
                await self.behaviour(exchange)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            closed.set()
            writer.close()


# --- the agent's side -------------------------------------------------------------------------------------------------


def request_bytes(
    path: str = CHAT_PATH,
    body: bytes | None = b"{}",
    headers: list[tuple[str, str]] | None = None,
    method: str = "POST",
    version: str = "HTTP/1.1",
) -> bytes:
    lines = [f"{method} {path} {version}", "Host: sandbox", *(f"{name}: {value}" for name, value in headers or [])]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n" + (body or b"")


class Connection:
    """One connection from an agent (or a shim) to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self, *, head_only: bool = False) -> Message:
        """A whole response, or as much of one as came before the connection ended."""
        async with asyncio.timeout(20):
            return await self._receive(head_only)

    async def _receive(self, head_only: bool) -> Message:
        message = Message(b"", [], complete=False)
        body = bytearray()
        try:
            message = await read_head(self.reader)
            message.complete = False
            if not head_only and message.status not in (204, 304):
                await read_body(self.reader, message, body.extend)
            message.complete = True
        except asyncio.IncompleteReadError as error:
            body += error.partial
        except ConnectionResetError:
            message.was_reset = True
        message.body = bytes(body)
        return message

    async def piece(self) -> bytes:
        """One chunk of a streamed response."""
        async with asyncio.timeout(20):
            size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    def close(self) -> None:
        self.writer.close()


class Gateway:
    """The server under test, its log, and agents of it."""

    def __init__(self, server: Server, log: io.StringIO) -> None:
        self.server = server
        self._log = log
        self._connections: list[Connection] = []

    async def connect(self) -> Connection:
        address = self.server.address
        connection = Connection(*await asyncio.open_connection(address.host, address.port))
        self._connections.append(connection)
        return connection

    async def post(self, *args: Any, **kwargs: Any) -> Message:
        return await (await self.send(*args, **kwargs)).receive(head_only=kwargs.get("method") == "HEAD")

    async def send(self, *args: Any, **kwargs: Any) -> Connection:
        connection = await self.connect()
        await connection.send(request_bytes(*args, **kwargs))
        return connection

    def log(self, event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self._log.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]

    def metric(self, name: str, **labels: str) -> float:
        """0 where nothing was counted yet; a name, or labels, that no metric has are a test's mistake."""
        registry = self.server.app.metrics.registry
        metric = registry._names_to_collectors.get(f"history_delta_{name}")
        assert metric is not None, f"no metric has a sample named {name}"
        assert set(metric._labelnames) == set(labels), f"the labels of {name} are {metric._labelnames}"
        return registry.get_sample_value(f"history_delta_{name}", labels) or 0.0

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that no test can await."""
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


StartModel = Callable[..., Awaitable[Model]]
StartGateway = Callable[..., Awaitable[Gateway]]


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def start_model(stack: AsyncExitStack) -> StartModel:
    """``await start_model(behaviour)``; None: the test answers itself, by way of ``model.arrived``."""

    async def start(behaviour: Behaviour | None = answers_at_once) -> Model:
        return await stack.enter_async_context(Model(behaviour or does_nothing))

    return start


@pytest.fixture
def start_gateway(stack: AsyncExitStack) -> StartGateway:
    """``await start_gateway(model)``, enabled unless said otherwise, with any other setting by name."""

    async def start(*models: Model | str, **settings: Any) -> Gateway:
        urls = " ".join(model if isinstance(model, str) else model.url for model in models)
        free = Address("127.0.0.1", 0)
        log = io.StringIO()
        chosen = Settings(
            **{"enabled": True, "listen": free, "admin_listen": free, "upstream": UPSTREAMS.read(urls), **settings}
        )
        server = Server(chosen, Log("json", log))
        await server.start()
        gateway = Gateway(server, log)
        stack.push_async_callback(server.close)
        stack.callback(gateway.close)
        return gateway

    return start


Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
StartHandler = Callable[[Handler], Awaitable[Connection]]


@pytest.fixture
def start_handler(stack: AsyncExitStack) -> StartHandler:
    """``await start_handler(handler)``: an agent's connection to aiohttp's server, set up as front.py does it."""

    async def start(handler: Handler) -> Connection:
        server = web.Server(handler, handler_cancellation=True, auto_decompress=False, access_log=None)
        listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        stack.callback(listening.close)
        stack.push_async_callback(server.shutdown, 1)
        agent = Connection(*await asyncio.open_connection(*listening.sockets[0].getsockname()))
        stack.callback(agent.close)
        return agent

    return start


# --- the protocol, as a shim speaks it --------------------------------------------------------------------------------


class Shim:
    """Headers, bodies and frames of a shim."""

    delivery = "0123456789abcdef0123456789abcdef"

    def headers(self, *more: Header, delivery: str | None = delivery) -> list[tuple[str, str]]:
        headers = [("Content-Type", "application/json"), ("History-Delta-Version", "1")]
        return [*headers, *([("History-Delta-Delivery", delivery)] if delivery else []), *more]

    def frame_headers(self, *more: Header, delivery: str | None = delivery) -> list[tuple[str, str]]:
        return [("Content-Type", "application/vnd.history-delta"), *self.headers(*more, delivery=delivery)[1:]]

    def held(self, body: bytes, dialect: Dialect = CHAT) -> str:
        """What History-Delta-Held says of a body."""
        split = scan.split(body, dialect.history_key)
        values = chain.extend_over(chain.start(dialect.name), body, split.head_end, split.starts, split.ends)
        return f"{len(values)} {chain.to_text(values[-1] if values else chain.start(dialect.name))}"

    def frame(
        self,
        before: bytes | None,
        body: bytes,
        dialect: Dialect = CHAT,
        content_type: str | None = "application/json",
    ) -> bytes:
        """The frame for ``body``, whose history extends that of ``before``; None: one that needs nothing held."""
        split = scan.split(body, dialect.history_key)
        h0 = chain.start(dialect.name)
        values = [h0, *chain.extend_over(h0, body, split.head_end, split.starts, split.ends)]
        base = len(scan.split(before, dialect.history_key).ends) if before is not None else 0
        stops = [split.head_end, *split.ends]
        appended = [
            (body[stop:start], body[start:end])
            for stop, start, end in list(zip(stops, split.starts, split.ends, strict=False))[base:]
        ]
        head, tail = body[: split.head_end], body[split.tail_start :]
        result = Result(len(values) - 1, values[-1], chain.item_hash(head), chain.item_hash(tail), len(body))
        items = (head, tail) if before is None else (HELD, HELD)
        return encode(Frame(content_type, items[0], base, values[base], [], appended, items[1], result))

    def chat(self, *contents: str, extra: str = "") -> bytes:
        """A chat body; ``extra`` stands in its tail."""
        messages = ",".join(f'{{"role":"user","content":{json.dumps(content)}}}' for content in contents)
        return f'{{"model":"m","messages":[{messages}],"stream":true{extra}}}'.encode()


@pytest.fixture
def shim() -> Shim:
    return Shim()
