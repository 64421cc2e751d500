# SPDX-License-Identifier: Apache-2.0
"""Real agents through ``run``, with their configuration in every place that they read it from."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from history_delta_conformance.agents import AGENTS, Task, make_workspace, workspace_changes
from history_delta_conformance.agents.base import common_environment
from support.recording_upstream import ANSWER

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]


class Setup:
    """One agent in a folder of its own, configured for the upstream as its driver does it."""

    def __init__(self, name, folder, upstream, archive):
        agent = AGENTS[name]
        self.archive, self.upstream = archive, upstream
        self.workspace = make_workspace(folder / "workspace")
        self.task = Task(upstream.origin, agent.dialects[0], self.workspace, "Say hello.", folder, rollout="r1")
        for created in (self.task.home, folder / "tmp"):
            created.mkdir()
        launch = agent.launch(self.task, agent.install())
        self.agent, self.command = agent, list(launch.command)
        self.environ = common_environment(self.task) | dict(launch.environment) | {"HISTORY_DELTA_ENABLED": "1"}

    def move_to_default_home(self, variable, default):
        target = self.task.home / default
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.environ.pop(variable), target)

    def move_to_file(self, variable, path, path_variable=None):
        path = self.task.home / path
        path.parent.mkdir(parents=True, exist_ok=True)
        # Kilo writes a "$schema" into a file of its user's that has none, without us too.
        config = {"$schema": "https://app.kilo.ai/config.json"} | json.loads(self.environ.pop(variable))
        path.write_text(json.dumps(config), encoding="utf-8")
        if path_variable:
            self.environ[path_variable] = str(path)

    def files(self):
        """What is configured, by path: every file below home and workspace that names the upstream."""
        found = {}
        for path in [*self.task.home.rglob("*"), *self.workspace.glob("*")]:
            if path.is_file() and ".git" not in path.parts and self.upstream.origin.encode() in path.read_bytes():
                found[str(path)] = path.read_bytes()
        return found

    def run(self, *options, direct=False):
        wrapper = [sys.executable, str(self.archive), "run", "--upstream", self.upstream.origin, *options, "--"]
        with self.task.stdout.open("wb") as stdout, self.task.stderr.open("wb") as stderr:
            return subprocess.run(
                ([] if direct else wrapper) + self.command,
                cwd=self.workspace,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                timeout=240,
            ).returncode

    def our_lines(self):
        lines = self.task.stderr.read_text(errors="replace").splitlines()
        return [line for line in lines if line.startswith("history-delta:")]


@pytest.fixture
def upstream(recorded):
    return recorded


@pytest.fixture
def setup(tmp_path, upstream, archive):
    return lambda name: Setup(name, tmp_path, upstream, archive)


def as_it_is(_):
    """The driver's own way: a variable with the text or with the home."""


def in_the_default_home(variable, default):
    return lambda agent: agent.move_to_default_home(variable, default)


def in_a_file(variable, path, path_variable=None):
    return lambda agent: agent.move_to_file(variable, path, path_variable)


OPENCODE, KILO = "OPENCODE_CONFIG_CONTENT", "KILO_CONFIG_CONTENT"
PLACES = [
    ("opencode", "variable", as_it_is),
    ("opencode", "named file", in_a_file(OPENCODE, "somewhere/config.json", "OPENCODE_CONFIG")),
    ("opencode", "global file", in_a_file(OPENCODE, "xdg-config/opencode/opencode.json")),
    ("opencode", "project file", in_a_file(OPENCODE, "../workspace/opencode.json")),
    ("kilo", "variable", as_it_is),
    ("kilo", "named file", in_a_file(KILO, "somewhere/config.json", "KILO_CONFIG")),
    ("kilo", "global file", in_a_file(KILO, "xdg-config/kilo/kilo.json")),
    ("kilo", "project file", in_a_file(KILO, "../workspace/kilo.json")),
    ("codex", "variable", as_it_is),
    ("codex", "default home", in_the_default_home("CODEX_HOME", ".codex")),
    ("pi", "variable", as_it_is),
    ("pi", "default home", in_the_default_home("PI_CODING_AGENT_DIR", ".pi/agent")),
    ("hermes", "variable", as_it_is),
    ("hermes", "default home", in_the_default_home("HERMES_HOME", ".hermes")),
]


@pytest.mark.parametrize(("name", "place", "move"), PLACES, ids=[f"{name}-{place}" for name, place, _ in PLACES])
def test_an_agent_calls_through_the_shim_and_its_configuration_stays(setup, upstream, name, place, move):
    agent = setup(name)
    move(agent)
    configured, tracked = agent.files(), workspace_changes(agent.workspace)
    assert agent.run("--agent", name) == 0
    assert upstream.posts()
    assert all("History-Delta-Delivery" in request.headers for request in upstream.posts())
    assert agent.agent.final_text(agent.task).strip() == ANSWER
    assert {path: Path(path).read_bytes() for path in configured} == configured
    assert workspace_changes(agent.workspace) == tracked
    assert agent.our_lines() == []
    assert not list(agent.task.home.rglob("history-delta"))


# Escapes keep references literal: parsed and written anew they would be followed, and the second one would fail.
ESCAPED = r"Literal \u007benv:HOME} \u007bfile:missing.txt} \"quoted\" C:\\new\\u0041 \ud83d\ude00 😀 \u0001 <end>"
PROMPT = 'Literal {env:HOME} {file:missing.txt} "quoted" C:\\new\\u0041 😀 😀 \x01 <end>'


def test_opencode_s_prompt_arrives_as_it_was_written(setup, upstream):
    agent = setup("opencode")
    content = agent.environ[OPENCODE]
    assert content.endswith("}")
    agent.environ[OPENCODE] = content[:-1] + ', "agent": {"build": {"prompt": "' + ESCAPED + '"}}}'
    assert agent.run() == 0
    behind_the_shim = system_prompt(upstream)
    upstream.requests.clear()
    assert agent.run(direct=True) == 0
    assert behind_the_shim == system_prompt(upstream)
    assert PROMPT in behind_the_shim


def system_prompt(upstream):
    bodies = [json.loads(request.body) for request in upstream.posts()]
    main = next(body for body in bodies if body.get("tools"))
    return main["messages"][0]["content"]


@pytest.mark.parametrize("name", ["codex", "pi", "hermes"])
def test_an_agent_s_records_land_in_the_user_s_home(setup, name):
    agent = setup(name)
    variable = {"codex": "CODEX_HOME", "pi": "PI_CODING_AGENT_DIR", "hermes": "HERMES_HOME"}[name]
    for option in ("--ephemeral", "--session-dir"):
        if option in agent.command:
            position = agent.command.index(option)
            del agent.command[position : position + (2 if option == "--session-dir" else 1)]
    home = Path(agent.environ[variable])
    before = set(os.listdir(home))
    assert agent.run() == 0
    assert before < set(os.listdir(home))
    assert not [path for path in home.iterdir() if path.is_symlink()]
    assert any(path.is_file() and path.stat().st_size for path in (home / "sessions").rglob("*")) or (
        (home / "state.db").stat().st_size > 0
    )
