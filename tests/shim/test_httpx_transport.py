# SPDX-License-Identifier: Apache-2.0
"""The transports round an httpx client's own, against a model that does not know the protocol, or plays that it does.

With a real server behind them: tests/end_to_end/test_in_process.py.
"""

import asyncio
import json
import socket
import ssl
import threading
import time
from itertools import count

import httpx
import pytest
from history_delta_shim.httpx_transport import AsyncTransport, Transport
from support.certificates import make_certificates
from support.endpoints import PATIENCE
from support.httpx_caller import LIBRARIES, Caller
from support.json_bodies import CHAT, MESSAGES, body, said
from support.model_server import ModelServer, head

SPEAKS = "History-Delta-Version: 1"
RESYNC = "History-Delta-Resync: unknown-base"
BODY = body(said(1)).raw
_rollouts = count(1)


@pytest.fixture(params=["sync", "async"])
def asynchronous(request):
    return request.param == "async"


@pytest.fixture(params=list(LIBRARIES))
def library(request):
    return LIBRARIES[request.param]


@pytest.fixture
def caller(library, asynchronous):
    """Makes a caller whose calls go out in the protocol."""

    def make(upstream, **options):
        return Caller(library, asynchronous, upstream=upstream, rollout=f"t{next(_rollouts)}", enabled=True, **options)

    return make


class MuteToQuestions(ModelServer):
    """Answers POST alone."""

    def _answer(self, request, sock):
        if request.method == "POST":
            super()._answer(request, sock)
            return
        self.others.append(request)
        assert sock.recv(1) == b"", "it asks again on a connection on which it waits"


class Verbose(ModelServer):
    """Has no end of an answer to what is no POST."""

    def __init__(self, behave):
        super().__init__(behave)
        self.gave_up = threading.Event()

    def _answer(self, request, sock):
        if request.method == "POST":
            super()._answer(request, sock)
            return
        sock.sendall(head("HTTP/1.1 200 OK", "Content-Length: 1000000000"))
        try:
            while True:
                sock.sendall(b" " * 65536)
        except OSError:
            self.gave_up.set()


class TlsModelServer(ModelServer):
    def __init__(self, behave, context):
        super().__init__(behave)
        self.context = context
        self.origin = self.origin.replace("http:", "https:")

    def _serve(self, sock):
        try:
            encrypted = self.context.wrap_socket(sock, server_side=True)
        except OSError:
            return  # the client does not trust us
        super()._serve(encrypted)


def ok(call):
    call.respond(b"{}", "Content-Type: application/json", "X-Model: yes")


def names(request):
    return [name.lower() for name, _ in request.headers]


def of_ours(request):
    return [name for name in names(request) if name.startswith("history-delta-")]


