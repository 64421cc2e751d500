# SPDX-License-Identifier: Apache-2.0
"""The scripted model over HTTP: three dialects, streamed and not, and requests recorded to the byte."""

import asyncio
import gzip
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
from history_delta_conformance.scripted_model import Recorder, scenario_names

TEXT = {"type": "string"}
FUNCTIONS = [
    {"name": "bash", "parameters": {"properties": {"command": TEXT}, "required": ["command"]}},
    {"name": "write", "parameters": {"properties": {"filePath": TEXT, "content": TEXT}}},
    {"name": "read", "parameters": {"properties": {"filePath": TEXT}}},
]
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
HISTORY_KEY = {"chat": "messages", "responses": "input", "messages": "messages"}


def request_body(dialect, *texts, stream=False, tools=True):
    """A request whose history holds these texts, the user's and the assistant's in turn."""
    roles = ["user", "assistant"]
    history = [{"role": roles[number % 2], "content": text} for number, text in enumerate(texts)]
    body = {"model": "mock-model", HISTORY_KEY[dialect]: history, "stream": stream}
    return body | ({"tools": tools_in(dialect)} if tools else {})


def tools_in(dialect):
    if dialect == "chat":
        return [{"type": "function", "function": function} for function in FUNCTIONS]
    if dialect == "responses":
        return [{"type": "function", **function} for function in FUNCTIONS]
    return [{"name": function["name"], "input_schema": function["parameters"]} for function in FUNCTIONS]


def events_of(stream):
    """The JSON data of a stream's events; ``[DONE]`` as an event of that type."""
    data = [line[len("data: ") :] for line in stream.split("\n") if line.startswith("data: ")]
    return [{"type": "[DONE]"} if text == "[DONE]" else json.loads(text) for text in data]


@pytest.mark.parametrize("dialect", list(PATHS))
async def test_document_and_stream_say_the_same(dialect, start_model, http):
    model = await start_model("tool-use")
    for texts in [("go",), ("go", "[tool-use step 6 of 12] x"), ("go", "[tool-use step 11 of 12] x")]:
        async with http.post(model.url + PATHS[dialect], json=request_body(dialect, *texts)) as response:
            document = await response.json()
        async with http.post(model.url + PATHS[dialect], json=request_body(dialect, *texts, stream=True)) as response:
            assert response.content_type == "text/event-stream"
            events = events_of(await response.text())
        assert STREAMED[dialect](events) == DOCUMENT[dialect](document)


def chat_document(document):
    message = document["choices"][0]["message"]
    calls = [
        (call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])
    ]
    return message.get("reasoning_content", ""), message["content"], calls


def chat_stream(events):
    deltas = [choice["delta"] for event in events[:-1] for choice in event["choices"]]
    pieces = [piece for delta in deltas for piece in delta.get("tool_calls", [])]
    calls = [
        (start["id"], start["function"]["name"], arguments_of(pieces, start["index"]))
        for start in pieces
        if "id" in start
    ]
    return joined(deltas, "reasoning_content"), joined(deltas, "content"), calls


def arguments_of(pieces, index):
    return "".join(piece["function"]["arguments"] for piece in pieces if piece["index"] == index)


def joined(parts, key):
    return "".join(part.get(key, "") for part in parts)


def responses_document(document):
    output = document["output"]
    reasoning = "".join(item["summary"][0]["text"] for item in output if item["type"] == "reasoning")
    text = "".join(item["content"][0]["text"] for item in output if item["type"] == "message")
    return reasoning, text, [item_call(item) for item in output if item["type"] == "function_call"]


def item_call(item):
    return item["call_id"], item["name"], item["arguments"]


def responses_stream(events):
    def deltas(kind, **place):
        return joined([event for event in events if event["type"] == kind and place.items() <= event.items()], "delta")

    added = [event for event in events if event["type"] == "response.output_item.added"]
    calls = [
        (
            event["item"]["call_id"],
            event["item"]["name"],
            deltas("response.function_call_arguments.delta", output_index=event["output_index"]),
        )
        for event in added
        if event["item"]["type"] == "function_call"
    ]
    return deltas("response.reasoning_summary_text.delta"), deltas("response.output_text.delta"), calls


def messages_document(document):
    content = document["content"]
    calls = [(block["id"], block["name"], block["input"]) for block in content if block["type"] == "tool_use"]
    return joined(content, "thinking"), joined(content, "text"), calls


def messages_stream(events):
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    calls = []
    for event in events:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            own = [e["delta"] for e in events if e["type"] == "content_block_delta" and e["index"] == event["index"]]
            block = event["content_block"]
            calls.append((block["id"], block["name"], json.loads(joined(own, "partial_json"))))
    return joined(deltas, "thinking"), joined(deltas, "text"), calls


DOCUMENT = {"chat": chat_document, "responses": responses_document, "messages": messages_document}
STREAMED = {"chat": chat_stream, "responses": responses_stream, "messages": messages_stream}


