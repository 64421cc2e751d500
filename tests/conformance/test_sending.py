# SPDX-License-Identifier: Apache-2.0
"""Faults as a client's socket sees them: which bytes arrive, and whether a FIN or a reset ends them."""

import asyncio
import json
import time
from dataclasses import dataclass

import pytest
from history_delta_conformance.scripted_model import Recorder, ScriptedModel
from history_delta_conformance.scripted_model.scenario import Fault, Scenario, Shell, Turn

PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
HISTORY_KEY = {"chat": "messages", "responses": "input", "messages": "messages"}
BASH = {"name": "bash", "parameters": {"properties": {"command": {"type": "string"}}}}
TOOLS = {
    "chat": [{"type": "function", "function": BASH}],
    "responses": [{"type": "function", **BASH}],
    "messages": [{"name": "bash", "input_schema": BASH["parameters"]}],
}
FINAL = {"chat": b"[DONE]", "responses": b"response.completed", "messages": b"message_stop"}
LAST_CHUNK = b"0\r\n\r\n"


@dataclass
class Arrived:
    """What came back on a connection until it ended."""

    data: bytes
    was_reset: bool
    seconds: float

    @property
    def head(self):
        return self.data.partition(b"\r\n\r\n")[0]

    @property
    def chunks(self):
        """The chunks of the body as they were written; the last may be the empty one."""
        rest, chunks = self.data.partition(b"\r\n\r\n")[2], []
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            chunks.append(rest[: int(size, 16)])
            rest = rest[int(size, 16) + 2 :]
        return chunks

    @property
    def body(self):
        return b"".join(self.chunks)


def request_body(dialect, stream, tools, text):
    body = {"model": "m", HISTORY_KEY[dialect]: [{"role": "user", "content": text}], "stream": stream}
    return body | ({"tools": TOOLS[dialect]} if tools else {})


async def post(url, dialect, stream=True, tools=True, text="go"):
    body = json.dumps(request_body(dialect, stream, tools, text)).encode()
    host, port = url.removeprefix("http://").split(":")
    began = time.monotonic()
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {PATHS[dialect]} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    data, was_reset = b"", False
    try:
        while received := await reader.read(65536):
            data += received
    except ConnectionResetError:
        was_reset = True
    writer.close()
    return Arrived(data, was_reset, time.monotonic() - began)


@pytest.fixture
def played(dialect):
    """Start a model with this fault at its first step, and send it requests: ``await played(fault, True, True)``."""

    async def played(fault, *streamed, heard=None):
        turn = Turn(text="Two words — é.", calls=(Shell("printf 'a\\nb'"),))
        scenario = Scenario(name="own", prompt="p", turns=(turn, Turn(text="Done.")), faults=(fault,))
        said = heard if heard is not None else []
        async with ScriptedModel(scenario, on_fault=lambda *what: said.append(what)) as model:
            return [await post(model.url, dialect, stream) for stream in streamed]

    return played


@pytest.fixture(params=list(PATHS))
def dialect(request):
    return request.param


def assert_whole(arrived, dialect):
    assert arrived.data.endswith(LAST_CHUNK)
    assert FINAL[dialect] in arrived.data


async def test_a_status_has_the_dialects_shape_and_says_when_to_try_again(played, dialect):
    failed, good = await played(Fault(1, "status", status=429, retry_after=1.5), True, True)
    assert failed.head.startswith(b"HTTP/1.1 429 ")
    assert b"\r\nretry-after: 1.5" in failed.head.lower()
    document = json.loads(failed.data.partition(b"\r\n\r\n")[2])
    assert document["error"]["type"] == "rate_limit_error"
    assert (document.get("type") == "error") == (dialect == "messages")
    assert_whole(good, dialect)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_status_without_retry_after(played, status):
    [failed] = await played(Fault(1, "status", status=status), True)
    assert failed.head.startswith(b"HTTP/1.1 %d " % status)
    assert b"retry-after" not in failed.head.lower()


