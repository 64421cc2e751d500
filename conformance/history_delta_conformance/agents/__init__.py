# SPDX-License-Identifier: Apache-2.0
"""Drivers of coding agents, one file each: real ones, and a built-in one that needs nothing but Python."""

from .base import Agent, AgentResult, Launch, Task
from .builtin import BuiltIn
from .codex import Codex
from .hermes import Hermes
from .hermes_library import HermesLibrary
from .installing import InstallError
from .kilo import Kilo
from .opencode import OpenCode
from .pi import Pi
from .running import make_workspace, run_agent, workspace_changes, wrong_files
from .versions import Prepared, installed_version, prepare, use_executable

_ALL = (BuiltIn(), OpenCode(), Codex(), Pi(), Hermes(), HermesLibrary(), Kilo())
AGENTS: dict[str, Agent] = {agent.name: agent for agent in _ALL}

__all__ = [
    "AGENTS",
    "Agent",
    "AgentResult",
    "InstallError",
    "Launch",
    "Prepared",
    "Task",
    "installed_version",
    "make_workspace",
    "prepare",
    "run_agent",
    "use_executable",
    "workspace_changes",
    "wrong_files",
]