class TestAServerThatDoesNotSpeak:
    def test_is_asked_once_and_sent_the_body_as_it_is(self, caller):
        with ModelServer(ok) as model:
            agent = caller(model.origin)
            for _ in range(3):
                assert agent.post(model.origin + CHAT, BODY).content == b"{}"
        assert model.bodies == [BODY] * 3
        [question] = model.others
        assert (question.method, question.target) == ("GET", "/v1/.well-known/history-delta")
        assert question.value("Host") == model.origin.removeprefix("http://")
        assert [call.request.value("History-Delta-Full") for call in model.calls] == ["peer-does-not-speak"] * 3

    def test_gets_the_headers_that_it_would_get_without_us_in_their_order_and_ours_behind_them(
        self, caller, library, asynchronous
    ):
        odd = [("X-b", "1"), ("x-A", "é".encode("latin-1")), ("X-b", "2"), ("Authorization", "Bearer k")]
        with ModelServer(ok) as model:
            Caller(library, asynchronous).post(model.origin + CHAT + "?a=%20b", BODY, odd)
            caller(model.origin).post(model.origin + CHAT + "?a=%20b", BODY, odd)
        plain, ours = (call.request for call in model.calls)
        assert ours.target == plain.target
        assert ours.headers[: len(plain.headers)] == plain.headers
        added = [name for name, _ in ours.headers[len(plain.headers) :]]
        assert added == [f"History-Delta-{name}" for name in ("Version", "Delivery", "Rollout", "Full")]

    def test_its_rollout_is_named_where_the_path_does_not(self, caller):
        with ModelServer(ok) as model:
            agent = caller(model.origin)
            agent.post(model.origin + CHAT, BODY)
            agent.post(model.origin + "/ng-rollout/r9" + CHAT, BODY)
        assert [call.request.value("History-Delta-Rollout") for call in model.calls] == [agent.options["rollout"], None]

    def test_a_question_that_hangs_holds_up_one_call_for_two_seconds(self, caller):
        with MuteToQuestions(ok) as model:
            agent = caller(model.origin)
            started = time.monotonic()
            assert agent.post(model.origin + CHAT, BODY).status_code == 200
            assert 1.9 < time.monotonic() - started < 4
            assert agent.post(model.origin + CHAT, BODY).status_code == 200
            assert time.monotonic() - started < 4
        assert len(model.others) == 1

    def test_an_answer_of_any_length_says_no_more_than_its_beginning(self, caller):
        with Verbose(ok) as model:
            assert caller(model.origin).post(model.origin + CHAT, BODY).status_code == 200
            assert model.gave_up.wait(PATIENCE)
        assert model.bodies == [BODY]


class TestWhatIsLeftAlone:
    def test_a_request_to_another_origin(self, caller):
        with ModelServer(ok) as model, ModelServer(ok) as other:
            agent = caller(model.origin)
            assert agent.post(other.origin + CHAT, BODY).status_code == 200
            assert of_ours(other.calls[0].request) == []
            assert model.calls == model.others == other.others == []

    def test_a_request_that_is_no_model_call(self, caller):
        with ModelServer(ok) as model:
            agent = caller(model.origin)
            assert agent.get(model.origin + "/v1/models").status_code == 404
            assert agent.post(model.origin + "/v1/embeddings", BODY).status_code == 200
        assert [request.target for request in model.others] == ["/v1/models"]
        assert of_ours(model.calls[0].request) == []

    def test_headers_of_the_protocol_that_an_agent_forges_do_not_pass(self, caller):
        forged = [("History-Delta-Version", "1"), ("history-delta-held", "x")]
        with ModelServer(ok) as model:
            agent = caller(model.origin)
            agent.get(model.origin + "/v1/models", forged)
            agent.post(model.origin + CHAT, BODY, forged)
        assert of_ours(model.others[0]) == []
        assert model.calls[0].request.value("History-Delta-Version") == "1"
        assert model.calls[0].request.value("History-Delta-Held") is None

    def test_a_body_that_is_a_stream_goes_out_as_it_comes(self, caller, asynchronous):
        def pieces():
            yield BODY[:10]
            yield BODY[10:]

        async def async_pieces():
            for piece in pieces():
                yield piece

        with ModelServer(ok) as model:
            caller(model.origin).post(model.origin + CHAT, async_pieces() if asynchronous else pieces())
        [call] = model.calls
        assert call.body == BODY
        assert call.request.value("Transfer-Encoding") == "chunked"
        assert call.request.value("History-Delta-Delivery") is not None

    def test_everything_where_the_protocol_is_off(self, library, asynchronous):
        with ModelServer(ok) as model:
            Caller(library, asynchronous, upstream=model.origin, enabled=False).post(model.origin + CHAT, BODY)
        assert of_ours(model.calls[0].request) == []
        assert model.others == []


