# SPDX-License-Identifier: Apache-2.0
"""The shim under test as a process: started with the command that was given, waited for until it takes connections.

The command is told its addresses by the placeholders ``{upstream}``, ``{listen}`` and, where it has it, ``{rollout}``.
"""

import asyncio
import contextlib
import os
import shlex
import signal
import socket
import subprocess
import tempfile
from typing import Self

ROLLOUT = "conformance-1"
_START_SECONDS = 20.0
_STOP_SECONDS = 3.0
_LOOK_EVERY = 0.01


class CannotStart(Exception):
    """The shim ended, or took no connection in time; one line says which, with the end of what it printed."""


class BadCommand(ValueError):
    """A command that cannot be used; one line says why."""


class Command:
    """A shim's command line with placeholders. Raises BadCommand."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise BadCommand(str(error)) from error
        for placeholder in ("{upstream}", "{listen}"):
            if not any(placeholder in word for word in self._words):
                raise BadCommand(f"expected {placeholder} in it, got {text!r}")
        self.names_rollout = any("{rollout}" in word for word in self._words)

    def filled_in(self, upstream: str, listen: str) -> list[str]:
        values = {"{upstream}": upstream, "{listen}": listen, "{rollout}": ROLLOUT}
        words = self._words
        for placeholder, value in values.items():
            words = [word.replace(placeholder, value) for word in words]
        return words


class Shim:
    """A running shim; use as an async context manager. What it prints is kept to be quoted. Raises CannotStart."""

    def __init__(self, command: Command, upstream: str) -> None:
        self.port = _free_port()
        self._words = command.filled_in(upstream, f"127.0.0.1:{self.port}")

    async def __aenter__(self) -> Self:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __aexit__
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._words,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a command may be a wrapper: what it starts is stopped with it
            )
        except OSError as error:
            raise CannotStart(f"cannot start the shim: {error}") from error
        try:
            await self._ready()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _STOP_SECONDS)
        self._signal(signal.SIGKILL)
        await self._process.wait()
        self._said.close()

    async def _ready(self) -> None:
        deadline = asyncio.get_running_loop().time() + _START_SECONDS
        while not await self._takes_connections():
            if self._process.returncode is not None:
                raise CannotStart(f"the shim ended with {self._process.returncode}: {self._last_words()}")
            if asyncio.get_running_loop().time() > deadline:
                raise CannotStart(f"the shim took no connection within {_START_SECONDS:g} s: {self._last_words()}")
            await asyncio.sleep(_LOOK_EVERY)

    async def _takes_connections(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def _last_words(self) -> str:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()[-3:]
        return " / ".join(lines) or "it said nothing"

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _environment() -> dict[str, str]:
    """Nothing of ours but that the protocol is on; no proxy stands between the shim and the case's server."""
    ignored = ("HISTORY_DELTA_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(ignored)}
    return kept | {"HISTORY_DELTA_ENABLED": "1"}


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
