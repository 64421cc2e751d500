# SPDX-License-Identifier: Apache-2.0
"""The transport in the agent's own process: httpx client → real server → model, and ``run --in-process`` with programs
that know nothing of it. What does not need a server is in tests/shim/test_httpx_transport.py.
"""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from history_delta_conformance.agents import AGENTS
from history_delta_conformance.chain import Mode
from history_delta_conformance.processes import SHIM_RUN_COMMAND
from history_delta_conformance.run import run
from history_delta_conformance.scripted_model import load_scenario
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.conversation import Conversation
from support.ends import ServerProcess
from support.httpx_caller import LIBRARIES, Caller
from support.json_bodies import CHAT, bodies
from support.model_server import ModelServer

CHUNK = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}
ANSWER = json.dumps({**CHUNK, "object": "chat.completion", "choices": [CHOICE]}).encode()
PROGRAM = Path(__file__).parents[1] / "support" / "openai_program.py"


def ok(call):
    call.respond(ANSWER, "Content-Type: application/json")


@pytest.fixture(params=["sync", "async"])
def asynchronous(request):
    return request.param == "async"


@pytest.fixture(params=list(LIBRARIES))
def library(request):
    return LIBRARIES[request.param]


class InProcess:
    """A caller with the transport, and its log."""

    def __init__(self, library, asynchronous, origin, folder):
        self.origin = origin
        self._log = folder / "in-process.log"
        self.caller = Caller(library, asynchronous, upstream=origin, enabled=True, log_file=str(self._log))

    def send(self, conversation, *headers):
        """The conversation as it stands."""
        raw = conversation.request().partition(b"\r\n\r\n")[2]
        return self.caller.post(self.origin + conversation.path, raw, headers)

    def calls(self):
        return calls_in(self._log)


def calls_in(log):
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event for event in events if event["event"] == "call"]


@pytest.fixture
def agent(library, asynchronous, tmp_path):
    return lambda server: InProcess(library, asynchronous, server.origin, tmp_path)


def kinds(agent):
    return [call["kind"] for call in agent.calls()]


def test_a_conversation_costs_what_is_new_of_it_over_clients_that_live_for_one_call(agent, start):
    model = start.model(ok)
    agent = agent(start.server(model))
    conversation = Conversation()
    for _ in range(4):
        response = agent.send(conversation)
        assert (response.status_code, response.content) == (200, ANSWER)
        assert not [name for name in response.headers if name.lower().startswith("history-delta")]
        conversation.turn()
    assert model.bodies == conversation.sent
    assert kinds(agent) == ["self-contained", "delta", "delta", "delta"]
    for call in agent.calls()[1:]:
        assert call["sent_bytes"] < 1000 < call["body_bytes"]
        assert (call["status"], call["outcome"], call["reason"]) == (200, "complete", None)


def test_a_call_is_logged_as_the_shim_logs_it(start, tmp_path):
    model = start.model(ok)
    server = start.server(model)
    shim, conversation = start.shim(server.origin), Conversation()
    within = InProcess(httpx, False, server.origin, tmp_path)
    within.send(conversation)
    within.caller.get(server.origin + "/v1/models")
    Caller(httpx, False).post(shim.origin + conversation.path, conversation.sent[0])
    Caller(httpx, False).get(shim.origin + "/v1/models")
    for path in (conversation.path, "/v1/models"):
        [theirs] = shim.logged_on(path, 1)
        [ours] = [call for call in within.calls() if call["path"] == path]
        assert set(ours) == set(theirs)
        measured = {"ts", "delivery", "prepare_ms", "total_ms", "response_bytes", "body_bytes", "sent_bytes"}
        for name in set(ours) - measured:
            assert ours[name] == theirs[name], name


def test_a_server_that_lost_its_state_is_sent_the_body_once_more_in_full(agent, start):
    model = start.model(ok)
    server = start.server(model)
    agent = agent(server)
    conversation = Conversation()
    agent.send(conversation)
    server.kill()
    start.server(model, port=server.port)
    conversation.turn()
    assert agent.send(conversation).status_code == 200
    conversation.turn()
    assert agent.send(conversation).status_code == 200
    assert model.bodies == conversation.sent
    lost = agent.calls()[1]
    assert (lost["kind"], lost["reason"], lost["resynced"]) == ("full", "resync:unknown-base", True)
    assert kinds(agent)[2] == "delta"


