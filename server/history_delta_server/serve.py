# SPDX-License-Identifier: Apache-2.0
"""The server as a process: from a configuration to listening sockets, and down again in order at SIGTERM."""

import asyncio
import contextlib
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from aiohttp import web

from . import __version__
from .admin import admin_app
from .app import App
from .config import ConfigError, load
from .front import FrontServer
from .kinds import Address
from .log import LibraryMessages, Log
from .settings import Settings

_TIDY_EVERY_SECONDS = 15.0
# After the calls in flight have ended or were cut: for what is still to be flushed to agents.
_LAST_WORDS_SECONDS = 1.0


def main(argv: Sequence[str]) -> int:
    """``history-delta serve``: runs until SIGTERM or SIGINT. Exit code 2: the configuration is at fault."""
    try:
        settings, only_check = load(argv)
        if only_check:
            print("the configuration is fine")
            return 0
        _raise_descriptor_limit()
        with asyncio.Runner(loop_factory=_loop_factory()) as runner, _ready_file(settings) as announce:
            runner.run(_serve(settings, announce))
    except ConfigError as error:
        print(f"history-delta serve: {error}", file=sys.stderr)
        return 2
    return 0


def _raise_descriptor_limit() -> None:
    """Each call takes two descriptors, and the usual soft limit of 1024 would be met long before ours."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Server:
    """The sandbox-facing server and its administration, in the running event loop."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self.app = App(settings, log)
        self._accepting = False
        self._front = web.ServerRunner(FrontServer(self.app, settings, log), shutdown_timeout=_LAST_WORDS_SECONDS)
        self._admin = web.AppRunner(admin_app(self.app.metrics, lambda: self._accepting), access_log=None)
        self.address = settings.listen
        self.admin_address = settings.admin_listen

    async def start(self) -> None:
        """Raises ConfigError where an address cannot be had."""
        self.address = await _listen(self._front, self._settings.listen, "--listen")
        self.admin_address = await _listen(self._admin, self._settings.admin_listen, "--admin-listen")
        self._accepting = True

    async def drain(self, seconds: float) -> None:
        """No new connections; until no call is in flight, or for so long."""
        self._accepting = False
        for site in self._front.sites:
            await site.stop()
        if self._front.server is not None:
            # Connections that agents keep are closed once they are idle.
            self._front.server.pre_shutdown()
        await self.app.drain(seconds)

    async def close(self) -> None:
        """What is still in flight is cut."""
        await self.app.close()
        await self._front.cleanup()
        await self._admin.cleanup()


async def _serve(settings: Settings, announce: Callable[[Server], None]) -> None:
    log = Log(settings.log_format)
    _take_library_messages(log)
    stop = _stop_signal()
    server = Server(settings, log)
    try:
        await server.start()
        announce(server)
        await _tidying(server.app, stop)
        log.event("stopping", calls_in_flight=server.app.calls_in_flight)
        await server.drain(settings.shutdown_seconds)
    finally:
        await server.close()


async def _tidying(app: App, stop: asyncio.Event) -> None:
    """Until it is time to stop: what is held too long goes, also where no call comes to see to it."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), _TIDY_EVERY_SECONDS)
        app.expire()


async def _listen(runner: web.BaseRunner, address: Address, flag: str) -> Address:
    """The address that was got, which differs where port 0 was asked for."""
    await runner.setup()
    site: web.BaseSite
    if address.path is not None:
        site = web.UnixSite(runner, address.path)
    else:
        site = web.TCPSite(runner, address.host, address.port, backlog=1024, reuse_address=True)
    try:
        await site.start()
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise ConfigError(f"{flag}: cannot listen on {address} ({reason}); set another address") from error
    return address if address.path is not None else Address(address.host, runner.addresses[0][1])


@contextlib.contextmanager
def _ready_file(settings: Settings) -> Iterator[Callable[[Server], None]]:
    """Gives what says that requests are accepted: one line, and the file, which goes when the server does."""

    def announce(server: Server) -> None:
        url = f"http://{server.address}"
        admin = server.admin_address
        admin_url = str(admin) if admin.path is not None else f"http://{admin}"
        models = ", ".join(str(upstream) for upstream in settings.upstream)
        mode = "on" if settings.enabled else "off, a plain proxy"
        if settings.ready_file:
            _write(
                settings.ready_file, {"url": url, "admin_url": admin_url, "pid": os.getpid(), "version": __version__}
            )
            written.append(Path(settings.ready_file))
        # Nobody may read it.
        with contextlib.suppress(OSError):
            print(f"history-delta {__version__} ready on {url}, admin on {admin_url}, for {models}; {mode}", flush=True)

    # Only what this process has written is its own to remove: another may be serving already.
    written: list[Path] = []
    try:
        yield announce
    finally:
        for path in written:
            path.unlink(missing_ok=True)


def _write(path: str, content: dict[str, object]) -> None:
    """In one step: a reader sees all of it or no file."""
    partial = Path(f"{path}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(content) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise ConfigError(f"--ready-file: cannot write {path} ({error.strerror}); expected a writable place") from error


def _stop_signal() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; a second one ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def first(number: int) -> None:
        stop.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, first, number)
    return stop


def _take_library_messages(log: Log) -> None:
    for name in ("aiohttp", "asyncio", "history_delta_server"):
        logger = logging.getLogger(name)
        logger.handlers = [LibraryMessages(log)]
        logger.propagate = False


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None
