# SPDX-License-Identifier: Apache-2.0
"""Pi: all three dialects, chosen in its list of models."""

import json
from pathlib import Path
from typing import Any

from .base import CHAT, MESSAGES, MODEL, RESPONSES, Agent, Launch, Task
from .installing import installed, npm_install
from .output import json_lines

_API = {CHAT: "openai-completions", RESPONSES: "openai-responses", MESSAGES: "anthropic-messages"}
_OFFLINE = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


class Pi(Agent):
    name = "pi"
    version = "0.74.2"
    dialects = (CHAT, RESPONSES, MESSAGES)

    def install(self, timeout: float = 600.0) -> Path:
        def install(folder: Path) -> Path:
            npm_install(self.name, folder, timeout)
            return folder / "node_modules" / ".bin" / "pi"

        return installed(self.name, self.version, install)

    def launch(self, task: Task, executable: Path) -> Launch:
        home = task.home / "pi"
        home.mkdir(exist_ok=True)
        (home / "models.json").write_text(json.dumps(configuration(task)), encoding="utf-8")
        # Keep little of the newest, or a short history is never compacted.
        settings = {"compaction": {"keepRecentTokens": task.window // 1000}}
        (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        options = ["--print", "--mode", "json", "--offline", "--provider", "gym", "--model", MODEL]
        prompts = [prompt for prompt in (task.prompt, task.follow_up) if prompt]
        command = [str(executable), *options, "--session-dir", str(task.folder / "sessions"), *prompts]
        return Launch(tuple(command), {"PI_CODING_AGENT_DIR": str(home), **_OFFLINE})

    def final_text(self, task: Task) -> str:
        texts = [_text(event["message"]) for event in json_lines(task.stdout) if event.get("type") == "message_end"]
        return next((text for text in reversed(texts) if text), "")


def configuration(task: Task) -> dict[str, Any]:
    provider = {
        # Its anthropic client adds the version to the path by itself.
        "baseUrl": task.root_url if task.dialect == MESSAGES else task.base_url,
        "api": _API[task.dialect],
        "apiKey": "EMPTY",
        "compat": {"supportsDeveloperRole": False, "supportsReasoningEffort": False},
        "models": [
            {"id": MODEL, "reasoning": True, "input": ["text"], "contextWindow": task.window, "maxTokens": 8192}
        ],
    }
    return {"providers": {"gym": provider}}


def _text(message: dict[str, Any]) -> str:
    if message.get("role") != "assistant":
        return ""
    return "".join(part.get("text", "") for part in message.get("content", []) if part.get("type") == "text")