async def test_chat_stream_ends_with_finish_reason_usage_and_done(start_model, http):
    model = await start_model("tool-use")
    body = request_body("chat", "go", stream=True) | {"stream_options": {"include_usage": True}}
    async with http.post(model.url + PATHS["chat"], json=body) as response:
        *_, finish, usage, done = events_of(await response.text())
    assert finish["choices"][0]["finish_reason"] == "tool_calls"
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == usage["usage"]["prompt_tokens"] + usage["usage"]["completion_tokens"]
    assert done == {"type": "[DONE]"}


async def test_chat_stream_has_usage_only_if_asked(start_model, http):
    model = await start_model()
    async with http.post(model.url + PATHS["chat"], json=request_body("chat", "go", stream=True)) as response:
        assert "usage" not in await response.text()


async def test_responses_stream_is_numbered_nested_and_completed(start_model, http):
    model = await start_model("tool-use")
    body = request_body("responses", "go", stream=True) | {"include": ["reasoning.encrypted_content"]}
    async with http.post(model.url + PATHS["responses"], json=body) as response:
        events = events_of(await response.text())
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [kind for kind, _ in itertools.groupby(event["type"].removeprefix("response.") for event in events)] == [
        "created", "in_progress",
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
        "completed",
    ]  # fmt: skip
    completed = events[-1]["response"]
    done_items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert completed["output"] == done_items
    assert done_items[0]["encrypted_content"]
    assert completed["usage"]["total_tokens"] > 0


async def test_messages_stream_has_the_order_of_events(start_model, http):
    model = await start_model("tool-use")
    async with http.post(model.url + PATHS["messages"], json=request_body("messages", "go", stream=True)) as response:
        events = events_of(await response.text())
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert [event["type"] for event in events[:2]] == ["message_start", "ping"]
    answering = [event["type"] for event in events if event["type"] != "ping"]
    kinds = [kind for kind, _ in itertools.groupby(answering)]
    assert kinds == ["message_start", *block * 3, "message_delta", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[0]["message"]["usage"]["input_tokens"] == events[-2]["usage"]["input_tokens"] > 0


async def test_each_event_leaves_before_the_next_is_made(start_model, http):
    go_on = asyncio.Event()
    model = await start_model("hello", pace=lambda _: go_on.wait())
    async with http.post(model.url + PATHS["chat"], json=request_body("chat", "go", stream=True)) as response:
        first = await response.content.readany()
        assert first.count(b"data: ") == 1
        go_on.set()
        assert (await response.read()).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("prefix", ["", "/ng-rollout/r-1", "/ng-rollout/r-1/training-token-capture", "/deep/base"])
async def test_serves_a_model_call_behind_any_prefix(prefix, start_model, http):
    model = await start_model()
    url = model.url + prefix + PATHS["chat"] + "?beta=true"
    async with http.post(url, json=request_body("chat", "go")) as response:
        assert response.status == 200
    assert model.recorder.recordings[0].path == prefix + PATHS["chat"] + "?beta=true"


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/models"), ("POST", "/api/show"), ("GET", PATHS["chat"])])
async def test_other_paths_are_recorded_and_a_harmless_404(method, path, start_model, http):
    model = await start_model()
    async with http.request(method, model.url + path) as response:
        assert response.status == 404
        assert "error" in await response.json()
    assert [(record.method, record.path) for record in model.recorder.recordings] == [(method, path)]


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b'{"tools": 3}', b'{"tools": [{"type": "function"}]}', b"\xff"])
async def test_a_body_that_is_no_request_is_a_400_and_recorded(body, start_model, http):
    model = await start_model()
    async with http.post(model.url + PATHS["chat"], data=body) as response:
        assert response.status == 400
    assert model.recorder.recordings[0].body == body


async def test_a_missing_tool_is_named(start_model, http):
    model = await start_model("tool-use")
    body = request_body("chat", "go")
    body["tools"] = body["tools"][1:]
    async with http.post(model.url + PATHS["chat"], json=body) as response:
        assert response.status == 400
        assert "shell" in (await response.json())["error"]["message"]


async def test_records_bytes_headers_and_order_verbatim(start_model, tmp_path):
    model = await start_model("hello", Recorder(tmp_path))
    body = b' {"messages" :[ {"role":"user","content":"\\ud800 \xe2\x80\xa8 1e999"} ],\r\n"n":18446744073709551617}\n'
    compressed = gzip.compress(body)
    sent = [(b"X-Twice", b"a"), (b"x-twice", b"b"), (b"CoNtEnT-Encoding", b"gzip")]
    await raw_post(model.url, b"/v1/chat/completions?a=%2F", sent[:2], body)
    await raw_post(model.url, b"/v1/chat/completions", sent, compressed)

    plain, packed = model.recorder.recordings
    assert (plain.body, packed.body) == (body, compressed)
    assert plain.path == "/v1/chat/completions?a=%2F"
    assert [header for header in packed.headers if header in sent] == sent
    assert (tmp_path / "0001.body").read_bytes() == body
    assert (tmp_path / "0002.body").read_bytes() == compressed
    index = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text().splitlines()]
    assert [entry["sha256"] for entry in index] == [hashlib.sha256(data).hexdigest() for data in (body, compressed)]
    assert ["X-Twice", "a"] in index[0]["headers"]


