# SPDX-License-Identifier: Apache-2.0
"""What a driver of an agent is, what it is asked to do and what it gives back.

A driver knows how to install its agent at a pinned version, configure it for an endpoint and read its final text. It
judges nothing and knows nothing of shim or server: ``wrapper`` is a command prefix, ``origin`` is just an address.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

CHAT, RESPONSES, MESSAGES = "chat", "responses", "messages"
MODEL = "mock-model"


@dataclass(frozen=True)
class Task:
    """One run of an agent.

    ``folder`` is the run's own: the private home, configuration, output; it is left as it is for whoever looks into a
    failure. ``follow_up`` is a second prompt for the same session, for an agent that takes several (Pi). ``window`` is
    the context window, in tokens, that the agent is told. ``timeout`` is in seconds.
    """

    origin: str
    dialect: str
    workspace: Path
    prompt: str
    folder: Path
    follow_up: str = ""
    rollout: str | None = None
    wrapper: tuple[str, ...] = ()
    window: int = 200_000
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 240.0

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
    """The command that does the task, without the wrapper, and what its environment must hold beside the common."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


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
    """A driver. ``dialects`` are those that the agent speaks, the usual one first."""

    name: str
    version: str
    dialects: tuple[str, ...]

    @abstractmethod
    def install(self, timeout: float = 600.0) -> Path:
        """Have the agent installed, once, and return its executable. Raises InstallError."""

    @abstractmethod
    def launch(self, task: Task, executable: Path) -> Launch:
        """Write the agent's configuration into the task's folder and say how to start it."""

    @abstractmethod
    def final_text(self, task: Task) -> str:
        """The last thing that the agent said, from its output; empty where there is none."""


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