def test_a_server_that_was_switched_off_is_sent_full_bodies(agent, start):
    model = start.model(ok)
    server = start.server(model)
    agent = agent(server)
    conversation = Conversation()
    agent.send(conversation)
    server.kill()
    start.server(model, port=server.port, env={"HISTORY_DELTA_ENABLED": "0"})
    for _ in range(2):
        conversation.turn()
        assert agent.send(conversation).status_code == 200
    assert model.bodies == conversation.sent
    assert [call["reason"] for call in agent.calls()] == ["no-base", "resync:disabled", "peer-does-not-speak"]


def test_a_models_own_409_is_the_agents_business(agent, start):
    model = start.model(lambda call: call.respond(b"conflict", status="409 Conflict"))
    agent = agent(start.server(model))
    conversation = Conversation()
    for _ in range(2):
        response = agent.send(conversation)
        assert (response.status_code, response.content) == (409, b"conflict")
        conversation.turn()
    assert model.bodies == conversation.sent
    assert kinds(agent)[1] == "delta"


def test_a_stream_that_the_model_cuts_is_cut_for_the_client(agent, start, library):
    def cut(call):
        call.stream("Content-Type: text/event-stream")
        call.chunk(b"data: 1\n\n")
        call.close()

    model = start.model(cut)
    agent = agent(start.server(model))
    conversation = Conversation()
    for _ in range(2):
        raw = conversation.request().partition(b"\r\n\r\n")[2]
        pieces, error = agent.caller.stream(agent.origin + conversation.path, raw)
        assert b"".join(pieces) == b"data: 1\n\n"
        assert type(error) is library.RemoteProtocolError
        conversation.turn()
    assert model.bodies == conversation.sent
    assert {(call["outcome"], call["error"]) for call in agent.calls()} == {("broken", "RemoteProtocolError")}


def test_a_body_with_a_coding_of_its_own_goes_in_full(agent, start):
    model = start.model(ok)
    agent = agent(start.server(model))
    conversation = Conversation()
    agent.send(conversation)
    packed = gzip.compress(conversation.sent[0])
    agent.caller.post(agent.origin + conversation.path, packed, [("Content-Encoding", "gzip")])
    assert model.bodies[1] == packed
    assert model.calls[1].request.value("Content-Encoding") == "gzip"
    assert agent.calls()[1]["reason"] == "content-encoding"


def test_the_model_sees_the_headers_that_it_sees_without_us(library, asynchronous, start, tmp_path):
    odd = [("X-b", "1"), ("x-A", "é".encode("latin-1")), ("X-b", "2"), ("Authorization", "Bearer k")]
    model = start.model(ok)
    server = start.server(model)
    conversation = Conversation()
    on = InProcess(library, asynchronous, server.origin, tmp_path)
    for _ in range(2):
        on.send(conversation, *odd)
        Caller(library, asynchronous).post(server.origin + conversation.path, conversation.sent[-1], odd)
        conversation.turn()
    assert kinds(on)[1] == "delta"
    for ours, plain in (model.calls[:2], model.calls[2:]):
        assert ours.request.headers == plain.request.headers
        assert (ours.request.target, ours.body) == (plain.request.target, plain.body)


def test_threads_share_what_the_server_holds(agent, start):
    model = start.model(ok)
    agent = agent(start.server(model))
    conversations = [Conversation(rollout="shared") for _ in range(8)]
    for number, conversation in enumerate(conversations):
        conversation.say(b'{"role":"user","content":"%d"}' % number)

    def play(conversation):
        for _ in range(5):
            assert agent.send(conversation).content == ANSWER
            conversation.turn()

    agent.send(conversations[0])  # so that nobody meets a question under way
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(play, conversations))
    sent = [raw for conversation in conversations for raw in conversation.sent]
    assert sorted(model.bodies) == sorted(sent)
    assert kinds(agent).count("delta") == len(sent) - 1


