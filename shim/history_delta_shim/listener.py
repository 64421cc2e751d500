# SPDX-License-Identifier: Apache-2.0
"""The listening socket, one thread for each agent connection, and their end.

What happens on a connection's requests is in exchange.py.
"""

import select
import socket
import threading
import time
from typing import Any, Callable, List, Optional, Set

from . import answers, http1, sockets
from .agent_connection import AgentConnection
from .connection import AgentLeft
from .exchange import Exchange, Shared
from .log import describe

MAX_CONNECTIONS = 256
MAX_REFUSALS = 32  # connections beyond that are told so; beyond these they are reset
STACK_BYTES = 16 * 1024 * 1024  # a deep body must not end the process
BACKLOG = 256
SWEEP_SECONDS = 5.0
STOP_SECONDS = 5.0


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; OSError where the address cannot be had."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    return sock


class Listener(object):
    """Accepts agents until it is stopped."""

    def __init__(self, sock: socket.socket, shared: Shared, max_connections: int = MAX_CONNECTIONS) -> None:
        self._socket = sock
        self._shared = shared
        self._max_connections = max_connections
        self._changed = threading.Condition()
        self._agents: Set[AgentConnection] = set()
        self._threads = 0
        self._stopping = False
        self._accept_failing = False

    def run(self, wakes: List[int]) -> None:
        """Accept connections until one of the ``wakes`` has something to be read, or ends."""
        threading.stack_size(STACK_BYTES)
        self._socket.setblocking(False)
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        for wake in wakes:
            poller.register(wake, select.POLLIN)
        while True:
            ready = dict(poller.poll(int(SWEEP_SECONDS * 1000)))
            if any(wake in ready for wake in wakes):
                return
            if ready:
                self._accept()
            self._shared.upstream.sweep()

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Accept no more, close idle connections, and give exchanges in flight that long to end."""
        self._socket.close()
        deadline = time.monotonic() + seconds
        with self._changed:
            self._stopping = True
            for agent in self._agents:
                agent.close_if_idle()
            while self._threads and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())

    def _accept(self) -> None:
        try:
            sock, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:  # out of file descriptors: those in use will be given back
            if not self._accept_failing:
                self._report("accept-failed", error=error.strerror)
            self._accept_failing = True
            time.sleep(0.05)
            return
        self._accept_failing = False
        sock.setblocking(True)
        sockets.tune(sock, sockets.AGENT_OPTIONS, self._option_failed)
        self._start(sock)

    def _start(self, sock: socket.socket) -> None:
        with self._changed:
            over = self._threads - self._max_connections
            if over >= MAX_REFUSALS:
                sockets.reset(sock)
                return
            self._threads += 1
        work: Callable[[socket.socket], None] = self._serve if over < 0 else self._refuse
        try:
            threading.Thread(target=self._work, args=(work, sock), daemon=True).start()
        except RuntimeError as error:
            self._report("thread-failed", error=str(error))
            sockets.reset(sock)
            self._ended()

    def _work(self, work: Callable[[socket.socket], None], sock: socket.socket) -> None:
        try:
            work(sock)
        except Exception as error:
            self._report("connection-failed", error=describe(error))
            sockets.reset(sock)
        finally:
            self._ended()

    def _ended(self) -> None:
        with self._changed:
            self._threads -= 1
            self._changed.notify_all()

    def _refuse(self, sock: socket.socket) -> None:
        agent = AgentConnection(sock)
        _send_last(agent, answers.too_many_connections(self._max_connections))

    def _serve(self, sock: socket.socket) -> None:
        agent = AgentConnection(sock)
        with self._changed:
            self._agents.add(agent)
        try:
            keep = True
            while keep:
                request = self._next_request(agent)
                if request is None:
                    return
                keep = Exchange(self._shared, agent, request).run() and not self._stopping
            agent.close()
        finally:
            with self._changed:
                self._agents.discard(agent)

    def _next_request(self, agent: AgentConnection) -> Optional[http1.Request]:
        """The next request, or None once the connection has been closed."""
        try:
            request = agent.next_request()
        except (AgentLeft, http1.Incomplete):
            request = None
        except http1.ProtocolError as error:
            self._report("malformed-request", status=error.status, error=str(error))
            _send_last(agent, answers.invalid(None, error.status, str(error)))
            return None
        if request is None:
            agent.close()
        return request

    def _option_failed(self, name: str, error: str) -> None:
        self._report("socket-option-failed", option=name, error=error)

    def _report(self, event: str, **fields: Any) -> None:
        self._shared.log.event(event, **fields)


def _send_last(agent: AgentConnection, answer: answers.Answer) -> None:
    try:
        agent.send(answers.to_bytes(answer, keep=False))
    except AgentLeft:
        pass
    agent.close()
