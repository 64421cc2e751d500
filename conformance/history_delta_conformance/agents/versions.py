# SPDX-License-Identifier: Apache-2.0
"""Which executable of an agent is run, and at which version: the pinned one that we install, or one that someone names.

A version other than the tested one is told of as a problem; whether it is run all the same is the caller's to say.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .base import Agent
from .installing import InstallError

_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
_VERSION_WITHIN = 60.0
_chosen: dict[str, Path] = {}


@dataclass(frozen=True)
class Prepared:
    """An agent ready to be run, or not: ``problem`` is a clear line where there is one, and without an executable the
    agent cannot be run at all. ``version`` is empty where it could not be found out."""

    executable: Path | None
    version: str
    problem: str = ""


def use_executable(name: str, path: Path | str | None) -> None:
    """Run this executable as the agent of that name from now on, whatever the environment says; None: as before."""
    if path is None:
        _chosen.pop(name, None)
    else:
        _chosen[name] = Path(path).absolute()


def variable_of(name: str) -> str:
    """The environment variable that names an executable: ``HISTORY_DELTA_AGENT_OPENCODE``."""
    return "HISTORY_DELTA_AGENT_" + name.upper().replace("-", "_")


def executable_of(agent: Agent, install_timeout: float = 600.0) -> Path:
    """The chosen executable, else the installed one. Raises InstallError."""
    chosen = _chosen_executable(agent.name)
    if chosen is None:
        return agent.install(install_timeout)
    if not os.access(chosen, os.X_OK) or not chosen.is_file():
        raise InstallError(f"{agent.name}: {chosen} is no executable file; set {variable_of(agent.name)} to one")
    return chosen


def prepare(agent: Agent, install_timeout: float = 600.0) -> Prepared:
    """Have the agent there, and find out its version where it is not the one that we installed."""
    try:
        executable = executable_of(agent, install_timeout)
    except InstallError as error:
        return Prepared(None, "", f"not installable: {error}")
    if _chosen_executable(agent.name) is None:
        return Prepared(executable, agent.version)
    version = installed_version(agent.version_command(executable))
    if version is None:
        return Prepared(executable, "", f"{executable} does not say its version; tested is {agent.version}")
    untested = f"version {version} is untested; tested is {agent.version}"
    return Prepared(executable, version, untested if version != agent.version else "")


def installed_version(command: Sequence[str]) -> str | None:
    """The first version number in what a command such as ``codex --version`` prints."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_VERSION_WITHIN)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Pi prints it on standard error.
    found = _VERSION.search((done.stdout or done.stderr).decode(errors="replace"))
    return found.group() if found and done.returncode == 0 else None


def _chosen_executable(name: str) -> Path | None:
    if name in _chosen:
        return _chosen[name]
    named = os.environ.get(variable_of(name))
    return Path(named).absolute() if named else None
