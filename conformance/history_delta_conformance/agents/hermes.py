# SPDX-License-Identifier: Apache-2.0
"""Hermes: the chat dialect, a Python program in a virtual environment of its own."""

import json
from pathlib import Path
from typing import Any

from .base import CHAT, MODEL, Agent, Launch, Task
from .installing import installed, pip_install


class Hermes(Agent):
    name = "hermes"
    version = "0.19.0"
    dialects = (CHAT,)

    def install(self, timeout: float = 600.0) -> Path:
        def install(folder: Path) -> Path:
            pip_install(f"hermes-agent=={self.version}", folder, timeout)
            return folder / "bin" / "hermes"

        return installed(self.name, self.version, install)

    def launch(self, task: Task, executable: Path) -> Launch:
        home = task.home / "hermes"
        home.mkdir(exist_ok=True)
        # JSON is YAML.
        (home / "config.yaml").write_text(json.dumps(configuration(task), indent=1), encoding="utf-8")
        command = [str(executable), "--yolo", "-z", task.prompt, "--usage-file", str(task.folder / "usage.json")]
        environment = {"TERMINAL_ENV": "local", "TERMINAL_CWD": str(task.workspace), "HERMES_YOLO_MODE": "1"}
        return Launch(tuple(command), environment | {"HERMES_HOME": str(home)})

    def final_text(self, task: Task) -> str:
        return task.stdout.read_text(encoding="utf-8", errors="replace").strip()


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
