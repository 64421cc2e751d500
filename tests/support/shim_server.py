# SPDX-License-Identifier: Apache-2.0
"""A shim as a process of its own, as in a sandbox: any interpreter, isolated, without site-packages."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import history_delta_protocol
import history_delta_shim

from .endpoints import PATIENCE, Endpoint, connect

_ROOTS = [str(Path(package.__file__).parents[1]) for package in (history_delta_shim, history_delta_protocol)]
_PATH = f"import sys; sys.path[:0] = {_ROOTS!r}; "
_MAIN = "from history_delta_shim.cli import main; sys.exit(main())"


def shim_command(python: str = sys.executable, before: str = "") -> list[str]:
    """The shim's command line on that interpreter; a command such as ``serve`` follows.

    ``before`` is Python that is run first, to make the shim meet what a test cannot make happen from outside.
    """
    return [python, "-I", "-S", "-c", _PATH + before + _MAIN]


def environment(**settings: str) -> dict[str, str]:
    """The environment without anything that a shim reads, and with these settings."""
    read = ("HISTORY_DELTA_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")
    return {name: value for name, value in os.environ.items() if not name.upper().startswith(read)} | settings


class ShimServer:
    """A running ``serve``; its log is read line by line, each as a dict."""

    def __init__(
        self,
        python: str,
        folder: Path,
        *options: str,
        env: dict[str, str] | None = None,
        before: str = "",
        **popen: Any,
    ) -> None:
        self._log = (folder / "shim.log").open("x+")
        self.process = subprocess.Popen(
            [*shim_command(python, before), "serve", "--log-file", self._log.name, *options],
            env=environment(**(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **popen,
        )
        first_line = self.process.stdout.readline()
        assert first_line, self.process.communicate()[1]
        self.ready = json.loads(first_line)
        self.port = int(self.ready["url"].rpartition(":")[2])
        self._agents: list[Endpoint] = []

    def agent(self) -> Endpoint:
        self._agents.append(connect(self.port))
        return self._agents[-1]

    def resident_bytes(self) -> int:
        """The process's memory just now."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def next_logged(self, event: str = "call") -> dict[str, Any]:
        """The next line of that event, waiting for it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            line = self._log.readline()
            if not line:
                time.sleep(0.002)
            elif (record := json.loads(line))["event"] == event:
                return record
        raise AssertionError(f"no {event} was logged")

    def stop(self) -> int:
        for agent in self._agents:
            agent.close()
        self.process.terminate()
        try:
            self.process.communicate(timeout=PATIENCE)
        finally:
            self.process.kill()
            self._log.close()
        return self.process.returncode
