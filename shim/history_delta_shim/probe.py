# SPDX-License-Identifier: Apache-2.0
"""Asking the upstream what it speaks, when the core wants to know, before a call goes out.

One request at a time, bounded in time and bytes; calls that come meanwhile wait for its answer.
"""

import threading
import time
from typing import Any, Tuple

from history_delta_protocol import wire

from . import http1
from .connection import Broken, Connection, NotSent, TimedOut
from .headers import Headers
from .upstream import Unreachable, Upstream

SECONDS = 2.0
MAX_ANSWER_BYTES = 64 * wire.KIB


class Probe(object):
    """The gate that every model call passes before it is prepared."""

    def __init__(self, core: Any, upstream: Upstream) -> None:
        self._core = core
        self._upstream = upstream
        self._lock = threading.Lock()

    def ask(self, target: str) -> None:
        """Find out what the core wants to know before a call on that target, if anything."""
        with self._lock:
            path = self._core.capabilities_target(target)
            if path is None:
                return
            try:
                answer = self._get(path, time.monotonic() + SECONDS)
            except (Unreachable, NotSent, Broken, TimedOut):
                self._core.capabilities_failed()
            else:
                self._core.capabilities_answered(*answer)

    def _get(self, path: str, deadline: float) -> Tuple[int, Headers, bytes]:
        connection = self._upstream.connect(SECONDS)
        try:
            return self._exchange(connection, path, deadline)
        finally:
            self._upstream.release(connection)

    def _exchange(self, connection: Connection, path: str, deadline: float) -> Tuple[int, Headers, bytes]:
        headers = self._upstream.hop_headers([("Accept", "application/json")])
        headers.append((wire.VERSION_HEADER, str(wire.PROTOCOL_VERSION)))
        connection.begin("GET")
        connection.send(http1.request_head("GET", self._upstream.target(path), headers))
        response = connection.next_event(deadline=deadline)
        while response.status < 200:
            response = connection.next_event(deadline=deadline)
        body = self._body(connection, deadline)
        connection.reusable = http1.keeps_alive(response)
        return response.status, response.headers, body

    def _body(self, connection: Connection, deadline: float) -> bytes:
        pieces = []
        event = connection.next_event(deadline=deadline)
        while isinstance(event, http1.Data):
            pieces.append(event.data)
            if sum(map(len, pieces)) > MAX_ANSWER_BYTES:
                raise Broken("an answer of that size says nothing about capabilities")
            event = connection.next_event(deadline=deadline)
        return b"".join(pieces)
