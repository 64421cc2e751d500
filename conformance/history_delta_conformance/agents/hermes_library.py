# SPDX-License-Identifier: Apache-2.0
"""Hermes as a library: the same package as the command, within a Python program of someone's own."""

import json
from pathlib import Path
from typing import Any

from . import hermes
from .base import CHAT, COMPACTION, MODEL, SUB_AGENTS, Agent, Launch, Task
from .records import json_lines_text, text_of

_PROGRAM = Path(__file__).with_name("hermes_program.py")
_FIGURES = ("_tokens", "api_calls", "completed", "failed")


class HermesLibrary(Agent):
    name = "hermes-library"
    version = hermes.Hermes.version
    dialects = (CHAT,)
    abilities = frozenset({SUB_AGENTS, COMPACTION})
    is_python = True

    def install(self, timeout: float = 600.0) -> Path:
        return hermes.Hermes().install(timeout).with_name("python")

    def version_command(self, executable: Path) -> tuple[str, ...]:
        return str(executable), "-c", "import importlib.metadata as m; print(m.version('hermes-agent'))"

    def launch(self, task: Task, executable: Path) -> Launch:
        hermes.configure(task)
        job = {"agent": arguments(task), "prompt": task.prompt, "result": str(_result_file(task))}
        job_file = task.folder / "job.json"
        job_file.write_text(json.dumps(job), encoding="utf-8")
        # -P: the workspace is the current folder, and nothing in it may stand in for a module.
        return Launch((str(executable), "-P", str(_PROGRAM), str(job_file)), hermes.environment(task))

    def final_text(self, task: Task) -> str:
        return text_of(task.stdout).strip()

    def session_record(self, task: Task) -> dict[str, str]:
        return super().session_record(task) | {"session-1": json_lines_text(_result(task).get("messages", []))}

    def usage(self, task: Task) -> dict[str, object]:
        return {name: value for name, value in _result(task).items() if name.endswith(_FIGURES)}


def arguments(task: Task) -> dict[str, Any]:
    toolsets = ["terminal", "file", *(["delegation"] if SUB_AGENTS in task.wanted else [])]
    return {
        "base_url": task.base_url,
        "api_key": "EMPTY",
        "model": MODEL,
        "max_iterations": 60,
        "quiet_mode": True,
        "skip_context_files": True,
        "skip_memory": True,
        "save_trajectories": False,
        "enabled_toolsets": toolsets,
    }


def _result_file(task: Task) -> Path:
    return task.folder / "result.json"


def _result(task: Task) -> dict[str, Any]:
    """What the program wrote at its end; nothing if it did not come to it."""
    result: dict[str, Any] = json.loads(text_of(_result_file(task)) or "{}")
    return result