class TestAnswers:
    def test_come_as_they_are_but_for_headers_of_the_protocol(self, caller, library, asynchronous):
        def answer(call):
            call.respond(b"{}", "X-a: 1", SPEAKS, "x-A: 2", "History-Delta-Held: 9 x", "Set-Cookie: a", "Set-Cookie: b")

        with ModelServer(answer) as model:
            ours = caller(model.origin).post(model.origin + CHAT, BODY)
            plain = Caller(library, asynchronous).post(model.origin + CHAT, BODY)
        expected = [(name, value) for name, value in plain.headers.raw if not name.lower().startswith(b"history-delta")]
        assert ours.headers.raw == expected
        assert len(expected) == len(plain.headers.raw) - 2
        assert (ours.request.content, str(ours.url)) == (BODY, model.origin + CHAT)
        assert set(ours.request.headers) == set(plain.request.headers)

    @pytest.mark.parametrize("status", ["409 Conflict", "429 Too Many Requests", "500 Oops", "503 Busy"])
    def test_a_models_own_error_is_passed_on_and_nothing_is_repeated(self, caller, status):
        def answer(call):
            call.respond(b"no", "Retry-After: 3", status=status)

        with ModelServer(answer) as model:
            response = caller(model.origin).post(model.origin + CHAT, BODY)
        assert (response.status_code, response.content, response.headers["retry-after"]) == (
            int(status[:3]),
            b"no",
            "3",
        )
        assert len(model.calls) == 1

    @pytest.mark.parametrize(("target", "shape"), [(CHAT, "param"), (MESSAGES, "type")])
    def test_a_resync_of_a_full_request_becomes_a_503_in_the_dialects_shape(self, caller, tmp_path, target, shape):
        def answer(call):
            call.respond(b"", SPEAKS, RESYNC, status="409 Conflict")

        with ModelServer(answer) as model:
            agent = caller(model.origin, log_file=str(tmp_path / "log"))
            response = agent.post(model.origin + target, BODY)
        assert response.status_code == 503
        assert response.headers["retry-after"] == "1"
        document = response.json()
        assert document["error"]["code"] == "history_delta_unavailable"
        assert shape in (document if target == MESSAGES else document["error"])
        logged = json.loads((tmp_path / "log").read_text().splitlines()[-1])
        assert (logged["status"], logged["outcome"]) == (503, "refused")

    def test_a_stream_comes_piece_by_piece(self, library):
        """The second is not sent before the first has been read."""
        with ModelServer() as model:
            transport = Transport(library.HTTPTransport(), model.origin, "stream", True)
            with library.Client(transport=transport) as client:
                request = client.build_request("POST", model.origin + CHAT, content=BODY)
                sending = asyncio.new_event_loop()
                answered = sending.run_in_executor(None, lambda: client.send(request, stream=True))
                call = model.next_call()
                call.stream("Content-Type: text/event-stream")
                response = sending.run_until_complete(answered)
                pieces = response.iter_raw()
                for piece in (b"data: 1\n\n", b"data: 2\n\n"):
                    call.chunk(piece)
                    assert next(pieces) == piece
                call.end()
                assert list(pieces) == []
                sending.close()


