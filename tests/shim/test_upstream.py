# SPDX-License-Identifier: Apache-2.0
"""How the upstream is connected to: kept connections, TLS, proxies."""

import base64
import ssl

import pytest
from history_delta_shim import upstream as module
from history_delta_shim.origin import parse_origin
from history_delta_shim.upstream import Unreachable, Upstream
from support.certificates import make_certificates
from support.endpoints import Endpoint, ListeningEndpoint
from support.http_text import CHAT, END, answer, chunk, get, post, stream

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def tls_upstream(certificates):
    listening = ListeningEndpoint(certificates.server)
    yield listening
    listening.close()


@pytest.fixture
def tls_shim(start_shim, tls_upstream, certificates):
    return start_shim("--upstream", tls_upstream.origin, env={"SSL_CERT_FILE": str(certificates.authority)})


def exchange_once(upstream, connection, peer=None):
    """A whole exchange on the connection, which is given back; its upstream end."""
    connection.begin("GET")
    assert connection.send(get("/"))
    peer = peer or upstream.accept()
    peer.read_request()
    peer.send(answer(b"r"))
    while not connection.reader.done:
        connection.next_event()
    connection.reusable = True
    return peer


class TestKept:
    def test_the_youngest_idle_connection_is_used_first(self, upstream):
        pool = Upstream(parse_origin(upstream.origin), None, print)
        first, second = pool.acquire(), pool.acquire()
        exchange_once(upstream, first)
        exchange_once(upstream, second)
        pool.release(first)
        pool.release(second)
        assert pool.acquire() is second
        assert pool.acquire() is first
        first.close()
        second.close()

    def test_a_fresh_one_can_be_asked_for(self, upstream):
        pool = Upstream(parse_origin(upstream.origin), None, print)
        first = pool.acquire()
        exchange_once(upstream, first)
        pool.release(first)
        second = pool.acquire(fresh=True)
        assert second is not first
        second.close()

    def test_what_has_been_idle_for_too_long_is_closed_and_not_used(self, upstream, monkeypatch):
        pool = Upstream(parse_origin(upstream.origin), None, print)
        first = pool.acquire()
        peer = exchange_once(upstream, first)
        pool.release(first)
        pool.sweep()
        monkeypatch.setattr(module, "IDLE_SECONDS", -1.0)  # every idle time is too long now
        second = pool.acquire()
        assert second is not first
        assert peer.is_ended()
        second.close()

    def test_no_more_than_a_few_are_kept_and_the_oldest_go(self, upstream):
        pool = Upstream(parse_origin(upstream.origin), None, print)
        connections = [pool.acquire() for _ in range(module.MAX_IDLE + 1)]
        peers = [exchange_once(upstream, connection) for connection in connections]
        for connection in connections:
            pool.release(connection)
        assert peers[0].is_ended()
        assert [pool.acquire() for _ in range(module.MAX_IDLE)] == connections[:0:-1]
        for connection in connections:
            connection.close()

    def test_a_response_that_was_not_read_to_its_end_is_not_given_back(self, upstream):
        pool = Upstream(parse_origin(upstream.origin), None, print)
        connection = pool.acquire()
        connection.begin("GET")
        connection.send(get("/"))
        peer = upstream.accept()
        peer.read_request()
        peer.send(stream())
        connection.next_event()
        connection.reusable = True
        pool.release(connection)
        assert peer.is_ended()

    def test_what_cannot_be_reached_is_named(self, upstream):
        upstream.close()
        with pytest.raises(Unreachable, match=f"127.0.0.1:{upstream.port}: Connection refused"):
            Upstream(parse_origin(upstream.origin), None, print).acquire()


