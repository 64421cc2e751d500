# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
from history_delta_shim import agent_connection as module
from history_delta_shim import http1
from history_delta_shim.agent_connection import AgentConnection
from history_delta_shim.connection import AgentLeft, Connection
from support.endpoints import PATIENCE, connect
from support.http_text import CHAT, END, answer, chunk, get, head, post
from support.running_agent import wait_until

CHUNKED = head(f"POST {CHAT} HTTP/1.1", "Host: a", "Transfer-Encoding: chunked")


@pytest.fixture
def agent(upstream):
    """The agent's end."""
    return connect(upstream.port)


@pytest.fixture
def connection(agent, upstream):
    """The shim's end of the agent's connection."""
    connection = AgentConnection(upstream.accept().socket)
    yield connection
    agent.close()
    connection.close()


def everything(size):
    """May hold a body of any size."""
    return True


class TestRequests:
    def test_come_one_after_another_with_their_bodies(self, agent, connection):
        for number in (b"1", b"2"):
            agent.send(post(number, target="/" + number.decode()))
            assert connection.next_request().target == "/" + number.decode()
            assert not connection.request_done
            assert connection.read_body(everything) == ([number], True)
            assert connection.request_done

    def test_that_were_pipelined_wait_for_their_turn(self, agent, connection):
        agent.send(post(b"one", target="/1") + get("/2") + post(b"three", target="/3"))
        agent.end()
        got = [(connection.next_request().target, connection.read_body(everything)[0]) for _ in range(3)]
        assert got == [("/1", [b"one"]), ("/2", []), ("/3", [b"three"])]
        assert connection.next_request() is None

    def test_say_whether_a_body_came_along(self, agent, connection):
        agent.send(head("POST / HTTP/1.1", "Host: a", "Content-Length: 2"))
        connection.next_request()
        assert not connection.body_began
        agent.send(b"ab")
        connection.read_body(everything)
        agent.send(post(b"ab"))
        connection.next_request()
        assert connection.body_began

    def test_start_the_account_of_the_answer_anew(self, agent, connection):
        agent.send(get("/1") + get("/2"))
        connection.next_request()
        connection.read_body(everything)
        connection.send(b"")
        connection.send_interim(103, "Early Hints", [])
        assert (connection.answered, connection.bytes_sent) == (False, 0)
        connection.send(b"four")
        assert (connection.answered, connection.bytes_sent) == (True, 4)
        connection.next_request()
        assert (connection.answered, connection.bytes_sent) == (False, 0)

    def test_are_over_where_the_agent_closes_between_two(self, agent, connection):
        agent.close()
        assert connection.next_request() is None

    def test_that_end_in_the_middle_are_incomplete(self, agent, connection):
        agent.send(b"GET / HT")
        agent.end()
        with pytest.raises(http1.Incomplete):
            connection.next_request()

    def test_end_with_the_agents_reset(self, agent, connection):
        agent.reset()
        with pytest.raises(AgentLeft):
            connection.next_request()

    def test_are_not_waited_for_without_end(self, connection, monkeypatch):
        monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
        with pytest.raises(AgentLeft):
            connection.next_request()


class TestABody:
    def test_is_read_no_further_than_it_may_be_held(self, agent, connection):
        agent.send(CHUNKED)
        connection.next_request()
        sizes = []

        def may_hold(size):
            sizes.append(size)
            agent.send(chunk(b"more"))
            return size <= 6

        agent.send(chunk(b"first"))
        pieces, whole = connection.read_body(may_hold)
        assert (b"".join(pieces), whole) == (b"firstmore", False)
        assert sizes == [5, 9]
        agent.send(END)
        assert connection.read_body(everything) == ([b"more"], True)  # the rest is still there to be read

    def test_that_does_not_come_is_not_waited_for_without_end(self, agent, connection, monkeypatch):
        agent.send(CHUNKED)
        connection.next_request()
        monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
        with pytest.raises(AgentLeft):
            connection.read_body(everything)


