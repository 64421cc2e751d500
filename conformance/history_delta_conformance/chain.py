# SPDX-License-Identifier: Apache-2.0
"""Agent → relay → shim → relay → server → scripted model: the whole way of a request, on free ports of this machine.

Shim and server are real processes; the relays say what crossed the wire on either side of the shim. With the transport
off there is neither shim nor second relay; in process the shim is within the agent, and so is what records for it.
Nothing is judged here.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from enum import StrEnum
from pathlib import Path
from typing import Self

from .disturbances import Disturbances
from .httpx_recorder import FOLDER, VARIABLE, read_recorded
from .observer import Exchange
from .processes import SERVER_COMMAND, SHIM_COMMAND, SHIM_RUN_COMMAND, CommandProcess, Process, ReadyProcess
from .relay import Relay
from .scripted_model import Pace, Recorder, Scenario, ScriptedModel, no_pause

MODEL = "{model}"
_ANY_PORT = "127.0.0.1:0"
_ENABLED = {"HISTORY_DELTA_ENABLED": "1"}


class Mode(StrEnum):
    """Where the transport is: nowhere, in a process beside the agent, in the agent's own."""

    OFF = "off"
    PROXY = "proxy"
    IN_PROCESS = "in-process"


class Chain:
    """Use as an async context manager; ``origin`` is where the agent must be pointed, ``wrapper`` what must stand
    before its command and ``environment`` what its environment must hold.

    ``agent_side`` is what the agent sent, ``wire`` what reached the server (the same with the transport off), ``model``
    what reached the model. ``pending`` are the scenario's disturbances that have not struck. Logs and recordings are in
    the folder. ``server_command`` starts another server than ours: a command line with ``{listen}`` and ``{model}``.
    """

    def __init__(
        self,
        scenario: Scenario,
        folder: Path,
        mode: Mode = Mode.PROXY,
        pace: Pace = no_pause,
        server_command: str | None = None,
    ) -> None:
        self.scenario, self.folder, self.mode = scenario, folder, mode
        self._pace, self._server_command = pace, server_command
        self.shim_log = folder / "shim.log"
        self.server_log = folder / "server.err"
        self._recorded = folder / "httpx.jsonl"

    async def __aenter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._disturbances = Disturbances(self.scenario, self)
        async with AsyncExitStack() as stack:
            self._stack = stack
            recorder = Recorder(self.folder / "model")
            self.model = await stack.enter_async_context(ScriptedModel(self.scenario, recorder, pace=self._pace))
            await self._start_server("", enabled=self.mode != Mode.OFF)
            self.wire = self._entrance = await stack.enter_async_context(
                Relay(self.server.url, self._disturbances.at_wire)
            )
            if self.mode == Mode.PROXY:
                await self._start_shim("")
                self._entrance = await stack.enter_async_context(Relay(self.shim.url, self._disturbances.at_agent))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    @property
    def origin(self) -> str:
        return self._entrance.url

    @property
    def wrapper(self) -> tuple[str, ...]:
        if self.mode != Mode.IN_PROCESS:
            return ()
        options = ["--upstream", self.origin, "--log-file", str(self.shim_log), "--log-body-hash"]
        return (*SHIM_RUN_COMMAND, "--in-process", *options, "--")

    @property
    def environment(self) -> dict[str, str]:
        """The transport switched on, and a recorder of what the agent's HTTP client is given to send."""
        if self.mode != Mode.IN_PROCESS:
            return {}
        return _ENABLED | {"PYTHONPATH": str(FOLDER), VARIABLE: str(self._recorded)}

    @property
    def agent_side(self) -> list[Exchange]:
        return read_recorded(self._recorded) if self.mode == Mode.IN_PROCESS else self._entrance.exchanges

    @property
    def failures(self) -> list[str]:
        """What crossed a relay and was no HTTP/1.1."""
        return self._entrance.failures + (self.wire.failures if self.wire is not self._entrance else [])

    @property
    def pending(self) -> Sequence[str]:
        return [disturbance.kind for disturbance in self._disturbances.pending]

    async def lose_server_state(self) -> None:
        """The server crashes, and another takes its place."""
        await self._replace_server(enabled=self.mode != Mode.OFF)

    async def switch_off(self) -> None:
        await self._replace_server(enabled=False)

    async def restart_shim(self) -> None:
        listen = _listen(self.shim)
        await self.shim.kill()
        await self._start_shim(listen)

    async def _replace_server(self, enabled: bool) -> None:
        listen = _listen(self.server)
        await self.server.kill()
        await self._start_server(listen, enabled)

    async def _start_server(self, listen: str, enabled: bool) -> None:
        environment = _ENABLED if enabled else {}
        self.server = await self._stack.enter_async_context(
            self._our_server(listen, environment)
            if self._server_command is None
            else CommandProcess(
                "server", self._server_command, {MODEL: self.model.url}, self.folder, environment, listen
            )
        )

    def _our_server(self, listen: str, environment: dict[str, str]) -> Process:
        options = ["--upstream", self.model.url, "--listen", listen or _ANY_PORT, "--admin-listen", _ANY_PORT]
        return ReadyProcess("server", [*SERVER_COMMAND, *options, "--log-body-hash"], self.folder, environment)

    async def _start_shim(self, listen: str) -> None:
        options = ["--upstream", self.wire.url, "--listen", listen or _ANY_PORT, "--log-file", str(self.shim_log)]
        command = [*SHIM_COMMAND, *options, "--log-body-hash"]
        self.shim: Process = await self._stack.enter_async_context(ReadyProcess("shim", command, self.folder, _ENABLED))


def _listen(process: Process) -> str:
    return process.url.removeprefix("http://")