class TestTls:
    def test_calls_over_tls_reuse_their_connection(self, tls_shim, tls_upstream):
        agent = tls_shim.agent()
        for number in range(3):
            agent.send(post(b"%d" % number))
            if number == 0:
                peer = tls_upstream.accept()
            request = peer.read_request()
            assert request.body == b"%d" % number
            assert request.values("host") == [f"127.0.0.1:{tls_upstream.port}"]
            peer.send(answer(b"r%d" % number))
            assert agent.read_response().body == b"r%d" % number

    def test_a_big_body_and_a_stream(self, tls_shim, tls_upstream):
        agent = tls_shim.agent()
        body = bytes(range(256)) * 16384
        agent.send(post(body))
        peer = tls_upstream.accept()
        assert peer.read_request().body == body
        peer.send(stream())
        agent.read_response_head("POST")
        for number in range(10):
            event = b"data: %d\n\n" % number
            peer.send(chunk(event))
            assert agent.next_data() == event
        peer.send(chunk(body) + END)
        received = b""
        while data := agent.next_data():
            received += data
        assert received == body

    def test_an_end_without_a_goodbye_is_a_break(self, tls_shim, tls_upstream):
        agent = tls_shim.agent()
        agent.send(post(b"{}"))
        peer = tls_upstream.accept()
        peer.read_request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\ndata")
        agent.receive_until(b"data\r\n")
        peer.close()
        assert agent.receive_all() == (b"", False)  # no final chunk
        assert tls_shim.next_logged()["outcome"] == "broken"

    def test_an_agent_that_leaves_cancels(self, tls_shim, tls_upstream):
        agent = tls_shim.agent()
        agent.send(post(b"{}"))
        peer = tls_upstream.accept()
        peer.read_request()
        agent.close()
        assert peer.is_ended()

    def test_a_connection_that_died_while_idle_is_not_used(self, tls_shim, tls_upstream):
        agent = tls_shim.agent()
        agent.send(post(b"1"))
        peer = tls_upstream.accept()
        peer.read_request()
        peer.send(answer(b"r1"))
        agent.read_response()
        tls_shim.next_logged()
        peer.close()
        agent.send(post(b"2"))
        assert tls_upstream.accept().read_request().body == b"2"

    def test_a_server_that_nobody_vouches_for_gets_nothing(self, start_shim, tls_upstream):
        shim = start_shim("--upstream", tls_upstream.origin)
        agent = shim.agent()
        agent.send(post(b"{}"))
        for _ in range(2):
            with pytest.raises(ssl.SSLError):
                tls_upstream.accept()
        refused = agent.read_response()
        assert refused.line[0] == 503
        assert b"certificate" in refused.body


@pytest.fixture
def proxy():
    listening = ListeningEndpoint()
    yield listening
    listening.close()


def proxy_url(proxy):
    return f"http://user:pass@127.0.0.1:{proxy.port}"


BASIC = "Basic " + base64.b64encode(b"user:pass").decode()


class TestProxies:
    def test_http_goes_to_the_proxy_in_absolute_form(self, start_shim, proxy):
        shim = start_shim("--upstream", "http://model.test:8000", env={"HTTP_PROXY": proxy_url(proxy)})
        agent = shim.agent()
        agent.send(post(b"{}", "Proxy-Authorization: the agent's"))
        peer = proxy.accept()
        request = peer.read_request()
        assert request.line == ("POST", "http://model.test:8000" + CHAT)
        assert request.values("host") == ["model.test:8000"]
        assert request.values("proxy-authorization") == [BASIC]
        peer.send(answer(b"r"))
        assert agent.read_response().body == b"r"

    def test_https_goes_through_a_tunnel(self, start_shim, proxy, certificates):
        env = {"https_proxy": proxy_url(proxy), "SSL_CERT_FILE": str(certificates.authority)}
        shim = start_shim("--upstream", "https://model.test", env=env)
        agent = shim.agent()
        agent.send(post(b"{}"))
        outer = proxy.accept()
        connect = outer.receive_until(b"\r\n\r\n")
        assert connect.startswith(b"CONNECT model.test:443 HTTP/1.1\r\nHost: model.test:443\r\n")
        assert f"Proxy-Authorization: {BASIC}\r\n".encode() in connect
        outer.send(b"HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n")
        inner = Endpoint(certificates.server.wrap_socket(outer.socket, server_side=True))
        request = inner.read_request()
        assert request.line == ("POST", CHAT)
        assert request.names() == {"host", "content-length"}
        inner.send(answer(b"r"))
        assert agent.read_response().body == b"r"
        inner.close()

    def test_a_proxy_that_refuses_is_named_with_its_status(self, start_shim, proxy):
        shim = start_shim("--upstream", "https://model.test", env={"HTTPS_PROXY": proxy_url(proxy)})
        agent = shim.agent()
        agent.send(post(b"{}"))
        for _ in range(2):
            peer = proxy.accept()
            peer.receive_until(b"\r\n\r\n")
            peer.send(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        refused = agent.read_response()
        assert refused.line[0] == 503
        assert b"407" in refused.body
        assert f"model.test:443 through the proxy 127.0.0.1:{proxy.port}".encode() in refused.body
        assert b"pass" not in refused.body

    @pytest.mark.parametrize("settings", [{}, {"NO_PROXY": "127.0.0.1"}])
    def test_loopback_is_reached_directly(self, start_shim, upstream, proxy, settings):
        shim = start_shim("--upstream", upstream.origin, env={"HTTP_PROXY": proxy_url(proxy), **settings})
        agent = shim.agent()
        agent.send(post(b"{}"))
        assert upstream.accept().read_request().line == ("POST", CHAT)
        assert not proxy.has_caller()
