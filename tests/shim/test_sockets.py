# SPDX-License-Identifier: Apache-2.0
import select
import socket

import pytest
from history_delta_shim import sockets


@pytest.fixture
def pair():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    for sock in (near, far):
        sock.settimeout(10)
    yield near, far
    near.close()
    far.close()


def test_every_option_holds_on_linux(pair):
    failed = []
    sockets.tune(pair[0], sockets.UPSTREAM_OPTIONS, lambda name, error: failed.append(name))
    assert failed == []
    assert pair[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert pair[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30000
    assert pair[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 15


def test_an_option_that_fails_is_dropped_and_told_once(monkeypatch):
    monkeypatch.setattr(sockets, "_dropped_options", set())
    failed = []
    near, far = socket.socketpair()  # has none of TCP's options
    with near, far:
        for sock in (near, far):
            sockets.tune(sock, sockets.UPSTREAM_OPTIONS, lambda name, error: failed.append(name))
    assert failed.count("TCP_NODELAY") == 1
    assert failed.count("TCP_USER_TIMEOUT") == 1


def test_waiting_tells_which_side_moved(pair):
    near, far = pair
    upstream, other = socket.socketpair()
    departure = sockets.Departure(near)
    with upstream, other:
        assert sockets.wait(upstream, select.POLLIN, departure, timeout=0) == (0, False)
        other.send(b"x")
        assert sockets.wait(upstream, select.POLLIN, departure) == (select.POLLIN, False)
        assert upstream.recv(10) == b"x"
        far.shutdown(socket.SHUT_WR)
        assert sockets.wait(upstream, select.POLLIN, departure) == (0, True)


def test_pipelined_bytes_are_no_departure_and_hide_none(pair):
    near, far = pair
    upstream, other = socket.socketpair()
    departure = sockets.Departure(near)
    with upstream, other:
        far.send(b"GET /next")
        assert near.recv(1, socket.MSG_PEEK)
        assert sockets.wait(upstream, select.POLLIN, departure, timeout=0) == (0, False)
        far.close()
        assert sockets.wait(upstream, select.POLLIN, departure) == (0, True)


def test_without_the_event_a_departure_is_still_seen_where_nothing_hides_it(pair, monkeypatch):
    monkeypatch.setattr(sockets, "_PEER_CLOSED", 0)
    near, far = pair
    upstream, other = socket.socketpair()
    with upstream, other:
        departure = sockets.Departure(near)
        far.send(b"x")
        assert near.recv(1, socket.MSG_PEEK)
        assert sockets.wait(upstream, select.POLLIN, departure, timeout=0) == (0, False)
        assert near.recv(1) == b"x"
        far.shutdown(socket.SHUT_WR)
        assert sockets.wait(upstream, select.POLLIN, sockets.Departure(near)) == (0, True)


def received(sock):
    """(bytes to the end, whether the end was a reset)"""
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except ConnectionResetError:
        return data, True
    return data, False


def test_closing_after_flush_loses_nothing_although_bytes_were_left_unread(pair):
    near, far = pair
    far.send(b"never read")
    assert near.recv(1, socket.MSG_PEEK)
    near.send(b"answer")
    far.shutdown(socket.SHUT_WR)
    sockets.close_after_flush(near)
    assert received(far) == (b"answer", False)


def test_a_reset_after_flush_comes_behind_every_byte(pair):
    near, far = pair
    data = b"x" * 200000  # more than fits at once: the peer must take some before the rest is sent
    far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    near.sendall(data)
    sockets.reset_after_flush(near)
    assert received(far) == (data, True)


def test_a_reset_is_one(pair):
    near, far = pair
    sockets.reset(near)
    assert received(far) == (b"", True)
