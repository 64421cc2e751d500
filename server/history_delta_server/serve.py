# SPDX-License-Identifier: Apache-2.0
"""The server as a process: from a configuration to listening sockets, and down again in order at SIGTERM."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from aiohttp import web

from . import __version__
from .admin import admin_app
from .app import App
from .config import ConfigError, load
from .kinds import Address
from .log import LibraryMessages, Log
from .settings import Settings

# After the calls in flight have ended or were cut: for what is still to be flushed to agents.
_LAST_WORDS_SECONDS = 1.0


def main(argv: Sequence[str]) -> int:
    """``history-delta serve``: runs until SIGTERM or SIGINT. Exit code 2: the configuration is at fault."""
    try:
        settings, only_check = load(argv)
        if only_check:
            print("the configuration is fine")
            return 0
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(serve(settings))
        finally:
            if settings.ready_file:
                Path(settings.ready_file).unlink(missing_ok=True)
    except ConfigError as error:
        print(f"history-delta serve: {error}", file=sys.stderr)
        return 2
    return 0


async def serve(settings: Settings) -> None:
    """Serve until a signal says to stop. Raises ConfigError where an address cannot be had."""
    log = Log(settings.log_format)
    _route_library_messages(log)
    stop = _stop_signal()
    app = App(settings, log)
    front = web.ServerRunner(_server(app, settings), shutdown_timeout=_LAST_WORDS_SECONDS)
    admin = web.AppRunner(admin_app(app.metrics, lambda: not stop.is_set()), access_log=None)
    try:
        address = await _listen(front, settings.listen, "listen")
        admin_address = await _listen(admin, settings.admin_listen, "admin_listen")
        _announce(settings, address, admin_address)
        await stop.wait()
        log.event("stopping", calls_in_flight=app.calls_in_flight)
        await _refuse_new(front)
        await app.drain(settings.shutdown_seconds)
    finally:
        await app.close()
        await front.cleanup()
        await admin.cleanup()


def _server(app: App, settings: Settings) -> web.Server:
    """aiohttp's low-level server: no routing, no body limit of its own, and no answer to Expect."""
    return web.Server(
        app.handle,
        handler_cancellation=True,
        auto_decompress=False,
        max_line_size=settings.max_head_bytes,
        max_field_size=settings.max_head_bytes,
        keepalive_timeout=settings.agent_keepalive_seconds,
        access_log=None,
    )


async def _listen(runner: web.BaseRunner, address: Address, setting: str) -> Address:
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
        reason = " ".join((error.strerror or str(error)).split())
        flag = "--" + setting.replace("_", "-")
        raise ConfigError(f"{flag}: cannot listen on {address} ({reason}); set another address") from error
    return address if address.path is not None else Address(address.host, runner.addresses[0][1])


async def _refuse_new(runner: web.ServerRunner) -> None:
    """No new connection, and the kept ones are closed once they are idle."""
    for site in runner.sites:
        await site.stop()
    if runner.server is not None:
        runner.server.pre_shutdown()


def _announce(settings: Settings, address: Address, admin_address: Address) -> None:
    """One line, and the ready file, once requests are accepted."""
    url = f"http://{address}"
    admin_url = str(admin_address) if admin_address.path is not None else f"http://{admin_address}"
    mode = "history-delta on" if settings.enabled else "history-delta off (plain proxy)"
    models = ", ".join(str(upstream) for upstream in settings.upstream)
    print(f"history-delta {__version__} ready on {url}, admin {admin_url}, to {models}; {mode}", flush=True)
    if settings.ready_file:
        content = {"url": url, "admin_url": admin_url, "pid": os.getpid(), "version": __version__}
        partial = Path(f"{settings.ready_file}.{os.getpid()}")
        partial.write_text(json.dumps(content) + "\n", encoding="utf-8")
        partial.replace(settings.ready_file)


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


def _route_library_messages(log: Log) -> None:
    for name in ("aiohttp", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [LibraryMessages(log)]
        logger.propagate = False


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop
    return None
