# SPDX-License-Identifier: Apache-2.0
"""The tools: a shell command, writing a file, reading a file, and handing a task to a sub-agent, which is no matter of
this module."""

import subprocess
from pathlib import Path
from typing import Any, NamedTuple

_TEXT = {"type": "string"}
_SHELL_TIMEOUT = 60.0


def _schema(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, _TEXT), "required": list(names)}


class Tool(NamedTuple):
    """A tool as it is offered; each dialect wraps it in its own way. ``schema`` is of its parameters."""

    name: str
    text: str
    schema: dict[str, Any]


TOOLS = (
    Tool("bash", "Run a shell command in the workspace; its output and exit code are returned.", _schema("command")),
    Tool("write", "Write a text file, byte for byte as given; missing folders are made.", _schema("path", "content")),
    Tool("read", "Read a text file.", _schema("path")),
)
TASK = Tool(
    "task", "Have a helper with the same tools do a task and say what it found.", _schema("description", "prompt")
)


def run_tool(name: str, arguments: dict[str, Any], workspace: Path) -> str:
    """What the tool answers; a failure is an answer, too."""
    try:
        match name:
            case "bash":
                return _shell(arguments["command"], workspace)
            case "write":
                return _write(workspace / arguments["path"], arguments["content"])
            case "read":
                return _read(workspace / arguments["path"])
        return f"error: there is no tool {name!r}"
    except (KeyError, TypeError, OSError, subprocess.TimeoutExpired) as error:
        return f"error: {error!r}"


def _shell(command: str, workspace: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=workspace,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=_SHELL_TIMEOUT,
    )
    return f"{done.stdout.decode(errors='replace')}[exit code {done.returncode}]"


def _read(file: Path) -> str:
    return file.read_bytes().decode(errors="replace")


def _write(file: Path, content: str) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    written = file.write_bytes(content.encode(errors="surrogatepass"))
    return f"wrote {written} bytes"