async def test_a_fault_comes_as_often_as_it_says(played, dialect):
    heard = []
    answers = await played(Fault(1, "status", times=2), True, False, True, heard=heard)
    assert [answer.head.split()[1] for answer in answers] == [b"500", b"500", b"200"]
    assert [(recording.number, recording.label, fault.kind) for recording, fault in heard] == [
        (1, "own 1", "status"),
        (2, "own 1", "status"),
    ]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reset_before_leaves_no_byte(played, dialect, stream):
    failed, good = await played(Fault(1, "reset-before"), stream, True)
    assert failed.was_reset
    assert failed.data == b""
    assert_whole(good, dialect)


async def test_a_cut_leaves_all_bytes_and_then_a_fin_without_a_last_chunk(played, dialect):
    [cut] = await played(Fault(1, "cut", after="tool-call"), True)
    assert not cut.was_reset
    assert not cut.data.endswith(LAST_CHUNK)
    assert cut.body.endswith(b"\n\n")
    assert FINAL[dialect] not in cut.body
    assert b"bash" in cut.body


async def test_a_reset_leaves_all_bytes_and_then_a_reset(played, dialect):
    [reset] = await played(Fault(1, "reset", after="text"), True)
    assert reset.was_reset
    assert "é".encode() in reset.body
    assert b"bash" not in reset.body


async def test_no_final_event_is_a_clean_end(played, dialect):
    [ended] = await played(Fault(1, "no-final-event"), True)
    assert ended.data.endswith(LAST_CHUNK)
    assert FINAL[dialect] not in ended.body
    assert b"bash" in ended.body


@pytest.mark.parametrize("stream", [True, False])
async def test_short_length_is_a_body_shorter_than_announced(played, stream):
    [short] = await played(Fault(1, "short-length", after="text"), stream)
    [length] = [
        line.split(b": ")[1] for line in short.head.split(b"\r\n") if line.lower().startswith(b"content-length")
    ]
    assert 0 < len(short.data.partition(b"\r\n\r\n")[2]) < int(length)
    assert not short.was_reset
    assert b"transfer-encoding" not in short.head.lower()


@pytest.mark.parametrize("kind", ["stall", "drip"])
@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_slow_is_whole_all_the_same(played, dialect, kind, stream):
    slow, good = await played(Fault(1, kind, after="first-token", seconds=0.4), stream, stream)
    assert slow.seconds >= 0.4
    assert slow.data.endswith(LAST_CHUNK)
    assert not slow.was_reset
    if stream:
        assert slow.body.count(b"data: ") == good.body.count(b"data: ")
    else:
        json.loads(slow.body)


@pytest.mark.parametrize("kind", ["cut", "reset", "no-final-event"])
async def test_an_answer_that_is_no_stream_breaks_in_its_middle(played, kind):
    [broken] = await played(Fault(1, kind), False)
    assert broken.was_reset == (kind == "reset")
    assert broken.data.endswith(LAST_CHUNK) == (kind == "no-final-event")
    assert broken.body.startswith(b"{")
    with pytest.raises(ValueError, match="line 1"):
        json.loads(broken.body)


async def test_characters_are_split_between_chunks(played, dialect):
    [whole] = await played(Fault(2, "cut"), True)
    split = [chunk for chunk in whole.chunks if chunk and chunk[-1] >= 0xC0]
    assert split
    assert "é" in whole.body.decode()


async def test_a_side_call_takes_no_fault_from_a_step():
    scenario = Scenario(
        name="own", prompt="p", turns=(Turn(text="t", calls=(Shell("ls"),)), Turn(text="e")), faults=(Fault(1, "cut"),)
    )
    recorder = Recorder()
    async with ScriptedModel(scenario, recorder) as model:
        title = await post(model.url, "chat", tools=False, text="give it a title")
        summary = await post(model.url, "chat", tools=False, text="[own step 1 of 2] t")
        step = await post(model.url, "chat")
    assert title.data.endswith(LAST_CHUNK)
    assert summary.data.endswith(LAST_CHUNK)
    assert not step.data.endswith(LAST_CHUNK)
    assert [(seen.label, seen.fault) for seen in recorder.recordings] == [
        ("title", ""),
        ("summary", ""),
        ("own 1", "cut"),
    ]
