# SPDX-License-Identifier: Apache-2.0
"""The built-in agent: no installation, all three dialects, every ability but pruning."""

import json
import sys
from pathlib import Path
from typing import Any

from .base import CHAT, COMPACTION, FOLLOW_UP, MESSAGES, RESPONSES, SUB_AGENTS, TITLE, Agent, Launch, Task
from .records import text_of


class BuiltIn(Agent):
    name = "builtin"
    version = "2"
    dialects = (CHAT, RESPONSES, MESSAGES)
    abilities = frozenset({SUB_AGENTS, COMPACTION, FOLLOW_UP, TITLE})

    def install(self, timeout: float = 600.0) -> Path:
        return Path(sys.executable)

    def launch(self, task: Task, executable: Path) -> Launch:
        # -P: the workspace is the current folder, and nothing in it may stand in for a module.
        command = [str(executable), "-P", "-m", "history_delta_conformance.builtin_agent"]
        command += ["--base-url", task.base_url, "--dialect", task.dialect, "--window", str(task.window)]
        command += ["--session-file", str(_session_file(task)), "--usage-file", str(_usage_file(task))]
        command += ["--title"] if TITLE in task.wanted else []
        return Launch((*command, "--", task.prompt, *task.follow_ups))

    def final_text(self, task: Task) -> str:
        """The last line: each answer is printed on its own."""
        return text_of(task.stdout).strip().rpartition("\n")[2]

    def session_record(self, task: Task) -> dict[str, str]:
        file = _session_file(task)
        return super().session_record(task) | ({"session": text_of(file)} if file.is_file() else {})

    def usage(self, task: Task) -> dict[str, object]:
        file = _usage_file(task)
        if not file.is_file():
            return {}
        figures: dict[str, Any] = json.loads(text_of(file))
        return figures


def _session_file(task: Task) -> Path:
    return task.folder / "session.jsonl"


def _usage_file(task: Task) -> Path:
    return task.folder / "usage.json"
