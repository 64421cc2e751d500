# SPDX-License-Identifier: Apache-2.0
"""What stands between the shim and a server in a test: a listening socket, and a thread for each of its connections.

What becomes of a connection is for those to say that derive from it.
"""

import contextlib
import socket
import threading
from collections.abc import Iterable
from typing import Self


class Forwarder:
    """Use as a context manager; ``origin`` is its address, ``target`` the origin that new connections are for."""

    def __init__(self, target: str) -> None:
        self.target = target
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.origin = "http://{}:{}".format(*self._listening.getsockname())

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        """Serve that connection to its end, and close it."""
        raise NotImplementedError


def shut_down(sockets: Iterable[socket.socket]) -> None:
    """End those connections, in order, in both directions."""
    for sock in sockets:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
