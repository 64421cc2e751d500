# SPDX-License-Identifier: Apache-2.0
"""What stands behind one address changes: a TCP balancer of which a test says where it leads.

Whoever is connected when it is pointed elsewhere loses the connection. It changes no byte and knows no HTTP.
"""

import socket
import threading

from history_delta_conformance.relay import address_of

from .forwarder import Forwarder, shut_down


class Balancer(Forwarder):
    def __init__(self, target: str) -> None:
        super().__init__(target)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        with self._lock:
            shut_down(self._connections)

    def lead_to(self, target: str) -> None:
        """From now on every connection goes to that origin."""
        with self._lock:
            self.target = target
            shut_down(self._connections)

    def _forward(self, client: socket.socket) -> None:
        with client, socket.socket() as server:
            with self._lock:
                target = address_of(self.target)
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
        shut_down((source, sink))
