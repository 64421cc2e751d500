# SPDX-License-Identifier: Apache-2.0
"""The programs under test as processes of their own: started, waited for by their ready file, stopped."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

_START_WITHIN = 20.0
_STOP_WITHIN = 10.0
_LOOK_EVERY = 0.02

# The installed command, whether or not its script is on the path.
_HISTORY_DELTA = (sys.executable, "-c", "import sys; from history_delta_server.cli import main; sys.exit(main())")
SERVER_COMMAND = (*_HISTORY_DELTA, "serve")
SHIM_COMMAND = (*_HISTORY_DELTA, "shim", "serve")
# A wrapper for an agent's command, which follows ``--``.
SHIM_RUN_COMMAND = (*_HISTORY_DELTA, "shim", "run")


class StartError(RuntimeError):
    """A process ended, or said nothing, before it was ready; the message has the end of what it printed."""


class ReadyProcess:
    """A command that takes ``--ready-file`` and names its ``url`` there; use as an async context manager.

    What it prints goes to ``NAME.out`` and ``NAME.err`` in the folder. Settings of ours in the caller's environment do
    not reach it, except those given here.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.url = ""
        self.stderr = folder / f"{name}.err"
        self._name, self._command, self._folder = name, command, folder
        self._ready_file = folder / f"{name}.ready"
        self._environment = _without_ours(os.environ) | dict(environment)

    async def __aenter__(self) -> Self:
        self._ready_file.unlink(missing_ok=True)
        command = [*self._command, "--ready-file", str(self._ready_file)]
        with (self._folder / f"{self._name}.out").open("ab") as out, self.stderr.open("ab") as err:
            self._process = await asyncio.create_subprocess_exec(
                *command, env=self._environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
            )
        try:
            self.url = str((await self._ready())["url"])
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_WITHIN)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def kill(self) -> None:
        """End it as a crash would; what it held is gone."""
        self._process.kill()
        await self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def _ready(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_WITHIN
        while not self._ready_file.exists():
            if self._process.returncode is not None or loop.time() > deadline:
                said = self.stderr.read_text(errors="replace").strip().splitlines()[-3:]
                raise StartError(f"{self._name} did not start: {' / '.join(said) or 'it said nothing'}")
            await asyncio.sleep(_LOOK_EVERY)
        ready: dict[str, Any] = json.loads(self._ready_file.read_text())
        return ready


def _without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("HISTORY_DELTA_")}
