# SPDX-License-Identifier: Apache-2.0
"""Both ends as processes, for the modules that need them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.conversation import Conversation, Received, receive
from support.endpoints import Endpoint
from support.ends import ServerProcess, ShimProcess
from support.interpreters import supported
from support.model_server import ModelCall, ModelServer
from support.shim_archive import build_shim
from support.watched_wire import Wire, watched_wire

ANSWER = b'{"choices":[{"message":{"role":"assistant","content":"ok"}}]}'


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim's one file."""
    return build_shim(tmp_path_factory.mktemp("dist"))


@dataclass
class Way:
    """Agent → shim → watched wire → server → model, each but the agent and the wire a process or server of its own."""

    model: ModelServer
    server: ServerProcess
    wire: Wire
    shim: ShimProcess

    def call(self, conversation: Conversation, agent: Endpoint | None = None) -> tuple[Endpoint, ModelCall]:
        """Send the conversation as it stands; the agent, and what reached the model."""
        agent = agent or self.shim.agent()
        agent.send(conversation.request())
        return agent, self.model.next_call()

    def succeed(self, conversation: Conversation, agent: Endpoint | None = None) -> Received:
        """The same, answered by the model in an ordinary way."""
        at, call = self.call(conversation, agent)
        call.respond(ANSWER, "Content-Type: application/json")
        received = receive(at)
        if agent is None:
            at.close()
        assert (received.status, received.body, received.ended) == (200, ANSWER, True)
        return received


@pytest.fixture(scope="module")
def way(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    """One for all tests of a module: each has conversations and rollouts of its own.

    Its shim runs on the oldest Python that there is; those of ``start`` run on this one.
    """
    folder = tmp_path_factory.mktemp("way")
    with ExitStack() as stack:
        model = stack.enter_context(ModelServer())
        server = stack.enter_context(ServerProcess(folder, model.origin))
        wire = stack.enter_context(watched_wire(server.origin))
        oldest = next(iter(supported().values()))
        shim = stack.enter_context(ShimProcess(archive, folder, wire.origin, python=oldest))
        yield Way(model, server, wire, shim)


@pytest.fixture
def start(archive: Path, tmp_path: Path) -> Iterator["Starter"]:
    """Starts what a test names, and stops all of it at its end."""
    with ExitStack() as stack:
        yield Starter(archive, tmp_path, stack)


class Starter:
    def __init__(self, archive: Path, folder: Path, stack: ExitStack) -> None:
        self._archive, self._folder, self._stack = archive, folder, stack
        self._shims = 0

    def model(self, behave: Callable[[ModelCall], object] | None = None, port: int = 0) -> ModelServer:
        return self._stack.enter_context(ModelServer(behave, port))

    def server(self, model: ModelServer, **settings: Any) -> ServerProcess:
        return self._stack.enter_context(ServerProcess(self._folder, model.origin, **settings))

    def wire(self, server: str) -> Wire:
        return self._stack.enter_context(watched_wire(server))

    def shim(self, upstream: str, *options: str, **more: Any) -> ShimProcess:
        self._shims += 1
        name = f"shim-{self._shims}"
        return self._stack.enter_context(
            ShimProcess(self._archive, self._folder, upstream, *options, name=name, **more)
        )

    def way(self, **settings: Any) -> Way:
        """The whole, for a test of its own."""
        model = self.model()
        server = self.server(model, **settings)
        wire = self.wire(server.origin)
        return Way(model, server, wire, self.shim(wire.origin))
