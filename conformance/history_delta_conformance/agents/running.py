# SPDX-License-Identifier: Apache-2.0
"""Runs one agent on one task, bounded in time, and prepares and judges the workspace that it works in."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from ..scripted_model.scenario import Scenario
from .base import Agent, AgentResult, Task, common_environment

_GIT_IDENTITY = ("-c", "user.name=conformance", "-c", "user.email=conformance@example.invalid")
_README = "# A small project\n\nSomething for an agent to work on.\n"


def make_workspace(path: Path) -> Path:
    """A git repository with one commit."""
    path.mkdir(parents=True)
    (path / "README.md").write_text(_README, encoding="utf-8")
    _git(path, "init", "--quiet", "--initial-branch", "main")
    _git(path, "add", "--all")
    _git(path, *_GIT_IDENTITY, "commit", "--quiet", "--message", "Start")
    return path


def workspace_changes(path: Path) -> str:
    """What differs from the first commit, as git's name-status lists it."""
    _git(path, "add", "--all")
    return _git(path, "diff", "--cached", "--name-status", "HEAD")


def wrong_files(workspace: Path, scenario: Scenario) -> list[str]:
    """The scenario's expected files that are missing or hold something else."""

    def is_right(name: str, content: str) -> bool:
        file = workspace / name
        return file.is_file() and file.read_bytes() == content.encode()

    return [expected.path for expected in scenario.files if not is_right(expected.path, expected.content)]


async def run_agent(agent: Agent, task: Task) -> AgentResult:
    """Run the agent to its end or its timeout; everything that it wrote stays in the task's folder."""
    executable = await asyncio.to_thread(agent.install)
    for folder in (task.home, task.folder / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    launch = agent.launch(task, executable)
    environment = common_environment(task) | dict(launch.environment) | dict(task.environment)
    began = time.monotonic()
    status = await _run([*task.wrapper, *launch.command], environment, task)
    seconds = time.monotonic() - began
    changes = workspace_changes(task.workspace)
    return AgentResult(status, agent.final_text(task), task.stdout, task.stderr, changes, seconds)


async def _run(command: list[str], environment: dict[str, str], task: Task) -> int | None:
    with task.stdout.open("wb") as stdout, task.stderr.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=task.workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        return await asyncio.wait_for(process.wait(), task.timeout)
    except TimeoutError:
        return None
    finally:
        # The whole group, also after a good end or when we are cancelled: no helper of the agent's may outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _git(path: Path, *arguments: str) -> str:
    command = ["git", "-C", str(path), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