def test_a_forked_child_speaks_for_itself(start, tmp_path):
    model = start.model(ok)
    agent = InProcess(httpx, False, start.server(model).origin, tmp_path)
    conversation = Conversation()
    agent.send(conversation)
    conversation.turn()
    child = os.fork()
    if child == 0:
        os._exit(0 if agent.send(conversation).status_code == 200 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    agent.send(conversation)
    assert model.bodies == [*conversation.sent[:2], conversation.sent[1]]
    assert kinds(agent) == ["self-contained", "self-contained", "delta"]


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A server and a model for many conversations."""
    with ModelServer(ok) as model, ServerProcess(tmp_path_factory.mktemp("standing"), model.origin) as server:
        yield model, server


@given(st.lists(bodies(CHAT), min_size=2, max_size=5), st.data())
@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_a_conversation_holds_arrives_to_the_byte(standing, asynchronous, conversations, data):
    model, server = standing
    model.calls.clear()
    agent = Caller(httpx, asynchronous, upstream=server.origin, enabled=True)
    sent = []
    for one in conversations:
        grown = one.raw
        for raw in (grown, one.and_then(data.draw(st.sampled_from([b'{"role":"tool"}', b"1", b'"x"']))).raw):
            agent.post(server.origin + "/ng-rollout/property" + CHAT, raw)
            sent.append(hashlib.sha256(raw).hexdigest())
    assert [hashlib.sha256(body).hexdigest() for body in model.bodies] == sent


# Programs that know nothing of the transport.


def answered(call):
    """As a chat model does, streamed or whole."""
    if b'"stream":true' not in call.body:
        ok(call)
        return
    call.stream("Content-Type: text/event-stream")
    for word in ("o", "k"):
        call.chunk(b"data: " + json.dumps({**CHUNK, "choices": [{"index": 0, "delta": {"content": word}}]}).encode())
        call.chunk(b"\n\n")
    call.chunk(b"data: [DONE]\n\n")
    call.end()


def environment(folder, origin, **settings):
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "OPENAI_BASE_URL": origin + "/v1"} | settings


@pytest.fixture(params=["one file", "package"])
def shim_command(request, archive):
    return [sys.executable, str(archive)] if request.param == "one file" else [*SHIM_RUN_COMMAND[:-1]]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_program_with_openais_sdk_is_served_as_it_is(shim_command, start, tmp_path, kind):
    model = start.model(answered)
    server = start.server(model)
    log = tmp_path / "shim.log"
    command = [*shim_command, "run", "--in-process", "--upstream", server.origin, "--rollout", "r1"]
    command += ["--log-file", str(log), "--log-body-hash", "--", sys.executable, str(PROGRAM), kind]
    for enabled in "01":
        environ = environment(tmp_path, server.origin, HISTORY_DELTA_ENABLED=enabled)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == ["ok"] * 4
    off, on = model.calls[:4], model.calls[4:]
    for without, within in zip(off, on, strict=True):
        assert within.request == without.request
    calls = calls_in(log)
    assert [call["kind"] for call in calls] == ["self-contained", "delta", "delta", "delta"]
    assert [call["sha256"] for call in calls] == [hashlib.sha256(call.body).hexdigest() for call in on]


def test_a_program_is_found_behind_one_in_python_that_starts_it(archive, start, tmp_path):
    model = start.model(answered)
    server = start.server(model)
    log = tmp_path / "shim.log"
    starter = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
    command = [sys.executable, str(archive), "run", "--in-process", "--upstream", server.origin, "--log-file", str(log)]
    command += ["--", "sh", "-c", '"$@"', "sh", sys.executable, "-c", starter, sys.executable, str(PROGRAM), "sync"]
    environ = environment(tmp_path, server.origin, HISTORY_DELTA_ENABLED="1")
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL, timeout=60)
    assert [call["kind"] for call in calls_in(log)][1:] == ["delta"] * 3


@pytest.mark.agents
@pytest.mark.timeout(300)
async def test_hermes_is_served_in_its_own_process(tmp_path):
    result = await run(AGENTS["hermes"], load_scenario("tool-use"), tmp_path, rollout="r-1", mode=Mode.IN_PROCESS)
    assert result.finished, result.agent.stderr.read_text()[-2000:]
    assert result.bodies_equal
    assert [call.kind for call in result.calls] == ["self-contained"] + ["delta"] * (len(result.calls) - 1)
    sent = [exchange.sha256 for exchange in result.agent_side if exchange.method == "POST"]
    received = [seen.sha256 for seen in result.model_side if seen.method == "POST" and "completions" in seen.path]
    assert [digest for digest in sent if digest in received] == received
