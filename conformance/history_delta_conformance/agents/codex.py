# SPDX-License-Identifier: Apache-2.0
"""Codex: the responses dialect, configured by a TOML file in a home of its own."""

import json
from pathlib import Path

from .base import COMPACTION, RESPONSES, SUB_AGENTS, Agent, Launch, Task
from .installing import installed, npm_install
from .records import Row, entries_of, json_lines_text, json_objects, numbered, steadied, text_of

_CONFIG = """\
model = "gym-policy-model"
model_provider = "gym"
model_context_window = {window}
model_auto_compact_token_limit = {compact_at}
approval_policy = "never"
sandbox_mode = "danger-full-access"
web_search = "disabled"
check_for_update_on_startup = false

[analytics]
enabled = false

[history]
persistence = "none"

[agents]
enabled = {sub_agents}

[features]
code_mode = false

[model_providers.gym]
name = "gym"
base_url = {base_url}
env_key = "OPENAI_API_KEY"
wire_api = "responses"
stream_idle_timeout_ms = 600000
"""


class Codex(Agent):
    name = "codex"
    version = "0.171.0"
    dialects = (RESPONSES,)
    abilities = frozenset({SUB_AGENTS, COMPACTION})

    def install(self, timeout: float = 600.0) -> Path:
        def install(folder: Path) -> Path:
            npm_install(self.name, folder, timeout)
            return folder / "node_modules" / ".bin" / "codex"

        return installed(self.name, self.version, install)

    def launch(self, task: Task, executable: Path) -> Launch:
        home = _home(task)
        home.mkdir(exist_ok=True)
        (home / "config.toml").write_text(configuration(task), encoding="utf-8")
        options = ["--json", "--skip-git-repo-check", "--cd", str(task.workspace)]
        command = [str(executable), "exec", *options, "-o", str(_last_message(task)), "--", task.prompt]
        return Launch(tuple(command), {"CODEX_HOME": str(home), "OPENAI_API_KEY": "local"})

    def final_text(self, task: Task) -> str:
        return text_of(_last_message(task))

    def session_record(self, task: Task) -> dict[str, str]:
        printed = json_lines_text(steadied(entries_of(task.stdout), _command))
        sessions = sorted((_home(task) / "sessions").glob("**/*.jsonl"))
        return {"stdout": printed, **numbered(map(_session_text, sessions))}

    def usage(self, task: Task) -> dict[str, object]:
        completed = [event for event in json_objects(task.stdout) if event.get("type") == "turn.completed"]
        return {"turns": [event.get("usage") for event in completed]}


def configuration(task: Task) -> str:
    # A JSON string is a TOML string as well, for what an address can hold.
    return _CONFIG.format(
        base_url=json.dumps(task.base_url),
        window=task.window,
        compact_at=task.window * 9 // 10,
        sub_agents=json.dumps(SUB_AGENTS in task.wanted),
    )


def _command(event: Row) -> tuple[str, bool] | None:
    """Where a command's beginning or end belongs. Not by its id: that is given in the order of beginning."""
    item = event.get("item", {})
    is_command = item.get("type") == "command_execution"
    return (str(item.get("command")), event["type"] == "item.completed") if is_command else None


def _session_text(file: Path) -> str:
    """First the history, then what happened, the ends of commands at last.

    Where commands run at the same time, chance decides how these are mixed; for that reason the number of an entry
    goes as well.
    """
    entries = [{name: value for name, value in entry.items() if name != "ordinal"} for entry in json_objects(file)]
    return json_lines_text([*sorted(entries, key=_kind_of_entry)])


def _kind_of_entry(entry: Row) -> tuple[int, str]:
    if entry.get("type") != "event_msg":
        return 0, ""
    item = entry["payload"].get("item", {})
    return (2, str(item["id"])) if item.get("type") == "CommandExecution" else (1, "")


def _home(task: Task) -> Path:
    return task.home / "codex"


def _last_message(task: Task) -> Path:
    return task.folder / "last-message.txt"
