# SPDX-License-Identifier: Apache-2.0
"""Hermes: the chat dialect, a Python program in a virtual environment of its own."""

import json
from pathlib import Path
from typing import Any

from .base import CHAT, COMPACTION, MODEL, SUB_AGENTS, Agent, Launch, Task
from .installing import installed, pip_install
from .records import Row, json_lines_text, numbered, rows, text_of


class Hermes(Agent):
    name = "hermes"
    version = "0.19.0"
    dialects = (CHAT,)
    is_python = True
    abilities = frozenset({SUB_AGENTS, COMPACTION})

    def install(self, timeout: float = 600.0) -> Path:
        def install(folder: Path) -> Path:
            pip_install(f"hermes-agent=={self.version}", folder, timeout)
            return folder / "bin" / "hermes"

        return installed(self.name, self.version, install)

    def launch(self, task: Task, executable: Path) -> Launch:
        configure(task)
        command = [str(executable), "--yolo", "-z", task.prompt, "--usage-file", str(usage_file(task))]
        return Launch(tuple(command), environment(task))

    def final_text(self, task: Task) -> str:
        return text_of(task.stdout).strip()

    def session_record(self, task: Task) -> dict[str, str]:
        return super().session_record(task) | _sessions(home(task) / "state.db")

    def usage(self, task: Task) -> dict[str, object]:
        return read_usage(task)


def home(task: Task) -> Path:
    return task.home / "hermes"


def configure(task: Task) -> None:
    home(task).mkdir(exist_ok=True)
    # JSON is YAML.
    (home(task) / "config.yaml").write_text(json.dumps(configuration(task), indent=1), encoding="utf-8")


def environment(task: Task) -> dict[str, str]:
    terminal = {"TERMINAL_ENV": "local", "TERMINAL_CWD": str(task.workspace), "HERMES_YOLO_MODE": "1"}
    return terminal | {"HERMES_HOME": str(home(task))}


def usage_file(task: Task) -> Path:
    return task.folder / "usage.json"


def read_usage(task: Task) -> dict[str, object]:
    """What it wrote at its end; nothing if it did not come to it."""
    usage: dict[str, object] = json.loads(text_of(usage_file(task)) or "{}")
    return usage


def _sessions(database: Path) -> dict[str, str]:
    found = rows(database, "SELECT * FROM sessions ORDER BY rowid")
    return numbered(json_lines_text(_session(database, session)) for session in found)


def _session(database: Path, session: Row) -> list[Row]:
    usage = rows(database, "SELECT * FROM session_model_usage WHERE session_id = ? ORDER BY rowid", session["id"])
    messages = rows(database, "SELECT * FROM messages WHERE session_id = ? ORDER BY id", session["id"])
    return [{"session": session}, *({"usage": row} for row in usage), *({"message": row} for row in messages)]


def configuration(task: Task) -> dict[str, Any]:
    return {
        "model": {
            "default": MODEL,
            "provider": "custom",
            "base_url": task.base_url,
            "api_key": "EMPTY",
            "api_mode": "chat_completions",
            "context_length": task.window,
        },
        "agent": {"max_turns": 60, "verify_on_stop": False},
        "lsp": {"enabled": False},
        "skills": {"creation_nudge_interval": 0},
        "memory": {"memory_enabled": False, "user_profile_enabled": False},
        "compression": {"enabled": True, "threshold": 0.85},
        "terminal": {"backend": "local", "timeout": 60},
        "checkpoints": {"enabled": False},
    }
