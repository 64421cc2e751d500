# SPDX-License-Identifier: Apache-2.0
"""A relay that delivers every call three times, as retries below an agent do: twice at once, and once more afterwards.

The answer to the first goes back as it comes; what came back for each is kept to the byte.
"""

import socket
import threading
from dataclasses import dataclass, field

from history_delta_conformance.relay import address_of

from .endpoints import PATIENCE
from .forwarder import Forwarder
from .model_server import Request, head, read_request


@dataclass
class Delivered:
    """One request, and what came back for each of its deliveries up to the end of the connection."""

    request: Request
    answers: list[bytes] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class Duplicator(Forwarder):
    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.delivered: list[Delivered] = []

    def settled(self) -> list[Delivered]:
        """All that was delivered, once all of its answers are there."""
        for delivered in self.delivered:
            assert delivered.over.wait(PATIENCE), "a delivery was not answered"
        return self.delivered

    def _forward(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as source:
            request = read_request(source)
            if request is None:
                return
            if request.method != "POST":
                client.sendall(self._deliver(request, None))
                return
            delivered = Delivered(request)
            self.delivered.append(delivered)
            second: list[bytes] = []
            at_once = threading.Thread(target=lambda: second.append(self._deliver(request, None)), daemon=True)
            at_once.start()
            first = self._deliver(request, client)
            client.shutdown(socket.SHUT_WR)
            at_once.join()
            delivered.answers = [first, *second, self._deliver(request, None)]
            delivered.over.set()

    def _deliver(self, request: Request, passed_on_to: socket.socket | None) -> bytes:
        """Send it on a connection of its own, which the other side is to close, and collect what comes back."""
        headers = [f"{name}: {value}" for name, value in request.headers if name.lower() != "connection"]
        received = b""
        with socket.create_connection(address_of(self.target), timeout=PATIENCE) as server:
            lines = (f"{request.method} {request.target} HTTP/1.1", *headers, "Connection: close")
            server.sendall(head(*lines) + request.body)
            while data := server.recv(65536):
                received += data
                if passed_on_to is not None:
                    passed_on_to.sendall(data)
        return received
