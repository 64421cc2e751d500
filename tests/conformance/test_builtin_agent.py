# SPDX-License-Identifier: Apache-2.0
"""The built-in agent as a process of its own: it does the whole task in each dialect, and takes no break for an end."""

import asyncio
import itertools
import json
import subprocess
import sys

import pytest
from history_delta_conformance.agents import AGENTS, Task, make_workspace, run_agent, wrong_files
from history_delta_conformance.builtin_agent.tools import run_tool
from history_delta_conformance.scripted_model import load_scenario

TOOL_USE = load_scenario("tool-use")


@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_does_the_task_to_its_last_step(dialect, start_model, tmp_path):
    model = await start_model("tool-use")
    workspace = make_workspace(tmp_path / "workspace")
    task = Task(model.url, dialect, workspace, TOOL_USE.prompt, tmp_path / "run", rollout="r-1", timeout=60)
    result = await run_agent(AGENTS["builtin"], task)
    assert result.exit_status == 0, result.stderr.read_text()
    assert result.final_text.endswith(TOOL_USE.final_text)
    assert wrong_files(workspace, TOOL_USE) == []
    assert result.changes.split() == ["A", "notes.md", "A", "report.txt", "A", "tally.sh"]
    assert len(model.recorder.recordings) == len(TOOL_USE.turns)
    assert all(record.path.startswith("/ng-rollout/r-1/v1/") for record in model.recorder.recordings)
    assert_each_history_begins_with_the_last(dialect, [record.body for record in model.recorder.recordings])


def assert_each_history_begins_with_the_last(dialect, bodies):
    key = "input" if dialect == "responses" else "messages"
    histories = [json.loads(body)[key] for body in bodies]
    for shorter, longer in itertools.pairwise(histories):
        assert longer[: len(shorter)] == shorter
        assert len(longer) > len(shorter)


BEGINNING = {
    "chat": {"choices": [{"index": 0, "delta": {"content": "I will"}, "finish_reason": None}]},
    "responses": {"type": "response.output_text.delta", "delta": "I will"},
    "messages": {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "I will"}},
}


@pytest.mark.parametrize("dialect", list(BEGINNING))
@pytest.mark.parametrize("ending", [b"", b"0\r\n\r\n"], ids=["cut", "ended without a final event"])
async def test_a_stream_that_breaks_off_is_a_failure(dialect, ending, tmp_path):
    data = b"data: %s\n\n" % json.dumps(BEGINNING[dialect]).encode()
    response = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(data), data)
    result = await run_against(response + ending, dialect, tmp_path)
    assert result.exit_status == 1
    assert result.stderr.read_text().count("\n") == 1


async def test_an_error_of_the_model_is_a_failure_that_shows_it(tmp_path):
    response = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nno model!"
    result = await run_against(response, "chat", tmp_path)
    assert result.exit_status == 1
    assert "503" in result.stderr.read_text()
    assert "no model!" in result.stderr.read_text()


async def run_against(response, dialect, tmp_path):
    """Run the agent against a server that sends these bytes and closes."""

    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(response)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        task = Task(origin, dialect, make_workspace(tmp_path / "workspace"), "go", tmp_path / "run", timeout=60)
        return await run_agent(AGENTS["builtin"], task)


def test_tools_answer_failures_instead_of_raising(tmp_path):
    assert run_tool("read", {"path": "missing"}, tmp_path).startswith("error: ")
    assert run_tool("bash", {}, tmp_path).startswith("error: ")
    assert run_tool("dance", {}, tmp_path).startswith("error: ")
    assert run_tool("bash", {"command": "echo out; echo err >&2; exit 3"}, tmp_path) == "out\nerr\n[exit code 3]"


@pytest.mark.parametrize("content", ["é\r\n\x7f\u2028", ""])
def test_write_and_read_keep_every_byte(content, tmp_path):
    run_tool("write", {"path": "a/b.txt", "content": content}, tmp_path)
    assert (tmp_path / "a/b.txt").read_bytes() == content.encode()
    assert run_tool("read", {"path": "a/b.txt"}, tmp_path) == content


def test_needs_the_standard_library_only():
    code = "import sys, history_delta_conformance.builtin_agent.__main__; print('aiohttp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.stdout == "False\n", done.stderr
