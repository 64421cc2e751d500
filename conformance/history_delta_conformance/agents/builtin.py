# SPDX-License-Identifier: Apache-2.0
"""The built-in agent: no installation, all three dialects."""

import sys
from pathlib import Path

from .base import CHAT, MESSAGES, RESPONSES, Agent, Launch, Task


class BuiltIn(Agent):
    name = "builtin"
    version = "1"
    dialects = (CHAT, RESPONSES, MESSAGES)

    def install(self, timeout: float = 600.0) -> Path:
        return Path(sys.executable)

    def launch(self, task: Task, executable: Path) -> Launch:
        # -P: the workspace is the current folder, and nothing in it may stand in for a module.
        command = [str(executable), "-P", "-m", "history_delta_conformance.builtin_agent"]
        return Launch((*command, "--base-url", task.base_url, "--dialect", task.dialect, "--", task.prompt))

    def final_text(self, task: Task) -> str:
        """The last paragraph: each answer is printed on its own."""
        printed = task.stdout.read_text(encoding="utf-8", errors="replace").strip()
        return printed.rpartition("\n")[2]
