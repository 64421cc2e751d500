# SPDX-License-Identifier: Apache-2.0
"""From what is to be done to each agent's own tool."""

import json
import subprocess

import pytest
from history_delta_conformance.scripted_model import load_scenario
from history_delta_conformance.scripted_model.reply import Tool
from history_delta_conformance.scripted_model.scenario import Read, Shell, Task, Write
from history_delta_conformance.scripted_model.tools import NoSuchTool, concrete_call, in_shell

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


def test_no_tool_for_it():
    with pytest.raises(NoSuchTool, match="shell"):
        concrete_call(Shell("ls"), OPENCODE[1:])
    with pytest.raises(NoSuchTool, match="task"):
        concrete_call(Task("d", "p"), OPENCODE)


def test_a_shell_stands_in_for_write_and_read_to_the_byte(tmp_path):
    content = load_scenario("tool-use").files[0].content
    name, arguments = called(Write("it's.md", content), CODEX)
    assert name == "exec_command"
    subprocess.run(["sh", "-c", arguments["cmd"]], cwd=tmp_path, check=True)
    assert (tmp_path / "it's.md").read_bytes() == content.encode()
    reading = in_shell(Read("it's.md")).command
    assert subprocess.run(["sh", "-c", reading], cwd=tmp_path, capture_output=True).stdout == content.encode()


def called(call, offered):
    name, arguments = concrete_call(call, offered)
    return name, json.loads(arguments)
