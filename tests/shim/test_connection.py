# SPDX-License-Identifier: Apache-2.0
import threading
import time

import pytest
from history_delta_shim import connection as module
from history_delta_shim.connection import AgentLeft, Broken, Connection, NotSent, TimedOut
from history_delta_shim.http1 import Data, End, Response
from history_delta_shim.sockets import Departure
from support.endpoints import Endpoint, connect
from support.http_text import END, answer, chunk, head, stream

BIG = b"x" * (16 * 1024 * 1024)


@pytest.fixture
def pair(upstream):
    """A connection in an exchange, and its upstream's end."""
    connection = Connection(connect(upstream.port).socket, False)
    connection.begin("POST")
    peer = upstream.accept()
    yield connection, peer
    connection.close()


@pytest.fixture
def departing(upstream):
    """An agent, and what tells that it has left."""
    agent = connect(upstream.port)
    return agent, Departure(upstream.accept().socket)


def test_events_come_as_bytes_do(pair):
    connection, peer = pair
    peer.send(stream())
    assert isinstance(connection.next_event(), Response)
    peer.send(chunk(b"one"))
    assert connection.next_event() == Data(b"one")
    peer.send(END)
    assert connection.next_event() == End([])


def test_a_deadline_ends_the_waiting(pair):
    connection, _ = pair
    with pytest.raises(TimedOut):
        connection.next_event(deadline=time.monotonic() + 0.01)


def test_the_agents_departure_ends_the_waiting(pair, departing):
    connection, _ = pair
    agent, departure = departing
    agent.close()
    with pytest.raises(AgentLeft):
        connection.next_event(departure)


def test_the_agents_departure_ends_sending(pair, departing):
    connection, _ = pair
    agent, departure = departing
    agent.close()
    with pytest.raises(AgentLeft):
        connection.send(BIG, departure)


def test_an_answer_ends_sending(pair):
    connection, peer = pair
    peer.send(answer(b"stop"))
    assert connection.send(BIG) is False
    assert connection.next_event().status == 200
    assert connection.next_event() == Data(b"stop")
    assert connection.next_event() == End([])


def test_an_answer_and_an_end_while_sending_are_both_seen(pair):
    connection, peer = pair
    peer.send(head("HTTP/1.1 400 No") + b"because")
    peer.end()
    assert connection.send(BIG) is False
    assert connection.next_event().status == 400
    assert connection.next_event() == Data(b"because")
    assert connection.next_event() == End([])


@pytest.mark.parametrize("interim", ["100 Continue", "103 Early Hints"])
def test_an_interim_response_does_not_end_sending(pair, interim):
    connection, peer = pair
    peer.send(head(f"HTTP/1.1 {interim}")[:-2])
    taker = threading.Thread(target=take_all, args=(peer, head(f"HTTP/1.1 {interim}")[-2:], answer(b"done")))
    taker.start()
    assert connection.send(BIG) is True
    taker.join()
    assert [connection.next_event().status for _ in range(2)] == [int(interim[:3]), 200]
    assert connection.next_event() == Data(b"done")
    assert connection.next_event() == End([])


def take_all(peer, first, last):
    """An upstream that sends something, takes BIG, and sends something more."""
    peer.send(first)
    received = 0
    while received < len(BIG):
        received += len(peer.receive())
    peer.send(last)


@pytest.mark.parametrize("final", [b"nonsense\r\n\r\n", head("HTTP/1.1 101 Other")])
def test_what_ends_sending_behind_an_interim_response_is_met_again(pair, final):
    connection, peer = pair
    peer.send(head("HTTP/1.1 100 Continue") + final)
    assert connection.send(BIG) is False
    assert connection.next_event().status == 100
    if b"101" in final:
        assert connection.next_event().status == 101
    else:
        with pytest.raises(Broken):
            connection.next_event()


def test_a_connection_that_fails_at_the_first_byte_has_sent_nothing(pair):
    connection, peer = pair
    peer.reset()
    while not connection.is_dead():
        pass  # the reset is on its way
    with pytest.raises(NotSent):
        connection.send(b"x")


def test_one_that_fails_later_may_have(pair):
    connection, peer = pair
    assert connection.send(b"POST / HTTP/1.1\r\n")
    peer.receive()
    peer.reset()
    while connection.send(b"x"):
        pass
    with pytest.raises(Broken):
        connection.next_event()


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200", b"nonsense\r\n\r\n"])
def test_what_is_no_response_is_a_break(pair, sent):
    connection, peer = pair
    peer.send(sent)
    peer.end()
    with pytest.raises(Broken):
        connection.next_event()


def test_an_idle_connection_is_dead_once_anything_can_be_read(pair):
    connection, peer = pair
    assert not connection.is_dead()
    peer.send(b"x")
    while not connection.is_dead():
        pass
    peer.close()
    assert connection.is_dead()


class TestFinishing:
    def test_a_response_that_ends_in_time(self, pair):
        connection, peer = pair
        peer.send(stream() + chunk(b"x" * 1000) + END)
        assert connection.finish(5, 1000)
        assert connection.finish(0, 0)  # it has ended

    def test_one_of_too_many_bytes(self, pair):
        connection, peer = pair
        peer.send(stream() + chunk(b"x" * 1001) + END)
        assert not connection.finish(5, 1000)

    def test_one_that_takes_too_long(self, pair):
        connection, peer = pair
        peer.send(stream())
        assert not connection.finish(0.01, 1000)

    def test_one_that_breaks(self, pair):
        connection, peer = pair
        peer.send(stream() + b"nonsense\r\n")
        assert not connection.finish(5, 1000)
        assert not connection.finish(5, 1000)


def test_an_interpreter_without_ssl_can_tell_what_would_block(pair):
    connection, peer = pair
    assert isinstance(peer, Endpoint)
    assert module._would_block(BlockingIOError())
    assert not module._would_block(ConnectionResetError())
    assert connection.has_answer() is False
