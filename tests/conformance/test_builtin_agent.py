# SPDX-License-Identifier: Apache-2.0
"""The built-in agent as a process of its own: it does the whole task in each dialect, and takes no break for an end."""

import asyncio
import itertools
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from history_delta_conformance.agents import AGENTS, Task, make_workspace, run_agent, wrong_files
from history_delta_conformance.builtin_agent.tools import run_tool
from history_delta_conformance.scripted_model import ScriptedModel, load_scenario, no_pause, scenario_names
from msgspec import structs

TOOL_USE = load_scenario("tool-use")
DIALECTS = AGENTS["builtin"].dialects


@pytest.mark.parametrize("dialect", DIALECTS)
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


@pytest.fixture
def do(tmp_path):
    """Have the agent do a scenario's task at a model of its own: the result, what the model got and the task."""

    async def do(name, dialect="chat", pace=no_pause, **changed):
        scenario = structs.replace(load_scenario(name), **changed)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        async with ScriptedModel(scenario, pace=pace) as model:
            task = Task(model.url, dialect, make_workspace(folder / "workspace"), scenario.prompt, folder / "run")
            wanted = frozenset(scenario.needs)
            task = replace(task, follow_ups=scenario.follow_ups, window=scenario.window, wanted=wanted, timeout=60)
            return await run_agent(AGENTS["builtin"], task), model.recorder.recordings, task

    return do


def labels(recordings):
    return [recording.label for recording in recordings]


def session_of(task):
    return [json.loads(line) for line in AGENTS["builtin"].session_record(task)["session"].splitlines()]


# What it does not try again: it gives up there.
REFUSED = ("model-400", "model-409")
PLAYED = [name for name in scenario_names() if name not in REFUSED]


@pytest.mark.parametrize("name", REFUSED)
async def test_it_gives_up_where_the_model_refuses(name, do):
    result, recordings, _ = await do(name, "chat")
    assert result.exit_status == 1
    assert [recording.fault for recording in recordings] == ["", "", "status"]


@pytest.mark.parametrize(("name", "dialect"), list(zip(PLAYED, itertools.cycle(DIALECTS))))
async def test_it_can_play_every_scenario(name, dialect, do):
    result, recordings, task = await do(name, dialect)
    scenario = load_scenario(name)
    assert result.exit_status == 0, result.stderr.read_text()
    assert result.final_text.endswith(scenario.final_text)
    assert wrong_files(task.workspace, scenario) == []
    played = [recording.fault for recording in recordings if recording.fault]
    assert played == [fault.kind for fault in scenario.faults for _ in range(fault.times)]
    steps = [label for label in dict.fromkeys(labels(recordings)) if label.startswith(f"{scenario.marker} ")]
    assert steps == [f"{scenario.marker} {step + 1}" for step in range(len(scenario.turns))]


def header(recording, name):
    return next((value.decode() for key, value in recording.headers if key.decode().lower() == name), None)


async def test_two_helpers_have_sessions_of_their_own_and_work_at_the_same_time(do):
    both, met = asyncio.Barrier(2), set()

    async def meet(recording):
        if recording.label == "helper 1" and recording.number not in met:
            met.add(recording.number)
            await asyncio.wait_for(both.wait(), 30)

    result, recordings, task = await do("sub-agents", pace=meet, faults=())
    assert result.exit_status == 0, result.stderr.read_text()
    sessions = {(header(seen, "x-session-id"), header(seen, "x-parent-session-id")) for seen in recordings}
    assert sessions == {("builtin", None), ("builtin.1", "builtin"), ("builtin.2", "builtin")}
    first = [recording.body for recording in recordings if recording.label == "helper 1"]
    assert first[0] == first[1]
    assert b'"task"' not in first[0]
    order = [event["session"] for event in session_of(task)]
    assert [session for session, _ in itertools.groupby(order)] == ["builtin", "builtin.1", "builtin.2"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_compaction_is_one_call_without_tools_and_then_a_history_of_a_summary(dialect, do):
    _, recordings, _ = await do("compaction", dialect)
    seen = labels(recordings)
    assert seen == [*(f"compaction {step}" for step in range(1, 5)), "summary", *(f"compaction {n}" for n in (5, 6, 7))]
    summary = seen.index("summary")
    assert not json.loads(recordings[summary].body).get("tools")
    assert len(recordings[summary + 1].body) < len(recordings[summary - 1].body) / 2
    assert load_scenario("compaction").summary.encode() in recordings[summary + 1].body


async def test_a_title_is_asked_for_where_it_is_wanted(do):
    _, recordings, _ = await do("title-call")
    assert labels(recordings)[0] == "title"
    assert "title" not in labels((await do("short-task"))[1])


async def test_the_same_twice(do):
    (_, first, one), (_, second, other) = [await do("sub-agents", faults=()) for _ in range(2)]
    assert session_of(one) == session_of(other)
    assert AGENTS["builtin"].usage(one) == AGENTS["builtin"].usage(other)
    assert sorted(recording.body for recording in first) == sorted(recording.body for recording in second)


async def test_what_arrived_before_a_break_is_forgotten(do):
    _, recordings, task = await do("model-cut-after-tool-call")
    third = [recording.body for recording in recordings if recording.label == "model-cut-after-tool-call 3"]
    assert len(third) == 2
    assert third[0] == third[1]
    assert (task.workspace / "trace.txt").read_text().split() == ["one", "three", "five"]
    assert [event["what"] for event in session_of(task) if event["event"] == "failure"] == [
        "the connection or the stream broke"
    ]


async def test_it_waits_as_long_as_the_model_asks_for(do):
    result, _, _ = await do("model-429-retry-after")
    assert result.seconds >= 1


async def test_usage_is_the_sum_of_what_the_model_said(do):
    _, recordings, task = await do("short-task")
    usage = AGENTS["builtin"].usage(task)
    assert usage["answers"] == len(recordings)
    assert usage["input_tokens"] == sum(1000 * step for step in range(1, len(recordings) + 1))


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
    result, connections = await run_against(response + ending, dialect, tmp_path)
    assert result.exit_status == 1
    assert result.stderr.read_text().count("\n") == 1
    assert connections == 3


@pytest.mark.parametrize(("status", "attempts"), [(503, 3), (429, 3), (400, 1), (409, 1)])
async def test_an_error_of_the_model_is_a_failure_that_shows_it(status, attempts, tmp_path):
    response = b"HTTP/1.1 %d No\r\nContent-Length: 9\r\n\r\nno model!" % status
    result, connections = await run_against(response, "chat", tmp_path)
    assert result.exit_status == 1
    assert f"status {status}: no model!" in result.stderr.read_text()
    assert connections == attempts


async def run_against(response, dialect, tmp_path):
    """Run the agent against a server that sends these bytes and closes."""

    connections = []

    async def answer(reader, writer):
        connections.append(writer)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        writer.write(response)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        task = Task(origin, dialect, make_workspace(tmp_path / "workspace"), "go", tmp_path / "run", timeout=60)
        return await run_agent(AGENTS["builtin"], task), len(connections)


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
