# SPDX-License-Identifier: Apache-2.0
"""Kilo: a descendant of OpenCode with a configuration and variables of its own; driven in the chat dialect."""

import json
from pathlib import Path
from typing import Any

from .base import CHAT, COMPACTION, MODEL, SUB_AGENTS, Agent, Launch, Task, private_xdg
from .installing import installed, npm_install
from .opencode import NO_REGISTRY, events_text, last_text, model_entry, sessions, usage_of_steps

_OFFLINE = {
    "KILO_NO_DAEMON": "1",
    "KILO_DISABLE_MODELS_FETCH": "1",
    "KILO_DISABLE_AUTOUPDATE": "1",
    "KILO_TELEMETRY_LEVEL": "off",
    "KILO_DISABLE_LSP_DOWNLOAD": "1",
}


class Kilo(Agent):
    name = "kilo"
    version = "7.7.7"
    dialects = (CHAT,)
    abilities = frozenset({SUB_AGENTS, COMPACTION})

    def install(self, timeout: float = 600.0) -> Path:
        def install(folder: Path) -> Path:
            npm_install(self.name, folder, timeout)
            return folder / "node_modules" / ".bin" / "kilo"

        return installed(self.name, self.version, install)

    def launch(self, task: Task, executable: Path) -> Launch:
        options = ["--auto", "--pure", "--format", "json", "--print-logs", "--log-level", "INFO"]
        command = [str(executable), "run", *options, "-m", f"gym/{MODEL}", "--dir", str(task.workspace), "--"]
        environment = {"KILO_CONFIG_CONTENT": json.dumps(configuration(task)), "KILO_DB": str(_database(task))}
        return Launch((*command, task.prompt), environment | private_xdg(task) | NO_REGISTRY | _OFFLINE)

    def final_text(self, task: Task) -> str:
        return last_text(task)

    def session_record(self, task: Task) -> dict[str, str]:
        return {"stdout": events_text(task), **sessions(_database(task))}

    def usage(self, task: Task) -> dict[str, object]:
        return usage_of_steps(task)


def _database(task: Task) -> Path:
    return task.home / "kilo.db"


def configuration(task: Task) -> dict[str, Any]:
    return {
        "permission": {"*": "allow", "bash": "allow", "edit": "allow", "webfetch": "deny"},
        "autoupdate": False,
        "share": "disabled",
        "provider": {
            "gym": {
                "npm": "@ai-sdk/openai-compatible",
                "options": {"baseURL": task.base_url, "apiKey": "EMPTY"},
                "models": {MODEL: model_entry(task)},
            }
        },
    }
