# SPDX-License-Identifier: Apache-2.0
"""What each driver tells its agent, without running it: addresses, dialect, context window, privacy."""

import json
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from history_delta_conformance.agents import AGENTS, Task, installed_version
from history_delta_conformance.agents.base import PRUNING, SUB_AGENTS

ORIGIN = "http://127.0.0.1:4321"


@pytest.fixture
def task(tmp_path):
    task = Task(
        ORIGIN, "chat", tmp_path / "workspace", "do {env:X} \"it\" '🎉'", tmp_path / "run", ("and then",), "r-1"
    )
    task.home.mkdir(parents=True)
    return task


def launch(name, task, dialect="chat"):
    return AGENTS[name].launch(replace(task, dialect=dialect), Path("/agent"))


PROVIDERS = {"chat": "@ai-sdk/openai-compatible", "responses": "@ai-sdk/openai", "messages": "@ai-sdk/anthropic"}


@pytest.mark.parametrize("dialect", list(PROVIDERS))
def test_opencode(dialect, task):
    started = launch("opencode", replace(task, window=90_000), dialect)
    [provider] = json.loads(started.environment["OPENCODE_CONFIG_CONTENT"])["provider"].values()
    assert provider["npm"] == PROVIDERS[dialect]
    assert provider["options"]["baseURL"] == f"{ORIGIN}/ng-rollout/r-1/v1"
    assert provider["models"]["mock-model"]["limit"]["context"] == 90_000
    assert started.command[-2:] == ("--", task.prompt)


def test_opencode_is_given_further_prompts_in_the_same_session(task):
    started = launch("opencode", task)
    assert [command[-3:] for command in started.then] == [("--continue", "--", "and then")]
    assert started.then[0][:-3] == started.command[:-2]
    assert launch("opencode", replace(task, follow_ups=())).then == ()


def test_opencode_prunes_where_that_is_wanted(task):
    def prunes(task):
        return json.loads(launch("opencode", task).environment["OPENCODE_CONFIG_CONTENT"])["compaction"]["prune"]

    assert not prunes(task)
    assert prunes(replace(task, wanted=frozenset({PRUNING})))


@pytest.mark.parametrize("name", ["opencode", "kilo"])
def test_they_are_kept_from_the_registry(name, task):
    assert launch(name, task).environment["npm_config_offline"] == "true"


def test_kilo_keeps_its_configuration_out_of_the_workspace(task):
    started = launch("kilo", task)
    [provider] = json.loads(started.environment["KILO_CONFIG_CONTENT"])["provider"].values()
    assert provider["options"]["baseURL"] == f"{ORIGIN}/ng-rollout/r-1/v1"
    assert not task.workspace.exists()


def test_codex(task):
    started = launch("codex", replace(task, window=100_000), "responses")
    config = tomllib.loads((Path(started.environment["CODEX_HOME"]) / "config.toml").read_text())
    assert config["model_providers"]["gym"]["base_url"] == f"{ORIGIN}/ng-rollout/r-1/v1"
    assert config["model_auto_compact_token_limit"] < config["model_context_window"] == 100_000
    assert started.command[-2:] == ("--", task.prompt)


def test_codex_has_sub_agents_where_they_are_wanted(task):
    def enabled(task):
        started = launch("codex", task, "responses")
        return tomllib.loads((Path(started.environment["CODEX_HOME"]) / "config.toml").read_text())["agents"]["enabled"]

    assert not enabled(task)
    assert enabled(replace(task, wanted=frozenset({SUB_AGENTS})))


def test_codex_keeps_its_session(task):
    assert "--ephemeral" not in launch("codex", task, "responses").command


@pytest.mark.parametrize(
    ("dialect", "api", "path"),
    [
        ("chat", "openai-completions", "/v1"),
        ("responses", "openai-responses", "/v1"),
        ("messages", "anthropic-messages", ""),
    ],
)
def test_pi(dialect, api, path, task):
    started = launch("pi", task, dialect)
    config = json.loads((Path(started.environment["PI_CODING_AGENT_DIR"]) / "models.json").read_text())
    [provider] = config["providers"].values()
    assert (provider["api"], provider["baseUrl"]) == (api, f"{ORIGIN}/ng-rollout/r-1{path}")
    assert started.command[-2:] == (task.prompt, "and then")
    assert launch("pi", replace(task, follow_ups=())).command[-1] == task.prompt


def test_hermes(task):
    started = launch("hermes", replace(task, window=100_000))
    config = json.loads((Path(started.environment["HERMES_HOME"]) / "config.yaml").read_text())
    assert config["model"]["base_url"] == f"{ORIGIN}/ng-rollout/r-1/v1"
    assert config["model"]["context_length"] == 100_000
    assert started.environment["TERMINAL_CWD"] == str(task.workspace)


def test_hermes_as_a_library(task):
    started = launch("hermes-library", task)
    job = json.loads(Path(started.command[-1]).read_text())
    assert job["prompt"] == task.prompt
    assert job["agent"]["base_url"] == f"{ORIGIN}/ng-rollout/r-1/v1"
    assert job["agent"]["enabled_toolsets"] == ["terminal", "file"]
    assert (Path(started.environment["HERMES_HOME"]) / "config.yaml").is_file()
    started = launch("hermes-library", replace(task, wanted=frozenset({SUB_AGENTS})))
    assert "delegation" in json.loads(Path(started.command[-1]).read_text())["agent"]["enabled_toolsets"]


def test_the_version_of_the_library_is_not_that_of_its_python():
    command = AGENTS["hermes-library"].version_command(Path(sys.executable))
    command = [part.replace("hermes-agent", "pytest") for part in command]
    assert installed_version(command) == pytest.__version__


def test_no_rollout_no_prefix(task):
    without = replace(task, rollout=None)
    assert without.base_url == f"{ORIGIN}/v1"


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "builtin"])
def test_what_they_write_stays_in_the_folder_of_the_run(name, task):
    before = set(task.folder.parent.rglob("*"))
    started = launch(name, task, AGENTS[name].dialects[0])
    written = set(task.folder.parent.rglob("*")) - before
    assert all(path.is_relative_to(task.folder) for path in written)
    for variable, value in started.environment.items():
        if variable.endswith(("_HOME", "_DIR")):
            assert Path(value).is_relative_to(task.folder)


OUTPUTS = {
    "opencode": (
        'INFO starting\n{"type":"text","part":{"text":"first"}}\n'
        '{"type":"text","part":{"text":"last é"}}\n{"type":"x"}\n',
        "last é",
    ),
    "pi": (
        '{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"last é"}]}}\n'
        '{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"mine"}]}}\n{broken\n',
        "last é",
    ),
    "hermes": ("\nlast é\n", "last é"),
    "hermes-library": ("last é\n", "last é"),
    "builtin": ("first\nlast é\n", "last é"),
}


@pytest.mark.parametrize("name", list(OUTPUTS))
def test_final_text_is_the_last_thing_said(name, task):
    printed, last = OUTPUTS[name]
    task.stdout.write_text(printed, encoding="utf-8")
    assert AGENTS[name].final_text(task) == last
    task.stdout.write_text("")
    assert AGENTS[name].final_text(task) == ""


def test_final_text_of_codex_is_in_a_file(task):
    assert AGENTS["codex"].final_text(task) == ""
    started = launch("codex", task, "responses")
    Path(started.command[started.command.index("-o") + 1]).write_text("last", encoding="utf-8")
    assert AGENTS["codex"].final_text(task) == "last"
