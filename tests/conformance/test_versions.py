# SPDX-License-Identifier: Apache-2.0
"""Which executable of an agent is run, and what is said of its version."""

from pathlib import Path

import pytest
from history_delta_conformance.agents import InstallError, Launch, Task, make_workspace, prepare, run_agent
from history_delta_conformance.agents.base import Agent
from history_delta_conformance.agents.versions import executable_of, installed_version, use_executable, variable_of


class Example(Agent):
    name, version, dialects = "an-example", "1.2.3", ("chat",)
    failure = ""

    def install(self, timeout=0):
        if self.failure:
            raise InstallError(self.failure)
        return Path("/installed")

    def launch(self, task, executable):
        return Launch((str(executable), task.prompt))

    def final_text(self, task):
        return task.stdout.read_text()


@pytest.fixture
def agent(monkeypatch):
    monkeypatch.delenv("HISTORY_DELTA_AGENT_AN_EXAMPLE", raising=False)
    yield Example()
    use_executable("an-example", None)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_installed_one_is_the_tested_version(agent):
    prepared = prepare(agent)
    assert (prepared.executable, prepared.version, prepared.problem) == (Path("/installed"), "1.2.3", "")


def test_one_that_cannot_be_installed_has_a_problem_and_no_executable(agent):
    agent.failure = "an-example: npm is not installed"
    prepared = prepare(agent)
    assert prepared.executable is None
    assert prepared.problem == "not installable: an-example: npm is not installed"


def test_another_version_can_be_run_and_is_called_untested(agent, tmp_path, monkeypatch):
    other = script(tmp_path / "other", "echo 'example v1.3.0-beta (build 7)'")
    monkeypatch.setenv(variable_of("an-example"), str(other))
    prepared = prepare(agent)
    assert (prepared.executable, prepared.version) == (other, "1.3.0-beta")
    assert prepared.problem == "version 1.3.0-beta is untested; tested is 1.2.3"


def test_the_tested_version_somewhere_else_has_no_problem(agent, tmp_path):
    use_executable("an-example", script(tmp_path / "same", "echo 1.2.3 >&2"))
    assert prepare(agent).problem == ""


def test_one_that_does_not_say_its_version_can_be_run(agent, tmp_path):
    silent = script(tmp_path / "silent", "exit 1")
    use_executable("an-example", silent)
    prepared = prepare(agent)
    assert (prepared.executable, prepared.version) == (silent, "")
    assert "does not say its version; tested is 1.2.3" in prepared.problem


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, Path.touch], ids=["missing", "a folder", "no program"])
def test_what_is_no_executable_is_refused_with_the_variable_to_set(make, agent, tmp_path):
    make(tmp_path / "wrong")
    use_executable("an-example", tmp_path / "wrong")
    with pytest.raises(InstallError, match=r"wrong is no executable file; set HISTORY_DELTA_AGENT_AN_EXAMPLE"):
        executable_of(agent)
    assert prepare(agent).executable is None


def test_an_argument_goes_before_the_environment(agent, tmp_path, monkeypatch):
    monkeypatch.setenv(variable_of("an-example"), str(script(tmp_path / "by-variable", "true")))
    chosen = script(tmp_path / "by-argument", "true")
    use_executable("an-example", str(chosen))
    assert executable_of(agent) == chosen


async def test_a_run_uses_the_chosen_one(agent, tmp_path):
    use_executable("an-example", script(tmp_path / "mine", 'echo "mine: $1"'))
    task = Task("http://127.0.0.1:1", "chat", make_workspace(tmp_path / "workspace"), "go", tmp_path / "run")
    assert (await run_agent(agent, task)).final_text == "mine: go\n"


def test_no_version_from_what_cannot_be_run_or_prints_none(tmp_path):
    assert installed_version([str(tmp_path / "missing")]) is None
    assert installed_version(["echo", "hello 5"]) is None
