# SPDX-License-Identifier: Apache-2.0
"""Running an agent: isolated, bounded in time, nothing of it left behind, its workspace judged."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from history_delta_conformance.agents import Agent, Launch, Task, make_workspace, run_agent, wrong_files
from history_delta_conformance.scripted_model import load_scenario

REPORT = load_scenario("tool-use").files[1]


class PythonAgent(Agent):
    """An agent whose whole behaviour is a line of Python."""

    name, version, dialects = "python", "1", ("chat",)

    def __init__(self, code):
        self.code = code

    def install(self, timeout=0):
        return Path(sys.executable)

    def launch(self, task, executable):
        return Launch((str(executable), "-c", self.code), {"AGENT_OWN": "1"})

    def final_text(self, task):
        return task.stdout.read_text()


@pytest.fixture
def task(tmp_path):
    workspace = make_workspace(tmp_path / "workspace")
    return Task("http://127.0.0.1:1", "chat", workspace, "go", tmp_path / "run", timeout=30)


async def test_status_output_and_changes(task):
    code = "import sys; open('new.txt', 'w').close(); open('README.md', 'a').write('x'); print('said'); sys.exit(7)"
    result = await run_agent(PythonAgent(code), task)
    assert (result.exit_status, result.final_text) == (7, "said\n")
    assert result.changes == "M\tREADME.md\nA\tnew.txt\n"


class SequenceAgent(PythonAgent):
    """Runs each line of its code as a command of its own."""

    def launch(self, task, executable):
        first, *others = ((str(executable), "-c", line) for line in self.code.splitlines())
        return Launch(first, then=tuple(others))


async def test_further_commands_run_after_the_first_as_long_as_all_goes_well(task):
    code = "print(1, flush=True)\nprint(2, flush=True); raise SystemExit(3)\nprint('never')"
    result = await run_agent(SequenceAgent(code), task)
    assert (result.exit_status, result.final_text) == (3, "1\n2\n")


async def test_the_timeout_is_for_all_commands_together(task):
    code = "\n".join(["import time; time.sleep(1.2)"] * 3)
    result = await run_agent(SequenceAgent(code), Task(**vars(task) | {"timeout": 2}))
    assert result.exit_status is None
    assert result.seconds < 3


def test_a_workspace_begins_with_the_same_commit_whoever_makes_it_and_when(tmp_path, monkeypatch):
    def first_commit(path):
        return subprocess.run(["git", "-C", make_workspace(path), "rev-parse", "HEAD"], capture_output=True).stdout

    one = first_commit(tmp_path / "one")
    settings = tmp_path / "gitconfig"
    settings.write_text("[user]\nname = Someone\nemail = someone@example.invalid\n[commit]\ngpgSign = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-01-01T00:00:00Z")
    assert first_commit(tmp_path / "other") == one != b""


async def test_environment_is_private_and_holds_no_secret(task, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    result = await run_agent(PythonAgent("import os; print(sorted(os.environ.items()))"), task)
    assert "secret" not in result.final_text
    assert f"('HOME', '{task.home}')" in result.final_text
    assert "('AGENT_OWN', '1')" in result.final_text


async def test_standard_input_is_empty_and_the_wrapper_goes_in_front(task):
    wrapped = Task(**vars(task) | {"wrapper": ("env", "WRAPPED=yes")})
    result = await run_agent(
        PythonAgent("import os, sys; print(os.environ['WRAPPED'], repr(sys.stdin.read()))"), wrapped
    )
    assert result.final_text == "yes ''\n"


async def test_a_timeout_stops_the_whole_group(task, is_gone):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    result = await run_agent(PythonAgent(code), Task(**vars(task) | {"timeout": 2}))
    assert result.exit_status is None
    assert is_gone(int(result.final_text))


async def test_a_helper_does_not_outlive_its_agent(task, is_gone):
    code = "import subprocess, sys\nprint(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)"
    result = await run_agent(PythonAgent(code), task)
    assert result.exit_status == 0
    assert is_gone(int(result.final_text))


async def test_a_cancelled_run_stops_its_agent(task, is_gone):
    code = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
    pipe = task.workspace / "pid"
    os.mkfifo(pipe)
    running = asyncio.create_task(run_agent(PythonAgent(code), task))
    pid = await asyncio.to_thread(pipe.read_text)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert is_gone(int(pid))


def test_wrong_files_are_named(task):
    scenario = load_scenario("tool-use")
    assert wrong_files(task.workspace, scenario) == ["notes.md", "report.txt"]
    (task.workspace / REPORT.path).write_bytes(REPORT.content.encode())
    (task.workspace / "notes.md").write_text("something else")
    assert wrong_files(task.workspace, scenario) == ["notes.md"]
