# SPDX-License-Identifier: Apache-2.0
"""A TCP relay that breaks connections where chance has it: after so many bytes, in either direction, in several ways.

What it does to a connection is drawn from a seeded generator when the connection is made; it changes no byte.
"""

import random
import socket
import struct
import threading

from history_delta_conformance.relay import address_of

from .forwarder import Forwarder, shut_down

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class ChaosRelay(Forwarder):
    def __init__(self, target: str, seed: int, mean_bytes: int) -> None:
        super().__init__(target)
        self.broken = 0
        self._calm = False
        self._open: set[socket.socket] = set()
        self._random = random.Random(seed)
        self._mean_bytes = mean_bytes

    def calm_down(self) -> None:
        """From now on nothing breaks; what is open is closed a last time."""
        self._calm = True
        shut_down(list(self._open))

    def _forward(self, client: socket.socket) -> None:
        # Most hold for a call or two; some break at once.
        limit = None if self._calm else int(self._random.expovariate(1 / self._mean_bytes))
        # One direction is broken off after that many bytes, which ends the other as well; half of them by a reset.
        upward, reset = self._random.random() < 0.5, self._random.random() < 0.5
        limits = (limit if upward else None, None if upward else limit)
        with client, socket.create_connection(address_of(self.target)) as server:
            copies = [
                threading.Thread(target=self._copy, args=(*ends, most, reset), daemon=True)
                for ends, most in zip(((client, server), (server, client)), limits, strict=True)
            ]
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
    if reset:
        for sock in (one, other):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    shut_down((one, other))
