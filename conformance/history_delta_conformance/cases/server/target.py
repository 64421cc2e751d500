# SPDX-License-Identifier: Apache-2.0
"""What a case for servers has to do with: connections to the server, ready-made requests, and the model behind it."""

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from history_delta_protocol import wire as names

from ..base import CaseFailed, NotRun
from ..check import expect, is_ours, same_octets, status, told
from ..frames import delta, encoded
from ..transcript import Transcript
from ..wire import Connection, Header, Response, request_head
from .model import Model, fence_body

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
JSON = "application/json"
FRAME = names.FRAME_MEDIA_TYPE


@dataclass(frozen=True)
class Server:
    """A server under test as it runs; ``pid`` where the harness has started it."""

    host: str
    port: int
    pid: int | None = None

    @property
    def authority(self) -> str:
        return f"{self.host}:{self.port}"


def new_id() -> str:
    """32 characters of hex: a delivery id, or a rollout's."""
    return secrets.token_hex(16)


class Target:
    """One case's means. ``rollout`` is its own; so is every path that ``path`` gives."""

    def __init__(
        self,
        server: Server,
        model: Model,
        transcript: Transcript,
        start_switched_off: Callable[[], Awaitable[Server]],
        stack: AsyncExitStack,
    ) -> None:
        self.server = server
        self.endpoint = model.endpoint
        self.transcript = transcript
        self.token = f"case-{secrets.token_hex(8)}"
        self.rollout = f"r-{secrets.token_hex(8)}"
        self.model = model.view(self.token)
        self._all_of_model = model
        self._start_switched_off = start_switched_off
        self._stack = stack
        self._stack.callback(model.forget, self.token)
        self._connections = 0

    async def switched_off(self) -> "Target":
        """The same case at a server on which the protocol is off. Raises NotRun where there is none to be had."""
        server = await self._start_switched_off()
        return Target(server, self._all_of_model, self.transcript, self._start_switched_off, self._stack)

    # Requests.

    def path(self, dialect: str = "chat", *, prefix: str = "") -> str:
        return f"/{self.token}{prefix}{PATHS[dialect]}"

    def headers(
        self,
        length: int | None,
        *,
        content_type: str | None = JSON,
        version: str | None = "1",
        delivery: str | None = None,
        rollout: str | None = None,
        extra: Iterable[Header] = (),
    ) -> list[Header]:
        """A shim's headers round ``extra``, those of an agent; what is None is left out."""
        made: list[Header | None] = [
            ("Host", self.server.authority),
            (content_type is not None and ("Content-Type", content_type)) or None,
            *extra,
            (length is not None and ("Content-Length", str(length))) or None,
            (version is not None and (names.VERSION_HEADER, version)) or None,
            (delivery is not None and (names.DELIVERY_HEADER, delivery)) or None,
            (rollout is not None and (names.ROLLOUT_HEADER, rollout)) or None,
        ]
        return [header for header in made if header is not None]

    async def connect(self) -> Connection:
        """A new connection to the server, which is closed with the case."""
        self._connections += 1
        name = f"connection {self._connections}"
        made = await Connection.open(self.server.host, self.server.port, self.transcript, name)
        self._stack.push_async_callback(made.close)
        return made

    async def exchange(self, request: bytes, method: str = "POST") -> Response:
        """Octets out on a new connection, and the response to them."""
        connection = await self.connect()
        await connection.send(request)
        return await connection.read_response(method)

    def full_request(
        self,
        body: bytes,
        *,
        dialect: str = "chat",
        target: str | None = None,
        rollout: str | None = "",
        delivery: str | None = "",
        content_type: str | None = JSON,
        version: str | None = "1",
        extra: Iterable[Header] = (),
    ) -> bytes:
        """The agent's own request as a shim sends it, as octets. An empty rollout or delivery is filled in."""
        headers = self.headers(
            len(body),
            content_type=content_type,
            version=version,
            delivery=new_id() if delivery == "" else delivery,
            rollout=self.rollout if rollout == "" else rollout,
            extra=extra,
        )
        return request_head("POST", target or self.path(dialect), headers) + body

    def frame_request(
        self, frame: bytes, *, content_type: str | None = FRAME, extra: Iterable[Header] = (), **options: Any
    ) -> bytes:
        """The same with a frame in place of its body."""
        return self.full_request(frame, content_type=content_type, extra=extra, **options)

    async def full(self, body: bytes, **options: Any) -> Response:
        return await self.exchange(self.full_request(body, **options))

    async def frame(self, frame: bytes, **options: Any) -> Response:
        return await self.exchange(self.frame_request(frame, **options))

    # What must have come of them.

    async def hold(self, body: bytes, **options: Any) -> Response:
        """A full send that the server says it holds; raises NotRun where it holds nothing. The model forgets it."""
        response = await self.full(body, **options)
        status(response, 200)
        if response.value(names.HELD_HEADER) is None:
            raise NotRun("the server holds nothing of a full send (case 2.5)")
        self.model.calls.clear()
        return response

    async def taken(self, body: bytes, response: Response) -> None:
        """Exactly this body has reached the model, once, and its answer has come back."""
        expect(response.status == 200, "the model's answer, with status 200", told(response))
        same_octets("the body at the model", self.model.only().request.body, body)

    async def nothing_arrived(self, count: int = 0) -> None:
        """The model has seen no more than ``count`` calls of this case, also once a later one has passed."""
        response = await self.full(fence_body(self.token), rollout=f"r-{secrets.token_hex(8)}")
        status(response, 200)
        seen = [f"{call.request.method} {call.request.target}" for call in self.model.calls]
        expect(
            len(seen) == count,
            f"{count or 'no'} call{'s' * (count != 1)} at the model",
            f"{len(seen)} calls: {'; '.join(seen)}",
        )

    async def still_held(self, body: bytes, dialect: str = "chat") -> None:
        """What is held of a body is as it was: a frame that appends nothing to it is taken."""
        self.model.calls.clear()
        response = await self.frame(encoded(delta(body, body, dialect)), dialect=dialect)
        await self.taken(body, response)
        self.model.calls.clear()

    async def capabilities(self) -> dict[str, Any]:
        """The server's own document. Fails the case where there is none."""
        target = f"/{self.token}/v1{names.CAPABILITIES_SUFFIX}"
        head = request_head("GET", target, [("Host", self.server.authority)])
        response = await self.exchange(head, "GET")
        status(response, 200)
        try:
            document = json.loads(response.body)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise CaseFailed("capabilities as a JSON object", told(response))
        return document

    async def limit(self, name: str, default: int) -> int:
        """A limit of the capabilities, or what holds without it."""
        limits = (await self.capabilities()).get("limits")
        value = limits.get(name) if isinstance(limits, dict) else None
        return value if type(value) is int else default

    async def needs_gzip(self) -> None:
        if "gzip" not in (await self.capabilities()).get("encodings", ()):
            raise NotRun("the server does not advertise gzip")


def ours(headers: Sequence[Header]) -> list[Header]:
    return [header for header in headers if is_ours(header[0])]


@asynccontextmanager
async def open_target(
    server: Server, model: Model, transcript: Transcript, start_switched_off: Callable[[], Awaitable[Server]]
) -> AsyncIterator[Target]:
    """A case's target; what the case has opened is closed afterwards."""
    async with AsyncExitStack() as stack:
        yield Target(server, model, transcript, start_switched_off, stack)
