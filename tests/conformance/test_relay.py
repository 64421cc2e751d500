# SPDX-License-Identifier: Apache-2.0
"""The relay on real sockets: bytes, half-closes, resets and cuts come out as they went in."""

import asyncio
import random
import socket
import struct

import pytest
from history_delta_conformance.relay import Relay

RESET = struct.pack("ii", 1, 0)
CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\n!"
TIMEOUT = 10


class Peer:
    """A listening socket whose next connection the test handles by hand."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    async def accept(self):
        connection, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(self.listener), TIMEOUT)
        return await asyncio.open_connection(sock=connection)


@pytest.fixture
def peer():
    peer = Peer()
    yield peer
    peer.listener.close()


@pytest.fixture
async def relay(peer):
    async with Relay(peer.url) as relay:
        yield relay


@pytest.fixture
async def ends(relay, peer):
    """The two ends of one connection through the relay: client reader, writer, server reader, writer."""
    client = await connect(relay)
    server = await peer.accept()
    yield *client, *server
    client[1].close()
    server[1].close()


async def connect(relay):
    host, port = relay.url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


def reset(writer):
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


async def read(reader, count=-1):
    return await asyncio.wait_for(reader.read() if count < 0 else reader.readexactly(count), TIMEOUT)


async def test_any_bytes_pass_both_ways_at_once(ends):
    client_reader, client, server_reader, server = ends
    up, down = random.Random(1).randbytes(3_000_000), random.Random(2).randbytes(2_000_000)
    client.write(up)
    server.write(down)
    assert await asyncio.gather(read(server_reader, len(up)), read(client_reader, len(down))) == [up, down]


async def test_half_close_leaves_the_other_direction_open(ends):
    client_reader, client, server_reader, server = ends
    client.write(b"all I have")
    client.write_eof()
    assert await read(server_reader) == b"all I have"
    server.write(b"and the answer")
    server.close()
    assert await read(client_reader) == b"and the answer"


@pytest.mark.parametrize("by_client", [True, False])
async def test_a_reset_arrives_as_a_reset(by_client, ends):
    client_reader, client, server_reader, server = ends
    client.write(b"x")
    assert await read(server_reader, 1) == b"x"
    reset(client if by_client else server)
    with pytest.raises(ConnectionResetError):
        await read(server_reader if by_client else client_reader)


async def test_an_unreachable_target_is_a_reset(relay, peer):
    peer.listener.close()
    reader, writer = await connect(relay)
    with pytest.raises(ConnectionResetError):
        await read(reader)
    writer.close()


async def test_records_requests_of_all_connections_in_the_order_of_their_beginning(relay, peer):
    for number in (1, 2):
        reader, writer = await connect(relay)
        server_reader, server = await peer.accept()
        for body in (b"a" * number, b"b" * 100_000 * number):
            request = b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (number, len(body)) + body
            writer.write(request)
            assert await read(server_reader, len(request)) == request
            server.write(CREATED)
            assert await read(reader, len(CREATED)) == CREATED
        writer.close()
        server.close()
    seen = [(exchange.target, len(exchange.body), exchange.status) for exchange in relay.exchanges]
    assert seen == [("/1", 1, 201), ("/1", 100_000, 201), ("/2", 2, 201), ("/2", 200_000, 201)]
    assert relay.failures == []


async def test_a_response_cut_in_its_midst_is_passed_on_up_to_the_cut_and_noted(relay, ends):
    client_reader, client, server_reader, server = ends
    request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    client.write(request)
    await read(server_reader, len(request))
    cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n"
    server.write(cut)
    server.close()
    assert await read(client_reader) == cut
    assert (relay.exchanges[0].status, relay.exchanges[0].response_complete) == (200, False)


async def test_what_is_no_http_passes_all_the_same_and_is_noted(relay, ends):
    _, client, server_reader, _ = ends
    client.write(b"\x00\x01no http\r\n\r\n")
    assert await read(server_reader, 13) == b"\x00\x01no http\r\n\r\n"
    assert len(relay.failures) == 1
    assert relay.exchanges == []
