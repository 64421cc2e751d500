# SPDX-License-Identifier: Apache-2.0
"""What stands behind one address changes: a TCP balancer of which a test says where it leads.

Whoever is connected when it is pointed elsewhere loses the connection. It changes no byte and knows no HTTP.
"""

import contextlib
import socket
import threading
from typing import Self

from history_delta_conformance.relay import address_of


class Balancer:
    """Use as a context manager; ``origin`` is the one address."""

    def __init__(self, target: str) -> None:
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.origin = "http://{}:{}".format(*self._listening.getsockname())
        self._target = target

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._close_all()

    def lead_to(self, target: str) -> None:
        """From now on every connection goes to that origin."""
        self._target = target
        self._close_all()

    def _close_all(self) -> None:
        with self._lock:
            for sock in self._connections:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._relay, args=(client, address_of(self._target)), daemon=True).start()

    def _relay(self, client: socket.socket, target: tuple[str, int]) -> None:
        with client, socket.socket() as server:
            with self._lock:
                self._connections |= {client, server}
            try:
                server.connect(target)
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()
            except OSError:
                pass
            finally:
                with self._lock:
                    self._connections -= {client, server}


def _copy(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
