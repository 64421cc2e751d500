# SPDX-License-Identifier: Apache-2.0
"""From what is to be done to a call of the tool that this agent has for it, by the tool's name and JSON schema.

An agent without a tool for writing or reading (Codex) does it in its shell.
"""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from .reply import Tool
from .scenario import Call, Read, Shell, Task, Wait, Write


class NoSuchTool(LookupError):
    """The request offers no tool for what the scenario wants done."""


_NAMES: dict[type[Call], tuple[str, ...]] = {
    Shell: ("bash", "shell", "exec_command", "shell_command", "terminal", "run_command"),
    Write: ("write", "write_file"),
    Read: ("read", "read_file"),
    Task: ("task", "delegate_task", "spawn_agent"),
    Wait: ("wait_agent",),
}
# The names that agents give to the same parameter.
_COMMAND = ("command", "cmd")
_PATH = ("filePath", "file_path", "path")
_CONTENT = ("content", "contents")
_PROMPT = ("prompt", "message", "goal")

# How the answer to the call that started a sub-agent gives its id, inside a JSON string or not.
_AGENT_ID = re.compile(rb'agent_id\\?"\s*:\s*\\?"([^"\\]+)')

# A tool's name, its arguments as JSON text, and the tool's namespace.
Concrete = tuple[str, str, str]


def concrete_calls(calls: Sequence[Call], offered: Sequence[Tool], body: bytes = b"") -> list[Concrete]:
    """The calls of a turn, in order; ``body`` is the request, which says the ids of sub-agents. Raises NoSuchTool.

    Tasks become one call where the tool takes several: it is the only way to have them at work at the same time.
    """
    tool = _tool_for(Task, offered)
    if tool is None or not _takes_several(tool):
        return [_concrete_call(call, offered, body) for call in calls]
    concrete = [_concrete_call(call, offered, body) for call in calls if not isinstance(call, Task)]
    tasks = [{"goal": call.prompt, "context": call.description} for call in calls if isinstance(call, Task)]
    return [_concrete(tool, {"tasks": tasks}), *concrete] if tasks else concrete


def _concrete_call(call: Call, offered: Sequence[Tool], body: bytes) -> Concrete:
    tool = _tool_for(type(call), offered)
    if tool is None and not isinstance(call, Shell | Task):
        call = in_shell(call)
        tool = _tool_for(Shell, offered)
    if tool is None:
        raise NoSuchTool(f"{type(call).__name__.lower()}: the request offers {[tool.name for tool in offered]}")
    return _concrete(tool, _arguments(call, tool, body))


def _concrete(tool: Tool, arguments: dict[str, Any]) -> Concrete:
    return tool.name, json.dumps(arguments, ensure_ascii=False), tool.namespace


def _takes_several(tool: Tool) -> bool:
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    return bool(properties.get("tasks", {}).get("type") == "array")


def in_shell(call: Write | Read | Wait) -> Shell:
    """The same as a shell command, exact to the byte; nothing is left to wait for where starting a sub-agent waits."""
    if isinstance(call, Wait):
        return Shell("true")
    if isinstance(call, Read):
        return Shell(f"cat {shlex.quote(call.path)}")
    return Shell(f"printf '%s' {shlex.quote(call.content)} > {shlex.quote(call.path)}")


def _tool_for(kind: type[Call], offered: Sequence[Tool]) -> Tool | None:
    by_name = {tool.name: tool for tool in offered}
    return next((by_name[name] for name in _NAMES[kind] if name in by_name), None)


def _arguments(call: Call, tool: Tool, body: bytes) -> dict[str, Any]:
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
            arguments = {"description": description, named(_PROMPT): prompt, "subagent_type": "general"}
            arguments = {name: value for name, value in arguments.items() if name in properties}
        case Wait(sub_agent=number):
            # A number without its sub-agent waits for none, which the agent then says.
            arguments = {"targets": [found.decode() for found in _agent_ids(body)[number - 1 : number]]}
    return arguments | {name: "scripted" for name in _required_texts(tool) if name not in arguments}


def _agent_ids(body: bytes) -> list[bytes]:
    """The ids of the sub-agents that a request speaks of, in the order in which they were started."""
    return list(dict.fromkeys(_AGENT_ID.findall(body)))


def _required_texts(tool: Tool) -> list[str]:
    """What else the tool demands as text, such as a description of the command."""
    properties: dict[str, Any] = tool.parameters.get("properties", {})
    required: list[str] = tool.parameters.get("required", [])
    return [name for name in required if properties.get(name, {}).get("type") == "string"]