async def raw_post(url, target, headers, body):
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = [b"POST %s HTTP/1.1" % target, b"Host: x", b"Connection: close", b"Content-Length: %d" % len(body)]
    head += [b"%s: %s" % header for header in headers]
    writer.write(b"\r\n".join(head) + b"\r\n\r\n" + body)
    await reader.read()
    writer.close()


@pytest.mark.parametrize(
    ("dialect", "ping"), [("chat", b": ping\n\n"), ("responses", b": ping\n\n"), ("messages", PING)]
)
async def test_pings_stand_between_the_events_of_a_stream(dialect, ping, start_model, http):
    model = await start_model("tool-use")
    body = request_body(dialect, "[tool-use step 1 of 12]", stream=True)
    async with http.post(model.url + PATHS[dialect], json=body) as response:
        stream = await response.read()
    assert stream.count(ping) >= 3
    assert all(event.startswith((b"data: ", b"event: ", b": ping")) for event in stream.split(b"\n\n") if event)


async def test_tool_arguments_are_cut_inside_an_escape(start_model, http):
    model = await start_model("tool-use")
    body = request_body("chat", "[tool-use step 1 of 12]", stream=True)
    async with http.post(model.url + PATHS["chat"], json=body) as response:
        events = events_of(await response.text())
    deltas = [choice["delta"] for event in events[:-1] for choice in event["choices"]]
    pieces = [piece["function"]["arguments"] for delta in deltas for piece in delta.get("tool_calls", [])]
    assert any(piece.endswith("\\") and not piece.endswith("\\\\") for piece in pieces)
    json.loads("".join(pieces))


async def test_a_reader_that_leaves_in_the_middle_is_no_error(start_model, http, caplog):
    go_on = asyncio.Event()
    model = await start_model("hello", pace=lambda _: go_on.wait())
    response = await http.post(model.url + PATHS["chat"], json=request_body("chat", "go", stream=True))
    await response.content.readany()
    response.close()
    go_on.set()
    async with http.post(model.url + PATHS["chat"], json=request_body("chat", "go", stream=True)) as another:
        assert (await another.read()).endswith(b"data: [DONE]\n\n")
    assert caplog.records == []


COMMAND = [sys.executable, "-m", "history_delta_conformance.scripted_model"]


def test_runs_as_a_process(tmp_path):
    ready = tmp_path / "ready.json"
    command = [*COMMAND, "--scenario", "model-503", "--record", str(tmp_path / "record"), "--token-delay", "0.001"]
    process = subprocess.Popen([*command, "--ready-file", str(ready)], stderr=subprocess.PIPE, text=True)
    try:
        said = process.stderr.readline()
        answer = json.loads(ready.read_text())
        assert answer == {"url": said.split()[-1], "pid": process.pid}
        body = json.dumps(request_body("chat", "go", "[model-503 step 2 of 6] x")).encode()
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(urllib.request.Request(answer["url"] + PATHS["chat"], body))
        assert process.stderr.readline() == "scripted model: request 1, model-503 3: status 503\n"
        assert (tmp_path / "record" / "0001.body").read_bytes() == body
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.stderr.close()


def run_command(*options):
    return subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--scenario", "no-such"], "scripted model: no scenario 'no-such'"),
        (["--listen", "here"], "argument --listen: expected HOST:PORT, got 'here'"),
        (["--listen", "127.0.0.1:x"], "argument --listen: expected HOST:PORT, got '127.0.0.1:x'"),
        (["--listen", "127.0.0.1:99999"], "scripted model: bind(): port must be 0-65535."),
        (["--token-delay", "-1"], "argument --token-delay: expected seconds, 0 or more, got '-1'"),
        (["--token-delay", "nan"], "argument --token-delay: expected seconds, 0 or more, got 'nan'"),
    ],
)
def test_wrong_options_exit_2_and_say_what_was_expected(options, said):
    done = run_command(*options)
    assert done.returncode == 2
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_check_says_what_a_scenario_holds_or_what_is_wrong_with_it(tmp_path):
    good = run_command("--check", "--scenario", "model-drip")
    assert (good.returncode, good.stdout) == (0, "model-drip: 6 steps; faults: drip at model-drip 3\n")
    file = tmp_path / "own.toml"
    file.write_text('prompt = "p"\n[[turns]]\ntext = "t"\ncalls = [{ tool = "dance" }]\n')
    bad = run_command("--check", "--scenario", str(file))
    assert bad.returncode == 2
    assert bad.stderr.startswith(f"scripted model: {file}:4: turns[0].calls[0].tool: expected one of shell, ")


def test_list_names_and_describes_the_scenarios():
    listed = run_command("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == scenario_names()
    assert "the model answers 503 once" in listed.stdout
