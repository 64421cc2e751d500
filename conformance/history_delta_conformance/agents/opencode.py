# SPDX-License-Identifier: Apache-2.0
"""OpenCode: all three dialects, chosen by the provider package; its configuration travels in one variable."""

import json
import subprocess
from pathlib import Path
from typing import Any

from .base import (
    CHAT,
    COMPACTION,
    MESSAGES,
    MODEL,
    PRUNING,
    RESPONSES,
    SUB_AGENTS,
    TITLE,
    Agent,
    Launch,
    Task,
    private_xdg,
)
from .installing import InstallError, installed, npm_install
from .records import Row, entries_of, json_lines_text, json_objects, numbered, rows, steadied

_PROVIDER = {CHAT: "@ai-sdk/openai-compatible", RESPONSES: "@ai-sdk/openai", MESSAGES: "@ai-sdk/anthropic"}
_OFFLINE = (
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
    "OPENCODE_DISABLE_SHARE",
)
# It would fetch a package for plugins while it works, which it needs for none of its own.
NO_REGISTRY = {"npm_config_offline": "true"}


class OpenCode(Agent):
    name = "opencode"
    version = "1.18.33"
    dialects = (CHAT, RESPONSES, MESSAGES)
    abilities = frozenset({SUB_AGENTS, COMPACTION, PRUNING, TITLE})

    def install(self, timeout: float = 600.0) -> Path:
        def install(folder: Path) -> Path:
            npm_install(self.name, folder, timeout)
            return _working_binary(folder)

        return installed(self.name, self.version, install)

    def launch(self, task: Task, executable: Path) -> Launch:
        options = ["--pure", "--auto", "--format", "json", "--print-logs", "--log-level", "INFO"]
        run = (str(executable), "run", *options, "-m", f"gym/{MODEL}", "--dir", str(task.workspace))
        environment = {"OPENCODE_CONFIG_CONTENT": json.dumps(configuration(task)), **private_xdg(task)}
        then = tuple((*run, "--continue", "--", prompt) for prompt in task.follow_ups)
        return Launch((*run, "--", task.prompt), environment | NO_REGISTRY | dict.fromkeys(_OFFLINE, "1"), then)

    def final_text(self, task: Task) -> str:
        return last_text(task)

    def session_record(self, task: Task) -> dict[str, str]:
        database = Path(private_xdg(task)["XDG_DATA_HOME"]) / "opencode" / "opencode.db"
        return {"stdout": events_text(task), **sessions(database)}

    def usage(self, task: Task) -> dict[str, object]:
        return usage_of_steps(task)


def configuration(task: Task) -> dict[str, Any]:
    return {
        "$schema": "https://opencode.ai/config.json",
        "model": f"gym/{MODEL}",
        "autoupdate": False,
        "share": "disabled",
        "compaction": {"prune": PRUNING in task.wanted},
        "permission": {
            "*": "allow",
            "bash": "allow",
            "edit": "allow",
            "webfetch": "deny",
            "external_directory": "allow",
        },
        "provider": {
            "gym": {
                "npm": _PROVIDER[task.dialect],
                "options": {"baseURL": task.base_url, "apiKey": "EMPTY", "timeout": False},
                "models": {MODEL: model_entry(task)},
            }
        },
    }


def model_entry(task: Task) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": MODEL, "reasoning": True, "tool_call": True}
    if task.dialect == CHAT:
        entry["interleaved"] = {"field": "reasoning_content"}
    return entry | {"limit": {"context": task.window, "output": 8192}}


def last_text(task: Task) -> str:
    """The text of the last ``text`` event."""
    texts = [event["part"]["text"] for event in json_objects(task.stdout) if event.get("type") == "text"]
    return texts[-1] if texts else ""


def events_text(task: Task) -> str:
    """What it printed; a tool is printed when it ends."""
    return json_lines_text(steadied(entries_of(task.stdout), _tool))


def _tool(event: Row) -> str | None:
    return str(event["part"]["callID"]) if event.get("type") == "tool_use" else None


def usage_of_steps(task: Task) -> dict[str, object]:
    finished = [event["part"] for event in json_objects(task.stdout) if event.get("type") == "step_finish"]
    return {"steps": [part.get("tokens") for part in finished]}


def sessions(database: Path) -> dict[str, str]:
    """Each session with its messages and their parts, in the order in which they were begun."""
    found = rows(database, "SELECT * FROM session ORDER BY time_created, rowid")
    return numbered(json_lines_text(_session(database, session)) for session in found)


def _session(database: Path, session: Row) -> list[Row]:
    # Their ids ascend with time; the rows of a part and its message are not written in one go.
    messages = rows(database, "SELECT * FROM message WHERE session_id = ? ORDER BY id", session["id"])
    entries: list[Row] = [{"session": session}]
    for message in messages:
        parts = rows(database, "SELECT * FROM part WHERE message_id = ? ORDER BY id", message["id"])
        entries += [{"message": message}, *({"part": part} for part in parts)]
    return entries


def _working_binary(folder: Path) -> Path:
    """The package's starter needs its install script; the binaries beside it do not. The plain build goes first."""
    binaries = sorted((folder / "node_modules").glob("opencode-*-*/bin/opencode"))
    for binary in binaries:
        if subprocess.run([binary, "--version"], capture_output=True, stdin=subprocess.DEVNULL).returncode == 0:
            return binary
    raise InstallError(f"opencode: none of {len(binaries)} binaries runs here")
