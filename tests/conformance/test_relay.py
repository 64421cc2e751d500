# SPDX-License-Identifier: Apache-2.0
"""The relay on real sockets: bytes, half-closes, resets and cuts come out as they went in."""

import asyncio
import random
import socket
import struct
from contextlib import AsyncExitStack

import pytest
from history_delta_conformance.relay import Intervention, Relay

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


REQUEST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\ndata: one\n\ndata: two\n\ndata: three\n\n"


@pytest.fixture
async def intervened(peer):
    """Start a relay that does this to the first request: ``await intervened(Intervention(...))``."""
    async with AsyncExitStack() as stack:

        async def start(intervention):
            once = iter([intervention])
            return await stack.enter_async_context(Relay(peer.url, lambda exchange: next(once, None)))

        yield start


async def test_a_request_that_is_dropped_never_reaches_the_target(peer, intervened):
    relay = await intervened(Intervention(drop=True))
    reader, writer = await connect(relay)
    server_reader, _ = await peer.accept()
    writer.write(REQUEST)
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(reader.read(1), TIMEOUT)
    with pytest.raises(ConnectionResetError):
        assert await asyncio.wait_for(server_reader.read(1), TIMEOUT) == b""
    assert [exchange.complete for exchange in relay.exchanges] == [True]


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_response_is_cut_behind_an_event_however_it_arrives(peer, intervened, size):
    relay = await intervened(Intervention(cut_after=2))
    reader, writer = await connect(relay)
    server_reader, server_writer = await peer.accept()
    writer.write(REQUEST)
    assert await asyncio.wait_for(server_reader.readexactly(len(REQUEST)), TIMEOUT) == REQUEST
    for start in range(0, len(STREAM), size):
        server_writer.write(STREAM[start : start + size])
        await asyncio.sleep(0)
    received = await asyncio.wait_for(reader.read(), TIMEOUT)
    assert received == STREAM[: STREAM.index(b"data: three")]
    writer.close()
    assert not relay.exchanges[0].response_complete
    assert not relay.exchanges[0].left


async def test_a_connection_is_closed_behind_a_response(peer, intervened):
    relay = await intervened(Intervention(close_after=True))
    reader, writer = await connect(relay)
    server_reader, server_writer = await peer.accept()
    writer.write(REQUEST)
    await asyncio.wait_for(server_reader.readexactly(len(REQUEST)), TIMEOUT)
    server_writer.write(CREATED)
    assert await asyncio.wait_for(reader.read(), TIMEOUT) == CREATED
    assert relay.exchanges[0].response_complete


async def test_a_repeated_request_arrives_twice_and_is_answered_once(peer, intervened):
    relay = await intervened(Intervention(repeat=True))
    reader, writer = await connect(relay)
    first_reader, first_writer = await peer.accept()
    writer.write(REQUEST)
    second_reader, second_writer = await peer.accept()
    for arrived in (first_reader, second_reader):
        assert await asyncio.wait_for(arrived.readexactly(len(REQUEST)), TIMEOUT) == REQUEST
    second_writer.write(CREATED.replace(b"!", b"?"))
    first_writer.write(CREATED)
    assert await asyncio.wait_for(reader.readexactly(len(CREATED)), TIMEOUT) == CREATED
    assert [exchange.status for exchange in relay.exchanges] == [201]
    second_writer.close()


async def test_a_held_request_goes_out_on_a_new_connection_once_the_target_is_back(peer, intervened):
    happened = asyncio.Event()

    async def meanwhile():
        first_writer.close()
        await first_writer.wait_closed()
        happened.set()

    relay = await intervened(Intervention(meanwhile=meanwhile))
    reader, writer = await connect(relay)
    _, first_writer = await peer.accept()
    writer.write(REQUEST)
    second_reader, second_writer = await peer.accept()
    assert happened.is_set()
    assert await asyncio.wait_for(second_reader.readexactly(len(REQUEST)), TIMEOUT) == REQUEST
    second_writer.write(CREATED)
    assert await asyncio.wait_for(reader.readexactly(len(CREATED)), TIMEOUT) == CREATED
    second_writer.close()


async def test_after_an_intervention_all_goes_on_as_before(peer, intervened):
    relay = await intervened(Intervention(repeat=True))
    reader, writer = await connect(relay)
    first_reader, first_writer = await peer.accept()
    writer.write(REQUEST)
    await asyncio.wait_for(first_reader.readexactly(len(REQUEST)), TIMEOUT)
    for _ in range(2):
        first_writer.write(CREATED)
        assert await asyncio.wait_for(reader.readexactly(len(CREATED)), TIMEOUT) == CREATED
        writer.write(REQUEST)
        await asyncio.wait_for(first_reader.readexactly(len(REQUEST)), TIMEOUT)
    assert len(relay.exchanges) == 3
