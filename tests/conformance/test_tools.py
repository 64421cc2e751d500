# SPDX-License-Identifier: Apache-2.0
"""From what is to be done to each agent's own tool."""

import json
import subprocess

import pytest
from history_delta_conformance.scripted_model import load_scenario
from history_delta_conformance.scripted_model.reply import Tool
from history_delta_conformance.scripted_model.scenario import Read, Shell, Task, Wait, Write
from history_delta_conformance.scripted_model.tools import NoSuchTool, concrete_calls, in_shell

TEXT = {"type": "string"}


def tool(name, *required, **optional):
    return Tool(name, {"properties": dict.fromkeys(required, TEXT) | optional, "required": list(required)})


OPENCODE = [tool("bash", "command", "description"), tool("write", "filePath", "content"), tool("read", "filePath")]
PI = [tool("read", "path"), tool("bash", "command", timeout={"type": "number"}), tool("write", "path", "content")]
HERMES = [tool("terminal", "command"), tool("write_file", "path", "content"), tool("read_file", "path")]
CODEX = [tool("exec_command", "cmd"), tool("write_stdin", "session_id")]
CODEX_OLD = [Tool("shell", {"properties": {"command": {"type": "array"}}, "required": ["command"]})]


@pytest.mark.parametrize(
    ("offered", "name", "arguments"),
    [
        (OPENCODE, "bash", {"command": "ls", "description": "scripted"}),
        (PI, "bash", {"command": "ls"}),
        (HERMES, "terminal", {"command": "ls"}),
        (CODEX, "exec_command", {"cmd": "ls"}),
        (CODEX_OLD, "shell", {"command": ["bash", "-c", "ls"]}),
    ],
)
def test_shell(offered, name, arguments):
    assert called(Shell("ls"), offered) == (name, arguments)


@pytest.mark.parametrize(
    ("offered", "name", "path"),
    [(OPENCODE, "write", "filePath"), (PI, "write", "path"), (HERMES, "write_file", "path")],
)
def test_write(offered, name, path):
    assert called(Write("a.txt", "é\r\n"), offered) == (name, {path: "a.txt", "content": "é\r\n"})


@pytest.mark.parametrize(
    ("offered", "name", "path"),
    [(OPENCODE, "read", "filePath"), (PI, "read", "path"), (HERMES, "read_file", "path")],
)
def test_read(offered, name, path):
    assert called(Read("a.txt"), offered) == (name, {path: "a.txt"})


def test_task_gets_what_the_tool_takes():
    task = tool("task", "description", "prompt", "subagent_type", "mode")
    expected = {"description": "d", "prompt": "p", "subagent_type": "general", "mode": "scripted"}
    assert called(Task("d", "p"), [task]) == ("task", expected)


TASKS = [Task("count", "Count the files."), Shell("ls"), Task("count", "Count the files.")]


def test_a_tool_that_takes_several_tasks_gets_them_in_one_call():
    delegate = Tool("delegate_task", {"properties": {"goal": TEXT, "tasks": {"type": "array"}}})
    calls = concrete_calls(TASKS, [*HERMES, delegate])
    assert [name for name, _, _ in calls] == ["delegate_task", "terminal"]
    assert json.loads(calls[0][1]) == {"tasks": [{"goal": "Count the files.", "context": "count"}] * 2}
    assert [name for name, _, _ in concrete_calls([Shell("ls")], [*HERMES, delegate])] == ["terminal"]


def test_a_tool_that_takes_one_task_gets_a_call_for_each():
    assert [name for name, _, _ in concrete_calls(TASKS, [*OPENCODE, tool("task", "prompt")])] == [
        "task",
        "bash",
        "task",
    ]


SPAWN = Tool("spawn_agent", {"properties": {"message": TEXT}}, "multi_agent_v1")
WAIT = Tool("wait_agent", {"properties": {"targets": {"type": "array"}}, "required": ["targets"]}, "multi_agent_v1")


def test_a_tool_in_a_namespace():
    [(name, arguments, namespace)] = concrete_calls([Task("d", "p")], [*CODEX, SPAWN])
    assert (name, json.loads(arguments), namespace) == ("spawn_agent", {"message": "p"}, "multi_agent_v1")


@pytest.mark.parametrize(("number", "ids"), [(1, ["id-b"]), (2, ["id-a"]), (3, [])])
def test_waiting_names_the_sub_agent_by_the_id_that_starting_it_gave(number, ids):
    outputs = [json.dumps({"agent_id": name, "nickname": "Ada"}) for name in ("id-b", "id-a", "id-b")]
    body = json.dumps([{"type": "function_call_output", "output": output} for output in outputs]).encode()
    [(name, arguments, _)] = concrete_calls([Wait(number)], [*CODEX, SPAWN, WAIT], body)
    assert (name, json.loads(arguments)) == ("wait_agent", {"targets": ids})


def test_where_starting_a_sub_agent_waits_for_it_there_is_nothing_left_to_wait_for():
    assert called(Wait(1), OPENCODE) == ("bash", {"command": "true", "description": "scripted"})


def test_no_tool_for_it():
    with pytest.raises(NoSuchTool, match="shell"):
        concrete_calls([Shell("ls")], OPENCODE[1:])
    with pytest.raises(NoSuchTool, match="task"):
        concrete_calls([Task("d", "p")], OPENCODE)


def test_a_shell_stands_in_for_write_and_read_to_the_byte(tmp_path):
    content = load_scenario("tool-use").files[0].content
    name, arguments = called(Write("it's.md", content), CODEX)
    assert name == "exec_command"
    subprocess.run(["sh", "-c", arguments["cmd"]], cwd=tmp_path, check=True)
    assert (tmp_path / "it's.md").read_bytes() == content.encode()
    reading = in_shell(Read("it's.md")).command
    assert subprocess.run(["sh", "-c", reading], cwd=tmp_path, capture_output=True).stdout == content.encode()


def called(call, offered):
    [(name, arguments, _)] = concrete_calls([call], offered)
    return name, json.loads(arguments)