class TestFailures:
    """What the client sees is what it would see without us."""

    def test_of_connecting(self, caller):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            origin = f"http://127.0.0.1:{unused.getsockname()[1]}"
            agent = caller(origin)
            with pytest.raises(agent.library.ConnectError):
                agent.post(origin + CHAT, BODY)

    @pytest.mark.parametrize("end", ["close", "reset"])
    def test_before_a_response(self, caller, library, asynchronous, end):
        with ModelServer(lambda call: getattr(call, end)()) as model:
            errors = []
            for agent in (caller(model.origin), Caller(library, asynchronous)):
                with pytest.raises(library.TransportError) as failed:
                    agent.post(model.origin + CHAT, BODY)
                errors.append((type(failed.value), str(failed.value)))
        assert errors[0] == errors[1]
        assert len(model.calls) == 2

    def test_in_the_middle_of_a_stream(self, caller, library, asynchronous):
        def cut(call):
            call.stream("Content-Type: text/event-stream")
            call.chunk(b"data: 1\n\n")
            call.close()

        with ModelServer(cut) as model:
            pieces, error = caller(model.origin).stream(model.origin + CHAT, BODY)
            same_pieces, same_error = Caller(library, asynchronous).stream(model.origin + CHAT, BODY)
        assert (b"".join(pieces), type(error), str(error)) == (
            b"data: 1\n\n",
            library.RemoteProtocolError,
            str(same_error),
        )
        assert same_pieces == pieces

    def test_the_agents_own_timeout_is_kept(self, caller, library):
        with ModelServer() as model:
            with pytest.raises(library.ReadTimeout):
                caller(model.origin).post(model.origin + CHAT, BODY, timeout=0.3)
            assert model.next_call().body == BODY

    def test_a_fault_of_ours_costs_the_saving_alone(self, caller, monkeypatch, tmp_path):
        """A core that fails in whatever it is asked."""

        def broken(*arguments):
            raise RuntimeError("a fault of ours")

        with ModelServer(ok) as model:
            agent = caller(model.origin, log_file=str(tmp_path / "log"))
            for what in ("start", "capabilities_target"):
                monkeypatch.setattr(f"history_delta_shim.core.Core.{what}", broken)
                for _ in range(2):
                    assert agent.post(model.origin + CHAT, BODY).status_code == 200
        assert model.bodies == [BODY] * 4
        assert [of_ours(call.request) for call in model.calls] == [[]] * 4
        events = [json.loads(line)["event"] for line in (tmp_path / "log").read_text().splitlines()]
        assert events.count("core-failed") == 1


class TestTls:
    def test_the_clients_own_trust_decides(self, caller, tmp_path):
        certificates = make_certificates(tmp_path)
        with TlsModelServer(ok, certificates.server) as model:
            agent = caller(model.origin)
            with pytest.raises(agent.library.ConnectError):
                agent.post(model.origin + CHAT, BODY)
            agent.verify = ssl.create_default_context(cafile=str(certificates.authority))
            assert agent.post(model.origin + CHAT, BODY).status_code == 200
        assert model.bodies == [BODY]


class TestSettings:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({}, "upstream or HISTORY_DELTA_UPSTREAM: expected an origin"),
            ({"upstream": "http://h/path"}, "expected an origin"),
            ({"upstream": "http://h", "rollout": "a/b"}, "expected letters, digits"),
        ],
    )
    def test_what_is_wrong_is_told_when_it_is_made(self, options, said, monkeypatch):
        monkeypatch.delenv("HISTORY_DELTA_UPSTREAM", raising=False)
        with pytest.raises(ValueError, match=said):
            Transport(httpx.HTTPTransport(), enabled=True, **options)

    def test_variables_stand_in(self, monkeypatch):
        with ModelServer(ok) as model:
            monkeypatch.setenv("HISTORY_DELTA_UPSTREAM", model.origin)
            monkeypatch.setenv("HISTORY_DELTA_ROLLOUT", "from-env")
            for value, rollout in (("1", "from-env"), ("0", None)):
                monkeypatch.setenv("HISTORY_DELTA_ENABLED", value)
                with httpx.Client(transport=Transport(httpx.HTTPTransport())) as client:
                    client.post(model.origin + CHAT, content=BODY)
                assert model.calls[-1].request.value("History-Delta-Rollout") == rollout

    def test_what_else_the_inner_transport_has_is_found(self):
        inner = httpx.HTTPTransport()
        with Transport(inner, "http://127.0.0.1:1", enabled=True) as transport:
            assert transport._pool is inner._pool
            with pytest.raises(AttributeError):
                transport.nothing  # noqa: B018

    async def test_it_opens_and_closes_the_inner_transport(self):
        class Inner(httpx.AsyncBaseTransport):
            closed = False

            async def aclose(self):
                self.closed = True

        async with AsyncTransport(Inner(), "http://127.0.0.1:1", enabled=True) as transport:
            pass
        assert transport.inner.closed
