# SPDX-License-Identifier: Apache-2.0
"""The three tools: a shell command, writing a file, reading a file."""

import subprocess
from pathlib import Path
from typing import Any

_TEXT = {"type": "string"}
_SHELL_TIMEOUT = 60.0


def _schema(*names: str) -> dict[str, Any]:
    return {"type": "object", "properties": dict.fromkeys(names, _TEXT), "required": list(names)}


# Name, description and parameters; each dialect wraps them in its own way.
TOOLS: list[tuple[str, str, dict[str, Any]]] = [
    ("bash", "Run a shell command in the workspace; its output and exit code are returned.", _schema("command")),
    ("write", "Write a text file, byte for byte as given; missing folders are made.", _schema("path", "content")),
    ("read", "Read a text file.", _schema("path")),
]


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
