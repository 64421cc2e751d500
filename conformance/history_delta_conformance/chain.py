# SPDX-License-Identifier: Apache-2.0
"""Agent → relay → shim → relay → server → scripted model: the whole way of a request, on free ports of this machine.

Shim and server are real processes; the relays say what crossed the wire on either side of the shim. With the transport
off there is neither shim nor second relay. Nothing is judged here.
"""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from .processes import SERVER_COMMAND, SHIM_COMMAND, ReadyProcess
from .relay import Relay
from .scripted_model import Pace, Recorder, Scenario, ScriptedModel, no_pause

_ENABLED = {"HISTORY_DELTA_ENABLED": "1"}


class Chain:
    """Use as an async context manager; ``origin`` is where the agent must be pointed.

    ``agent_side`` records what the agent sent, ``wire`` what reached the server (the same relay with the transport
    off), ``model`` what reached the model. Logs and recordings are in the folder.
    """

    def __init__(self, scenario: Scenario, folder: Path, transport: bool = True, pace: Pace = no_pause) -> None:
        self.scenario, self.folder, self.transport, self._pace = scenario, folder, transport, pace
        self.shim_log = folder / "shim.log"
        self.server_log = folder / "server.err"

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        async with AsyncExitStack() as stack:
            recorder = Recorder(self.folder / "model")
            self.model = await stack.enter_async_context(ScriptedModel(self.scenario, recorder, pace=self._pace))
            self.server = await stack.enter_async_context(self._server(self.model.url))
            self.wire = self.agent_side = await stack.enter_async_context(Relay(self.server.url))
            if self.transport:
                self.shim = await stack.enter_async_context(self._shim(self.wire.url))
                self.agent_side = await stack.enter_async_context(Relay(self.shim.url))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    @property
    def origin(self) -> str:
        return self.agent_side.url

    def _server(self, upstream: str) -> ReadyProcess:
        options = ["--upstream", upstream, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        command = [*SERVER_COMMAND, *options, "--log-body-hash"]
        return ReadyProcess("server", command, self.folder, _ENABLED if self.transport else {})

    def _shim(self, upstream: str) -> ReadyProcess:
        options = ["--upstream", upstream, "--listen", "127.0.0.1:0", "--log-file", str(self.shim_log)]
        return ReadyProcess("shim", [*SHIM_COMMAND, *options, "--log-body-hash"], self.folder, _ENABLED)
