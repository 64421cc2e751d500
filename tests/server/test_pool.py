# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator

import pytest
from history_delta_server.call import Call, State
from history_delta_server.kinds import UPSTREAMS, UpstreamUrl
from history_delta_server.model_connection import ModelConnection
from history_delta_server.pool import ConnectionPool, PoolLimits, Unreachable
from support.certificates import make_certificates

KEEP = 3600.0


@pytest.fixture
async def pool() -> AsyncIterator[ConnectionPool]:
    pool = ConnectionPool(PoolLimits(idle_seconds=KEEP))
    yield pool
    pool.close()


def address(url: str) -> UpstreamUrl:
    (read,) = UPSTREAMS.read(url)
    return read


async def exchanged(connection: ModelConnection) -> Call:
    """After one exchange on it."""
    call = Call(asyncio.get_running_loop().call_later)
    connection.begin(call, "GET")
    connection.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    async with asyncio.timeout(10):
        await connection.ended.wait()
    return call


async def until_closed(pool: ConnectionPool) -> None:
    async with asyncio.timeout(10):
        while pool._open:  # noqa: ASYNC110
            await asyncio.sleep(0.002)


async def test_a_connection_that_was_given_back_is_lent_again(start_model, pool) -> None:
    model = await start_model()
    url = address(model.url)
    first = await pool.acquire(url)
    assert (await exchanged(first)).state is State.COMPLETE
    pool.release(url, first)
    assert await pool.acquire(url) is first
    await exchanged(first)
    assert (model.connections, len(model.requests)) == (1, 2)


async def test_one_that_is_lent_is_lent_to_nobody_else(start_model, pool) -> None:
    url = address((await start_model()).url)
    first = await pool.acquire(url)
    await exchanged(first)
    pool.release(url, first)
    again, other = await pool.acquire(url), await pool.acquire(url)
    assert again is first
    assert other is not first


async def test_the_one_used_last_is_lent_first(start_model, pool) -> None:
    url = address((await start_model()).url)
    first, second = await pool.acquire(url), await pool.acquire(url)
    for connection in (second, first):
        await exchanged(connection)
        pool.release(url, connection)
    assert [await pool.acquire(url), await pool.acquire(url)] == [first, second]


async def test_each_server_has_connections_of_its_own(start_model, pool) -> None:
    one, other = await start_model(), await start_model()
    connection = await pool.acquire(address(one.url))
    await exchanged(connection)
    pool.release(address(one.url), connection)
    await exchanged(await pool.acquire(address(other.url)))
    assert (len(one.requests), len(other.requests)) == (1, 1)


async def test_one_that_never_carried_a_response_is_not_kept(start_model, pool) -> None:
    url = address((await start_model()).url)
    pool.release(url, await pool.acquire(url))
    await until_closed(pool)


async def test_an_idle_one_is_closed_in_time(start_model) -> None:
    pool = ConnectionPool(PoolLimits(idle_seconds=0.01))
    model = await start_model()
    connection = await pool.acquire(address(model.url))
    await exchanged(connection)
    pool.release(address(model.url), connection)
    await (await model.arrived.get()).gone()
    await until_closed(pool)
    assert not pool._idle[address(model.url)]


async def test_the_time_of_one_that_is_lent_again_starts_anew(start_model, pool) -> None:
    url = address((await start_model()).url)
    connection = await pool.acquire(url)
    await exchanged(connection)
    pool.release(url, connection)
    (timer,) = pool._idle[url].values()
    await pool.acquire(url)
    assert timer.cancelled()
    assert not pool._idle[url]


async def test_an_idle_one_that_dies_is_forgotten(start_model, pool) -> None:
    model = await start_model()
    url = address(model.url)
    connection = await pool.acquire(url)
    await exchanged(connection)
    pool.release(url, connection)
    (timer,) = pool._idle[url].values()
    (await model.arrived.get()).close()
    await until_closed(pool)
    assert timer.cancelled()
    assert await pool.acquire(url) is not connection


async def test_one_that_closes_while_it_is_idle_but_is_not_forgotten_yet_is_not_lent(start_model, pool) -> None:
    url = address((await start_model()).url)
    connection = await pool.acquire(url)
    await exchanged(connection)
    pool.release(url, connection)
    connection.abort()
    assert connection in pool._idle[url]
    assert await pool.acquire(url) is not connection


async def test_closing_closes_lent_and_idle_ones(start_model, pool) -> None:
    url = address((await start_model()).url)
    idle, lent = await pool.acquire(url), await pool.acquire(url)
    await exchanged(idle)
    pool.release(url, idle)
    pool.close()
    await until_closed(pool)
    assert not idle.reusable
    assert not lent.reusable
    assert not pool._idle[url]


async def test_where_nothing_listens_the_reason_is_the_systems_on_one_line(pool) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        url = address(f"http://127.0.0.1:{sock.getsockname()[1]}")
        with pytest.raises(Unreachable) as caught:
            await pool.acquire(url)
    assert str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 200
    assert isinstance(caught.value.__cause__, ConnectionRefusedError)
    assert not pool._open


async def test_a_handshake_that_does_not_end_takes_no_longer_than_connecting_may() -> None:
    """Accepted by the system, and then silent: TLS waits."""
    pool = ConnectionPool(PoolLimits(connect_seconds=0.05))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = address(f"https://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(Unreachable, match=r"no connection within 0\.05 s"):
            await pool.acquire(url)
    assert not pool._open


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_tls_is_verified_against_the_trust_store(tmp_path, monkeypatch, trusted: bool, host: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            names.append(writer.get_extra_info("ssl_object").version())
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    names: list[str] = []
    certificates = make_certificates(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=certificates.server)
    pool = ConnectionPool()
    async with server:
        url = address(f"https://{host}:{server.sockets[0].getsockname()[1]}")
        if trusted:
            assert (await exchanged(await pool.acquire(url))).state is State.COMPLETE
            assert names == ["TLSv1.3"]
        else:
            with pytest.raises(Unreachable) as caught:
                await pool.acquire(url)
            assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
        pool.close()


async def test_a_certificate_of_another_name_is_refused(tmp_path, monkeypatch) -> None:
    certificates = make_certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.2", 0, ssl=certificates.server)
    async with server:
        with pytest.raises(Unreachable) as caught:
            await ConnectionPool().acquire(address(f"https://127.0.0.2:{server.sockets[0].getsockname()[1]}"))
    assert isinstance(caught.value.__cause__, ssl.SSLCertVerificationError)