class TestAPieceWhileAnUpstreamMayAnswer:
    @pytest.fixture
    def peer(self, upstream, agent, connection):
        """The upstream's end of the call whose body is being passed on."""
        agent.send(CHUNKED)
        connection.next_request()
        self.to_upstream = Connection(connect(upstream.port).socket, False)
        self.to_upstream.begin("POST")
        yield upstream.accept()
        self.to_upstream.close()

    def test_comes_as_the_agent_sends_it(self, agent, connection, peer):
        for piece in (b"one", b"two"):
            agent.send(chunk(piece))
            assert connection.next_piece(self.to_upstream) == http1.Data(piece)
        agent.send(END)
        assert connection.next_piece(self.to_upstream) == http1.End([])

    def test_does_not_come_once_there_is_a_final_answer(self, connection, peer):
        peer.send(answer(b"no", status="413 Too Large"))
        assert connection.next_piece(self.to_upstream) is None
        assert self.to_upstream.next_event().status == 413

    def test_does_not_come_once_the_upstream_has_closed(self, connection, peer):
        peer.close()
        assert connection.next_piece(self.to_upstream) is None

    def test_still_comes_behind_an_interim_response(self, agent, connection, peer):
        peer.send(head("HTTP/1.1 100 Continue"))
        pieces = []
        waiting = threading.Thread(target=lambda: pieces.append(connection.next_piece(self.to_upstream)))
        waiting.start()
        agent.send(chunk(b"one"))
        waiting.join(PATIENCE)
        assert pieces == [http1.Data(b"one")]

    def test_of_an_agent_that_has_left_is_incomplete(self, agent, connection, peer):
        agent.close()
        with pytest.raises(http1.Incomplete):
            connection.next_piece(self.to_upstream)

    def test_is_not_waited_for_without_end(self, connection, peer, monkeypatch):
        monkeypatch.setattr(module, "IDLE_SECONDS", 0.01)
        with pytest.raises(AgentLeft):
            connection.next_piece(self.to_upstream)


def test_writing_to_an_agent_that_has_left_says_so(agent, connection):
    def write_on():
        while True:
            connection.send(b"x" * 100_000)

    agent.reset()
    with pytest.raises(AgentLeft):
        write_on()
    with pytest.raises(AgentLeft):
        connection.send_interim(103, "Early Hints", [])


class TestClosingWhatIsIdle:
    def ask(self, connection):
        """A thread that takes the next request, and where it goes."""
        taken = []
        thread = threading.Thread(target=lambda: taken.append(connection.next_request()), daemon=True)
        thread.start()
        return thread, taken

    def test_ends_the_waiting_for_a_request(self, connection):
        thread, taken = self.ask(connection)
        while thread.is_alive():  # it may not be waiting yet
            connection.close_if_idle()
            thread.join(0.01)
        assert taken == [None]

    def test_lets_the_agent_send_the_rest_of_a_request_that_was_pipelined(self, agent, connection):
        agent.send(get("/1") + b"GET /2 HTTP/1.1\r\n")
        connection.next_request()
        connection.read_body(everything)
        thread, taken = self.ask(connection)
        connection.close_if_idle()
        agent.send(b"Host: a\r\n\r\n")
        thread.join(PATIENCE)
        assert [request.target for request in taken] == ["/2"]

    def test_lets_the_agent_send_the_rest_of_a_request_that_began_while_it_was_waited_for(self, agent, connection):
        thread, taken = self.ask(connection)
        agent.send(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: connection.body_began, "the first line is there")
        connection.close_if_idle()
        thread.join(0.05)  # if it is cut, it is at once
        assert thread.is_alive()
        agent.send(b"Host: a\r\n\r\n")
        thread.join(PATIENCE)
        assert [request.target for request in taken] == ["/"]

    def test_lets_the_agent_send_the_rest_of_its_body(self, agent, connection):
        agent.send(post(b"body")[:-2])
        connection.next_request()
        connection.close_if_idle()
        agent.send(b"dy")
        assert b"".join(connection.read_body(everything)[0]) == b"body"


class TestACut:
    """Each is seen as an error by the agent, behind every byte that was sent."""

    @pytest.fixture(autouse=True)
    def unread(self, agent, connection):
        """Pipelined bytes, for which a plain close would cost the agent what it has not yet received."""
        agent.send(get("/1") + get("/2"))
        connection.next_request()

    def test_before_the_answer_is_a_reset(self, agent, connection):
        connection.cut(until_close=False)
        assert agent.receive_all() == (b"", True)

    def test_of_a_body_that_ends_with_the_connection_is_a_reset_behind_it(self, agent, connection):
        connection.send(b"part")
        connection.cut(until_close=True)
        assert agent.receive_all() == (b"part", True)

    def test_of_a_body_with_an_end_of_its_own_is_a_missing_end(self, agent, connection):
        connection.send(b"part")
        agent.end()
        connection.cut(until_close=False)
        assert agent.receive_all() == (b"part", False)
