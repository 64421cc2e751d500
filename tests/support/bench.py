# SPDX-License-Identifier: Apache-2.0
"""The shim's ``run`` for a test: the scripted agent, or any other command, in a folder and a home of its own."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .recording_upstream import RecordingUpstream
from .running_agent import AGENT, RunningAgent, base_environment


class Bench:
    """``program`` is the shim; its options are between ``run`` and the dashes."""

    def __init__(self, program: Sequence[str], folder: Path, upstream: RecordingUpstream) -> None:
        self.program, self.folder, self.upstream = program, folder, upstream
        self.environ = base_environment(folder)
        self.environ["OPENAI_BASE_URL"] = upstream.origin + "/ng-rollout/r1/v1"

    def command(self, *options: str, agent: Sequence[str] = AGENT) -> list[str]:
        return [*self.program, "run", "--upstream", self.upstream.origin, *options, "--", *agent]

    def start(self, *options: str, agent: Sequence[str] = AGENT, **popen: Any) -> RunningAgent:
        return RunningAgent(self.command(*options, agent=agent), self.environ, self.folder, **popen)

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """To its end, with just these words."""
        command = [*self.program, "run", *words]
        return subprocess.run(command, env=self.environ, cwd=self.folder, capture_output=True, text=True)

    @property
    def cache(self) -> Path:
        return Path(self.environ["HOME"], ".cache", "history-delta")
