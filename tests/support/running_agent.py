# SPDX-License-Identifier: Apache-2.0
"""A started ``run`` with the scripted agent in it, as a test talks to it."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

AGENT = (sys.executable, str(Path(__file__).with_name("scripted_agent.py")))
PATIENCE = 30.0


class RunningAgent:
    """``command`` must end up in the scripted agent; use as a context manager."""

    def __init__(self, command: Sequence[str], environ: dict[str, str], folder: Path, **options: Any) -> None:
        self.errors_file = folder / f"stderr-{time.monotonic_ns()}.txt"
        with self.errors_file.open("wb") as errors:
            self.process = subprocess.Popen(
                command,
                env=environ,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                **options,
            )
        self.started: dict[str, Any] = {}

    def __enter__(self) -> "RunningAgent":
        self.started = self.reported()
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    @property
    def agent_pid(self) -> int:
        return self.started["started"]

    def tell(self, line: str) -> None:
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def reported(self) -> dict[str, Any]:
        line = self.process.stdout.readline()
        assert line, f"the agent ended early: {self.errors()}"
        return json.loads(line)

    def ask(self, line: str) -> dict[str, Any]:
        self.tell(line)
        return self.reported()

    def environment(self, name: str) -> bytes:
        return base64.b64decode(self.ask(f"env {name}")["value"])

    def read(self, path: object) -> bytes:
        return base64.b64decode(self.ask(f"read {path}")["value"])

    def exit(self, code: int = 0) -> int:
        self.tell(f"exit {code}")
        return self.process.wait(PATIENCE)

    def errors(self) -> str:
        return self.errors_file.read_text()

    def shims(self) -> list[int]:
        """The processes that serve for this run, from the system's process table."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parent = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
                command = entry.joinpath("cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if parent == self.process.pid and b"--listen-fd" in command:
                found.append(int(entry.name))
        return found


def wait_until(condition: Callable[[], object], what: str) -> Any:
    """Poll until the condition is true, and return what it gave; fail after PATIENCE seconds."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)
    return value


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def base_environment(folder: Path) -> dict[str, str]:
    """A user's environment with a home of its own and the protocol on."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": str(home), "HISTORY_DELTA_ENABLED": "1", "LANG": "C.UTF-8"}
