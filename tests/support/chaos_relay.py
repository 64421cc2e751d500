# SPDX-License-Identifier: Apache-2.0
"""A TCP relay that breaks connections where chance has it: after so many bytes, in either direction, in several ways.

What it does to a connection is drawn from a seeded generator when the connection is made; it changes no byte.
"""

import contextlib
import random
import socket
import struct
import threading
from typing import Self

from history_delta_conformance.relay import address_of

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ChaosRelay:
    """Use as a context manager; ``origin`` is its address."""

    def __init__(self, target: str, seed: int, mean_bytes: int) -> None:
        self.broken = 0
        self._calm = False
        self._open: set[socket.socket] = set()
        self._random = random.Random(seed)
        self._mean_bytes = mean_bytes
        self._target = address_of(target)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.origin = "http://{}:{}".format(*self._listening.getsockname())

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def lead_to(self, target: str) -> None:
        self._target = address_of(target)

    def calm_down(self) -> None:
        """From now on nothing breaks; what is open is closed a last time."""
        self._calm = True
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            # Most hold for a call or two; some break at once.
            limit = None if self._calm else int(self._random.expovariate(1 / self._mean_bytes))
            threading.Thread(target=self._relay, args=(client, limit, self._random.random()), daemon=True).start()

    def _relay(self, client: socket.socket, limit: int | None, choice: float) -> None:
        server = socket.create_connection(self._target)
        # One direction is broken off after that many bytes, which ends the other as well; half of them by a reset.
        upward, reset = choice < 0.5, choice * 4 % 2 < 1
        limits = (limit if upward else None, None if upward else limit)
        copies = [
            threading.Thread(target=self._copy, args=(*ends, most, reset), daemon=True)
            for ends, most in zip(((client, server), (server, client)), limits, strict=True)
        ]
        with client, server:
            self._open |= {client, server}
            for copy in copies:
                copy.start()
            for copy in copies:
                copy.join()
            self._open -= {client, server}

    def _copy(self, source: socket.socket, sink: socket.socket, most: int | None, reset: bool) -> None:
        try:
            while data := source.recv(65536 if most is None else max(most, 1)):
                if most is not None:
                    data, most = data[:most], most - len(data)
                    sink.sendall(data)
                    if most <= 0:
                        self.broken += 1
                        _end(source, sink, reset)
                        return
                else:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            _end(source, sink, reset=False)


def _end(one: socket.socket, other: socket.socket, reset: bool) -> None:
    for sock in (one, other):
        with contextlib.suppress(OSError):
            if reset:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            sock.shutdown(socket.SHUT_RDWR)
