# SPDX-License-Identifier: Apache-2.0
"""The programs under test as processes of their own: started, waited for, stopped with all that they started.

Ours say where they listen in a ready file; one that a user's command line starts is given an address and is ready once
it takes connections there.
"""

import asyncio
import contextlib
import errno
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

_START_WITHIN = 20.0
_LOOK_EVERY = 0.02
_LAST_LINES = 3
# Of the caller's environment: settings of ours, and proxies, since all that is run here is on loopback.
_NOT_INHERITED = ("HISTORY_DELTA_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")

# The installed command, whether or not its script is on the path.
_HISTORY_DELTA = (sys.executable, "-c", "import sys; from history_delta_server.cli import main; sys.exit(main())")
SERVER_COMMAND = (*_HISTORY_DELTA, "serve")
SHIM_COMMAND = (*_HISTORY_DELTA, "shim", "serve")
# A wrapper for an agent's command, which follows ``--``.
SHIM_RUN_COMMAND = (*_HISTORY_DELTA, "shim", "run")

LISTEN = "{listen}"

# Below those that systems give to who asks for any: such a one could be somebody else's before the command binds it.
_PORTS = range(20000, 32768)


class StartError(RuntimeError):
    """A process ended, or said nothing, before it was ready; the message has the end of what it printed."""


class BadCommand(ValueError):
    """A command line that cannot be used; the message says why."""


class Process(ABC):
    """A running program with a ``url``; use as an async context manager. Raises StartError.

    What it prints goes to ``NAME.out`` and ``NAME.err`` in the folder, behind what an earlier one of that name printed.
    Settings of ours and proxies in the caller's environment do not reach it, except those given here.
    After ``stop_within`` seconds, one that was told to stop is killed.
    """

    stop_within = 10.0

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.url = ""
        self.stdout = folder / f"{name}.out"
        self.stderr = folder / f"{name}.err"
        self._name, self._command = name, command
        self._environment = _inherited(os.environ) | dict(environment)

    async def __aenter__(self) -> Self:
        with self.stdout.open("ab") as out, self.stderr.open("ab") as err:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,  # a command may be a wrapper: what it starts is stopped with it
                )
            except OSError as error:
                raise StartError(f"{self._name} did not start: {self._command[0]}: {error.strerror}") from error
        try:
            await self._until_ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._signal(signal.SIGTERM)
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), self.stop_within)
        finally:
            await self.kill()

    async def kill(self) -> None:
        """End it as a crash would; what it held is gone."""
        self._signal(signal.SIGKILL)
        await self._process.wait()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def port(self) -> int:
        """Of its ``url``."""
        return int(self.url.rpartition(":")[2])

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    @abstractmethod
    async def _is_ready(self) -> bool:
        """Whether it takes connections; ``url`` is known then."""

    async def _until_ready(self) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _START_WITHIN
        while not await self._is_ready():
            if not self.is_running:
                raise StartError(
                    f"{self._name} did not start: {self._last_words()} (it ended with {self._process.returncode})"
                )
            if loop.time() > deadline:
                raise StartError(f"{self._name} was not ready within {_START_WITHIN:g} s: {self._last_words()}")
            await asyncio.sleep(_LOOK_EVERY)

    def _last_words(self) -> str:
        for file in (self.stderr, self.stdout):
            if said := file.read_text(errors="replace").strip().splitlines():
                return " / ".join(said[-_LAST_LINES:])
        return "it said nothing"

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


class ReadyProcess(Process):
    """A command that takes ``--ready-file`` and names its ``url`` there."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self._ready_file = folder / f"{name}.ready"
        super().__init__(name, [*command, "--ready-file", str(self._ready_file)], folder, environment)

    async def __aenter__(self) -> Self:
        self._ready_file.unlink(missing_ok=True)
        return await super().__aenter__()

    async def _is_ready(self) -> bool:
        if not self._ready_file.exists():
            return False
        self.url = str(json.loads(self._ready_file.read_text())["url"])
        return True


class CommandProcess(Process):
    """A user's command line, with ``{listen}`` and the given placeholders filled in. Raises BadCommand.

    ``listen`` is HOST:PORT; a free port is taken where there is none.
    """

    def __init__(
        self,
        name: str,
        command: str,
        values: Mapping[str, str],
        folder: Path,
        environment: Mapping[str, str],
        listen: str = "",
    ) -> None:
        fill_in(command, {LISTEN: "", **values})  # raises before a port is taken
        self._held = contextlib.ExitStack()
        listen = listen or f"127.0.0.1:{self._held.enter_context(hold_port()).getsockname()[1]}"
        super().__init__(name, fill_in(command, {LISTEN: listen, **values}), folder, environment)
        self.url = f"http://{listen}"

    async def __aenter__(self) -> Self:
        try:
            return await super().__aenter__()
        except BaseException:
            self._held.close()
            raise

    async def __aexit__(self, *exc_info: object) -> None:
        try:
            await super().__aexit__()
        finally:
            self._held.close()

    async def _is_ready(self) -> bool:
        host = self.url.removeprefix("http://").rpartition(":")[0]
        try:
            _, writer = await asyncio.open_connection(host, self.port)
        except OSError:
            return False
        writer.close()
        return True


def fill_in(command: str, values: Mapping[str, str]) -> list[str]:
    """A command line's words with its placeholders replaced; each must be there. Raises BadCommand."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadCommand(f"{error}: {command!r}") from error
    for placeholder, value in values.items():
        if not any(placeholder in word for word in words):
            raise BadCommand(f"expected {placeholder} in it, got {command!r}")
        words = [word.replace(placeholder, value) for word in words]
    return words


def hold_port() -> socket.socket:
    """A free TCP port of 127.0.0.1, which is given to no other caller, in whatever process, before this is closed.

    What is returned is a UDP socket of the same address: it takes nothing from who is to listen there. Raises OSError.
    """
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            held.bind(("127.0.0.1", port))
            with socket.socket() as free:
                free.bind(("127.0.0.1", port))
            return held
        except OSError:
            held.close()
    raise OSError(errno.EADDRINUSE, f"no free port from {min(_PORTS)} to {max(_PORTS)}")


def _inherited(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.upper().startswith(_NOT_INHERITED)}
