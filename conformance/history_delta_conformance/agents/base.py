# SPDX-License-Identifier: Apache-2.0
"""What a driver of an agent is, what it is asked to do and what it gives back.

A driver knows how to install its agent at a pinned version, configure it for an endpoint and read what it left behind:
final text, token figures, session record. It judges nothing and knows nothing of shim or server: ``wrapper`` is a
command prefix, ``origin`` is just an address.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .records import text_of

CHAT, RESPONSES, MESSAGES = "chat", "responses", "messages"
MODEL = "mock-model"

# What an agent may be able to do beside its everyday work; a scenario names what it needs.
SUB_AGENTS, COMPACTION, PRUNING, FOLLOW_UP, TITLE = "sub-agents", "compaction", "pruning", "follow-up", "title"


@dataclass(frozen=True)
class Task:
    """One run of an agent.

    ``folder`` is the run's own: the private home, configuration, output; it is left as it is for whoever looks into a
    failure. ``follow_ups`` are further prompts for the same session, for an agent that takes several. ``window`` is
    the context window, in tokens, that the agent is told. ``wanted`` are the abilities that the task is about: what
    can be switched on and off in an agent (sub-agents) is on only where it is wanted. ``timeout`` is in seconds; it is
    generous, as agents are slow to start on a machine that has other work.
    """

    origin: str
    dialect: str
    workspace: Path
    prompt: str
    folder: Path
    follow_ups: tuple[str, ...] = ()
    rollout: str | None = None
    wrapper: tuple[str, ...] = ()
    window: int = 200_000
    wanted: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 420.0

    @property
    def root_url(self) -> str:
        """The base URL up to where the API's version begins."""
        return self.origin + (f"/ng-rollout/{self.rollout}" if self.rollout else "")

    @property
    def base_url(self) -> str:
        return self.root_url + "/v1"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def stdout(self) -> Path:
        return self.folder / "stdout.txt"

    @property
    def stderr(self) -> Path:
        return self.folder / "stderr.txt"


@dataclass(frozen=True)
class Launch:
    """The command that does the task, without the wrapper, and what its environment must hold beside the common.

    ``then`` are commands to run after it, one after the other: an agent that takes one prompt per process is given the
    task's further prompts so. What they print goes where the first one's does.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    then: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class AgentResult:
    """How a run ended. ``exit_status`` is None if it was stopped at its timeout; ``changes`` is git's name-status."""

    exit_status: int | None
    final_text: str
    stdout: Path
    stderr: Path
    changes: str
    seconds: float


class Agent(ABC):
    """A driver.

    ``dialects`` are those that the agent speaks, the usual one first; ``version`` is the one that is pinned and tested;
    ``abilities`` are what it can do beside its everyday work; one that ``is_python`` and calls its model by httpx can
    have the transport in its own process.
    """

    name: str
    version: str
    dialects: tuple[str, ...]
    abilities: frozenset[str] = frozenset()
    is_python = False

    @abstractmethod
    def install(self, timeout: float = 600.0) -> Path:
        """Have the agent installed, once, and return its executable. Raises InstallError."""

    @abstractmethod
    def launch(self, task: Task, executable: Path) -> Launch:
        """Write the agent's configuration into the task's folder and say how to start it."""

    @abstractmethod
    def final_text(self, task: Task) -> str:
        """The last thing that the agent said, from its output; empty where there is none."""

    def version_command(self, executable: Path) -> tuple[str, ...]:
        """What prints the version of an executable."""
        return (str(executable), "--version")

    def session_record(self, task: Task) -> dict[str, str]:
        """The agent's own record of the session as texts by name: raw, but in an order that does not depend on chance.

        What it printed is part of it, as ``stdout``.
        """
        return {"stdout": text_of(task.stdout)}

    def usage(self, task: Task) -> dict[str, object]:
        """The token figures that the agent itself reports, as it reports them."""
        return {}


def private_xdg(task: Task) -> dict[str, str]:
    """The base directory variables, all pointing into the task's home."""
    kinds = ("DATA", "CONFIG", "CACHE", "STATE")
    return {f"XDG_{kind}_HOME": str(task.home / f"xdg-{kind.lower()}") for kind in kinds}


def common_environment(task: Task) -> dict[str, str]:
    """What every agent gets: no secrets and no settings of whoever runs us."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(task.home),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "TMPDIR": str(task.folder / "tmp"),
        "NO_PROXY": "127.0.0.1,localhost",
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
