# SPDX-License-Identifier: Apache-2.0
"""Runs one agent on one task, bounded in time, and prepares and judges the workspace that it works in."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from ..scripted_model.scenario import Scenario
from .base import Agent, AgentResult, Task, common_environment
from .versions import executable_of

# Agents show the commit to the model, so it is the same in every run: identity and time are in its hash.
_WHO = {"NAME": "conformance", "EMAIL": "conformance@example.invalid", "DATE": "2026-01-01T00:00:00Z"}
_GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_AUTHOR_{name}": value for name, value in _WHO.items()},
    **{f"GIT_COMMITTER_{name}": value for name, value in _WHO.items()},
}
_README = "# A small project\n\nSomething for an agent to work on.\n"


def make_workspace(path: Path) -> Path:
    """A git repository with one commit, the same one everywhere."""
    path.mkdir(parents=True)
    (path / "README.md").write_text(_README, encoding="utf-8")
    _git(path, "init", "--quiet", "--initial-branch", "main")
    _git(path, "add", "--all")
    _git(path, "commit", "--quiet", "--message", "Start")
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
    executable = await asyncio.to_thread(executable_of, agent)
    for folder in (task.home, task.folder / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    launch = agent.launch(task, executable)
    environment = common_environment(task) | dict(launch.environment) | dict(task.environment)
    began = time.monotonic()
    status = await _run_all((launch.command, *launch.then), environment, task)
    seconds = time.monotonic() - began
    changes = workspace_changes(task.workspace)
    return AgentResult(status, agent.final_text(task), task.stdout, task.stderr, changes, seconds)


async def _run_all(commands: Iterable[tuple[str, ...]], environment: dict[str, str], task: Task) -> int | None:
    """Run one command after the other, as long as all goes well."""
    status: int | None = 0
    with task.stdout.open("wb") as stdout, task.stderr.open("wb") as stderr:
        try:
            async with asyncio.timeout(task.timeout):
                for command in commands:
                    status = await _run((*task.wrapper, *command), environment, task.workspace, stdout, stderr)
                    if status != 0:
                        break
        except TimeoutError:
            return None
    return status


async def _run(
    command: tuple[str, ...], environment: dict[str, str], workspace: Path, stdout: BinaryIO, stderr: BinaryIO
) -> int:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )
    try:
        return await process.wait()
    finally:
        # The whole group, also after a good end or when we are cancelled: no helper of the agent's may outlive it.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _git(path: Path, *arguments: str) -> str:
    command = ["git", "-C", str(path), *arguments]
    environment = os.environ | _GIT_ENVIRONMENT
    done = subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return done.stdout
