# SPDX-License-Identifier: Apache-2.0
"""Pi: all three dialects, chosen in its list of models."""

import json
from pathlib import Path
from typing import Any

from .base import CHAT, FOLLOW_UP, MESSAGES, MODEL, RESPONSES, Agent, Launch, Task
from .installing import installed, npm_install
from .records import Row, json_lines_text, json_objects, numbered, steadied, text_of

_API = {CHAT: "openai-completions", RESPONSES: "openai-responses", MESSAGES: "anthropic-messages"}
_OFFLINE = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}


class Pi(Agent):
    name = "pi"
    version = "0.74.2"
    dialects = (CHAT, RESPONSES, MESSAGES)
    abilities = frozenset({FOLLOW_UP})

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
        settings = {"compaction": {"keepRecentTokens": task.window // 1000}, "retry": {"baseDelayMs": 250}}
        (home / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        options = ["--print", "--mode", "json", "--offline", "--provider", "gym", "--model", MODEL]
        prompts = (task.prompt, *task.follow_ups)
        command = [str(executable), *options, "--session-dir", str(_sessions(task)), *prompts]
        return Launch(tuple(command), {"PI_CODING_AGENT_DIR": str(home), **_OFFLINE})

    def final_text(self, task: Task) -> str:
        return next((text for text in map(_text, reversed(_messages(task))) if text), "")

    def session_record(self, task: Task) -> dict[str, str]:
        sessions = numbered(map(text_of, sorted(_sessions(task).glob("*.jsonl"))))
        return {"stdout": _events_text(task), **sessions}

    def usage(self, task: Task) -> dict[str, object]:
        return {"messages": [message["usage"] for message in _messages(task) if "usage" in message]}


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


def _sessions(task: Task) -> Path:
    return task.folder / "sessions"


def _messages(task: Task) -> list[Row]:
    return [event["message"] for event in json_objects(task.stdout) if event.get("type") == "message_end"]


def _events_text(task: Task) -> str:
    """What it printed, but for progress, which is as far as it happened to be; a message's end has all of it."""
    events = [event for event in json_objects(task.stdout) if not _is_progress(str(event.get("type")))]
    return json_lines_text(steadied(events, _ended_tool))


def _is_progress(kind: str) -> bool:
    return kind == "message_start" or kind.endswith("_update")


def _ended_tool(event: Row) -> str | None:
    return str(event["toolCallId"]) if event.get("type") == "tool_execution_end" else None


def _text(message: Row) -> str:
    if message.get("role") != "assistant":
        return ""
    return "".join(part.get("text", "") for part in message.get("content", []) if part.get("type") == "text")
