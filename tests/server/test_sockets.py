# SPDX-License-Identifier: Apache-2.0
import socket

from history_delta_server.sockets import probe_when_silent


class Transport:
    """Hands out a socket, as a transport does."""

    def __init__(self, sock: object) -> None:
        self._sock = sock

    def get_extra_info(self, name: str) -> object:
        return self._sock


def test_a_silent_peer_is_probed() -> None:
    with socket.socket() as sock:
        probe_when_silent(Transport(sock))
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30


def test_an_option_that_fails_fails_nothing_and_is_told_of_once(caplog, monkeypatch) -> None:
    monkeypatch.setattr("history_delta_server.sockets._told", set())
    with socket.socket(socket.AF_UNIX) as sock:
        for _ in range(3):
            probe_when_silent(Transport(sock))
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert sorted(record.message.split()[2] for record in caplog.records) == [
        "TCP_KEEPIDLE",
        "TCP_KEEPINTVL",
        "TCP_NODELAY",
    ]


async def test_both_sides_of_the_server_are_probed(start_model, start_gateway) -> None:
    model = await start_model()
    gateway = await start_gateway(model)
    agent = await gateway.connect()
    await agent.send(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await agent.receive()).status == 200
    (front,) = gateway.server._front.server.connections
    (upstream,) = gateway.server.app._dispatcher._pool._open
    for transport in (front.transport, upstream._transport):
        sock = transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 15
