# SPDX-License-Identifier: Apache-2.0
"""From what is to be done to a call of the tool that this agent has for it, by the tool's name and JSON schema.

An agent without a tool for writing or reading (Codex) does it in its shell.
"""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from .reply import Tool
from .scenario import Call, Read, Shell, Task, Write


class NoSuchTool(LookupError):
    """The request offers no tool for what the scenario wants done."""


_NAMES: dict[type[Call], tuple[str, ...]] = {
    Shell: ("bash", "shell", "exec_command", "shell_command", "terminal", "run_command"),
    Write: ("write", "write_file"),
    Read: ("read", "read_file"),
    Task: ("task", "delegate_task"),
}
# The names that agents give to the same parameter.
_COMMAND = ("command", "cmd")
_PATH = ("filePath", "file_path", "path")
_CONTENT = ("content", "contents")


def concrete_call(call: Call, offered: Sequence[Tool]) -> tuple[str, str]:
    """The tool's name and its arguments as JSON text. Raises NoSuchTool."""
    tool = _tool_for(type(call), offered)
    if tool is None and isinstance(call, Write | Read):
        call = in_shell(call)
        tool = _tool_for(Shell, offered)
    if tool is None:
        raise NoSuchTool(f"{type(call).__name__.lower()}: the request offers {[tool.name for tool in offered]}")
    return tool.name, json.dumps(_arguments(call, tool), ensure_ascii=False)


def in_shell(call: Write | Read) -> Shell:
    """The same as a shell command, exact to the byte."""
    if isinstance(call, Read):
        return Shell(f"cat {shlex.quote(call.path)}")
    return Shell(f"printf '%s' {shlex.quote(call.content)} > {shlex.quote(call.path)}")


def _tool_for(kind: type[Call], offered: Sequence[Tool]) -> Tool | None:
    by_name = {tool.name: tool for tool in offered}
    return next((by_name[name] for name in _NAMES[kind] if name in by_name), None)


def _arguments(call: Call, tool: Tool) -> dict[str, Any]:
    properties: dict[str, Any] = tool.parameters.get("properties", {})

    def named(candidates: tuple[str, ...]) -> str:
        return next((name for name in candidates if name in properties), candidates[0])

    match call:
        case Shell(command=command):
            name = named(_COMMAND)
            as_list = properties.get(name, {}).get("type") == "array"
            arguments: dict[str, Any] = {name: ["bash", "-c", command] if as_list else command}
        case Write(path=path, content=content):
            arguments = {named(_PATH): path, named(_CONTENT): content}
        case Read(path=path):
            arguments = {named(_PATH): path}
        case Task(description=description, prompt=prompt):
            arguments = {"description": description, "prompt": prompt, "subagent_type": "general"}
            arguments = {name: value for name, value in arguments.items() if name in properties}
    return arguments | {name: "scripted" for name in _required_texts(tool) if name not in arguments}


def _required_texts(tool: Tool) -> list[str]:
    """What else the tool demands as text, such as a description of the command."""
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    required: list[str] = tool.parameters.get("required", [])
    return [name for name in required if properties.get(name, {}).get("type") == "string"]
