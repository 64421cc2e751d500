# SPDX-License-Identifier: Apache-2.0
"""``serve``: from settings to a running shim, and to its end. Requests are served by listener and exchange."""

import errno
import json
import os
import signal
import socket
import sys
import threading
from contextlib import contextmanager
from typing import Any, Iterator, List, Optional

from . import __version__, background, origin
from .body_budget import BodyBudget
from .core import Core
from .exchange import Shared
from .listener import Listener, bind
from .log import Log
from .probe import Probe
from .settings import Invalid, Settings, open_log
from .temporary import create_beside
from .upstream import Upstream


def serve(settings: Settings) -> int:
    """Serve until a signal, or the end of the watched pipe, says to stop; the exit code. Raises Invalid."""
    sock = _listening_socket(settings)
    _remove_stale(settings.ready_file)
    log_fd = open_log(settings.log_file)
    if not settings.detach:
        _serve_on(sock, log_fd, settings, _say_on_stdout)
        return 0
    keep = [fd for fd in (sock.fileno(), log_fd, settings.watch_fd) if fd is not None]
    announce, ready, text = background.detach(keep)
    if announce is None:
        if not ready:
            raise Invalid(text)
        _say_on_stdout(True, text)
        return 0
    try:
        _serve_on(sock, log_fd, settings, announce)
    except Invalid as error:
        announce(False, str(error))
    os._exit(0)  # not the caller's process any more


def _serve_on(sock: socket.socket, log_fd: Optional[int], settings: Settings, announce: background.Announce) -> None:
    log = Log(log_fd)
    listener = Listener(sock, _shared(settings, log))
    with _stop_requests() as wake:
        ready = _ready(sock)
        if settings.ready_file is not None:
            _write_atomically(settings.ready_file, ready + "\n")
        log.event("ready", enabled=settings.enabled, upstream=origin.url(settings.upstream), **json.loads(ready))
        announce(True, ready)
        listener.run([wake] + ([] if settings.watch_fd is None else [settings.watch_fd]))
        listener.stop()
    log.event("stopped")
    if threading.active_count() > 1:
        os._exit(0)  # threads that wait for a model or an agent would hold the interpreter up


def _shared(settings: Settings, log: Log) -> Shared:
    core = Core(settings.enabled, settings.rollout, log=lambda line: log.event("core", message=line))
    try:
        upstream = Upstream(settings.upstream, settings.proxy, log.event)
    except ImportError:
        raise Invalid("--upstream: expected http://, for this Python has no ssl module")
    return Shared(core, upstream, Probe(core, upstream), BodyBudget(), log, settings.log_body_hash)


def _listening_socket(settings: Settings) -> socket.socket:
    if settings.listen_fd is not None:
        return _adopt(settings.listen_fd)
    try:
        return bind(*settings.listen)
    except OSError as error:
        where = origin.host_port(*settings.listen)
        if error.errno == errno.EADDRINUSE:
            raise Invalid("--listen: %s is taken, expected a free port (0: any free one)" % where)
        raise Invalid("--listen: cannot listen on %s: %s" % (where, error.strerror or error))


def _adopt(fd: int) -> socket.socket:
    try:
        sock = socket.socket(fileno=fd)
        if not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError("it does not listen")
    except (OSError, ValueError, OverflowError):
        raise Invalid("--listen-fd: expected the number of an inherited listening TCP socket, got %d" % fd)
    return sock


def _ready(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    url = "http://" + origin.host_port(host, port)
    return json.dumps({"url": url, "pid": os.getpid(), "version": __version__})


def _say_on_stdout(ready: bool, text: str) -> None:
    try:
        print(text)
        sys.stdout.flush()
    except (OSError, ValueError):
        pass  # nobody reads it


def _remove_stale(path: Optional[str]) -> None:
    """Whoever waits for the ready file must not find that of an earlier shim."""
    try:
        if path is not None:
            os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise Invalid("--ready-file: cannot replace %s: %s" % (path, error.strerror))


def _write_atomically(path: str, text: str) -> None:
    try:
        descriptor, partial = create_beside(path, 0o666)
        with open(descriptor, "w") as file:
            file.write(text)
        os.replace(partial, path)
    except OSError as error:
        raise Invalid("--ready-file: cannot write %s: %s" % (path, error.strerror))


@contextmanager
def _stop_requests() -> Iterator[int]:
    """A descriptor that becomes readable with the first SIGTERM or SIGINT; a second one ends the process at once."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    seen: List[int] = []

    def note(number: int, _: Any) -> None:
        if seen:
            os._exit(128 + number)
        seen.append(number)

    signal.set_wakeup_fd(writer)  # first, or a signal that comes in between wakes nobody
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(-1)
