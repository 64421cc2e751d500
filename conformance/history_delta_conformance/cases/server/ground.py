# SPDX-License-Identifier: Apache-2.0
"""Where the cases for servers run: the model that listens, and a server that was started with it as its upstream.

A server that runs already is taken as it is; one that is given as a command is started, also once more with the
protocol switched off where a case needs that, and stopped afterwards.
"""

import argparse
import asyncio
import contextlib
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

from history_delta_protocol import wire as names

from ...processes import LISTEN, BadCommand, CommandProcess, StartError
from ..base import Case, CaseFailed, NotRun
from ..options import CannotRun
from ..runner import OpenTarget
from ..transcript import Transcript
from .model import Model
from .target import Server, Target, open_target

MODEL = "{model}"
EXAMPLE = f"history-delta serve --listen {LISTEN} --upstream {MODEL} --admin-listen 127.0.0.1:0"
_SWITCH = "HISTORY_DELTA_ENABLED"

Address = tuple[str, int]


def address(text: str) -> Address:
    """HOST:PORT. Raises argparse's error."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, got {text!r}")
    return host.strip("[]"), int(port)


class Ground:
    """Use as an async context manager; gives what opens a case's target. Raises CannotRun."""

    def __init__(self, url: str | None, command: str | None, model_listen: Address) -> None:
        self._url, self._command = url, command
        self._model = Model() if command else Model(*model_listen)
        self._stack = AsyncExitStack()
        self._off: Server | None = None
        self._one_at_a_time = asyncio.Lock()

    async def __aenter__(self) -> OpenTarget:
        try:
            await self._listen()
            self._server = await self._start("1") if self._command else _running(self._url or "")
            await self._probe()
        except BaseException:
            await self._stack.aclose()
            raise
        return self._open

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def _open(self, case: Case, transcript: Transcript) -> contextlib.AbstractAsyncContextManager[Target]:
        return open_target(self._server, self._model, transcript, self._switched_off)

    async def _listen(self) -> None:
        endpoint = self._model.endpoint
        try:
            await self._stack.enter_async_context(endpoint)
        except OSError as error:
            raise CannotRun(
                f"--model-listen: cannot listen on {endpoint.host}:{endpoint.port}: {error.strerror}"
            ) from None

    async def _start(self, switch: str) -> Server:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        values = {MODEL: self._model.endpoint.origin}
        try:
            process = CommandProcess("server", self._command or "", values, folder, {_SWITCH: switch})
            await self._stack.enter_async_context(process)
        except (BadCommand, StartError) as error:
            raise CannotRun(f"--command: {error}") from None
        return Server("127.0.0.1", process.port, process.pid)

    async def _switched_off(self) -> Server:
        if not self._command:
            raise NotRun("a server with the protocol switched off is started with --command alone")
        async with self._one_at_a_time:
            if self._off is None:
                self._off = await self._start("0")
        return self._off

    async def _probe(self) -> None:
        """One call through the server: without its model behind it, every case would fail."""
        endpoint, server = self._model.endpoint, self._server
        advice = f"start the server with {endpoint.origin} as its only upstream (see --model-listen)"
        transcript = Transcript()
        try:
            async with open_target(server, self._model, transcript, self._switched_off) as target:
                response = await target.full(b'{"messages":[]}')
                reached = bool(target.model.calls)
        except (OSError, TimeoutError) as error:
            raise CannotRun(f"no server at {server.authority}: {error}; {advice}") from None
        except CaseFailed as error:
            raise CannotRun(f"the server at {server.authority} does not answer a call: {error}; {advice}") from None
        if not reached:
            raise CannotRun(
                f"a call to {server.authority} did not reach the model at {endpoint.origin} "
                f"(it was answered with {response.status}): {advice}"
            )
        if response.value(names.VERSION_HEADER) is None:
            raise CannotRun(
                f"the server at {server.authority} answered a call without {names.VERSION_HEADER}: it does not speak "
                f"the protocol, or it is switched off (this project's is switched on with {_SWITCH}=1)"
            )


def _running(url: str) -> Server:
    parts = urlsplit(url)
    try:
        port = parts.port or 80
    except ValueError:
        port = 0
    if parts.scheme != "http" or not parts.hostname or not port or parts.path.strip("/"):
        raise CannotRun(f"--url: expected http://HOST:PORT, got {url!r}")
    return Server(parts.hostname, port)
