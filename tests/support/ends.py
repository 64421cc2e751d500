# SPDX-License-Identifier: Apache-2.0
"""Both ends as the processes that they are in use: ``history-delta serve``, and the shim's one file.

Started, waited for by their ready files, stopped or killed, and looked at from outside: log lines, metrics, /proc.
"""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from history_delta_conformance.processes import SERVER_COMMAND

from .endpoints import PATIENCE, Endpoint, connect
from .running_agent import wait_until
from .shim_server import environment

ON = {"HISTORY_DELTA_ENABLED": "1"}
OFF = {"HISTORY_DELTA_ENABLED": "0"}
LOCAL = "127.0.0.1:0"


class Running:
    """A process that writes a ready file; use as a context manager. ``ready`` is what stands in that file."""

    def __init__(self, command: Sequence[str], log: Path, ready_file: Path, env: dict[str, str]) -> None:
        self._read = 0  # bytes of the log
        self._log = log
        ready_file.unlink(missing_ok=True)
        with log.open("ab") as errors:
            self._read = log.stat().st_size
            self.process = subprocess.Popen(
                [*command, "--ready-file", str(ready_file)],
                env=environment(**env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        wait_until(lambda: ready_file.exists() or self.process.poll() is not None, "ready")
        assert self.process.poll() is None, log.read_text()[-2000:]
        self.ready: dict[str, Any] = json.loads(ready_file.read_text())
        self.origin: str = self.ready["url"]
        self.port = int(self.origin.rpartition(":")[2])
        self._agents: list[Endpoint] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def agent(self) -> Endpoint:
        """A new connection to it."""
        self._agents.append(connect(self.port))
        return self._agents[-1]

    def logged(self) -> list[dict[str, Any]]:
        """The ``call`` lines since this process was started."""
        return self.events("call")

    def events(self, *names: str) -> list[dict[str, Any]]:
        """The lines of these events since this process was started, as far as they are whole."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            whole = file.read().rpartition(b"\n")[0].splitlines()
        return [event for event in map(json.loads, whole) if event.get("event") in names]

    def logged_on(self, path: str, count: int) -> list[dict[str, Any]]:
        """Those on a path, once there are so many, the smaller bodies first.

        A line is written when a call is over, which no agent awaits: the next call's may stand before it.
        """

        def all_of_them() -> list[dict[str, Any]] | None:
            calls = [call for call in self.logged() if call["path"] == path]
            return calls if len(calls) >= count else None

        calls: list[dict[str, Any]] = wait_until(all_of_them, f"{count} calls on {path} are logged")
        assert len(calls) == count
        return sorted(calls, key=lambda call: call["body_bytes"])

    def stop(self) -> int:
        """Have it end in good order."""
        self.process.terminate()
        return self._ended()

    def kill(self) -> None:
        self.process.kill()
        self._ended()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def _ended(self) -> int:
        for agent in self._agents:
            agent.close()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()

    # What the system knows of it.

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def sockets(self) -> int:
        """Open sockets, those that it listens on included."""
        folder = Path(f"/proc/{self.process.pid}/fd")
        return sum(_link(entry).startswith("socket:") for entry in folder.iterdir())

    def threads(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def resident_bytes(self, peak: bool = False) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [kilobytes] = re.findall(r"^%s:\s+(\d+) kB$" % ("VmHWM" if peak else "VmRSS"), status, re.MULTILINE)
        return int(kilobytes) * 1024

    def forget_peak(self) -> None:
        """From now on the peak is that of what follows."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


class ServerProcess(Running):
    """``history-delta serve`` for that model; ``settings`` are its flags, such as ``max_body_bytes=4096``."""

    def __init__(
        self, folder: Path, model: str, *, port: int = 0, env: dict[str, str] | None = None, **settings: object
    ) -> None:
        flags = [word for name, value in settings.items() for word in ("--" + name.replace("_", "-"), str(value))]
        command = [*SERVER_COMMAND, "--upstream", model, "--listen", f"127.0.0.1:{port}", "--admin-listen", LOCAL]
        super().__init__([*command, *flags], folder / "server.log", folder / "server.ready", env or ON)

    def metric(self, name: str) -> float:
        """The value of ``history_delta_NAME``, labels included where it has some."""
        with urllib.request.urlopen(self.ready["admin_url"] + "/metrics", timeout=PATIENCE) as response:
            lines = response.read().decode().splitlines()
        [value] = [line.rpartition(" ")[2] for line in lines if line.startswith(f"history_delta_{name} ")]
        return float(value)


class ShimProcess(Running):
    """The shim's one file, isolated, on any interpreter; ``options`` are those of ``serve``."""

    def __init__(
        self,
        archive: Path,
        folder: Path,
        upstream: str,
        *options: str,
        python: str = sys.executable,
        env: dict[str, str] | None = None,
        name: str = "shim",
    ) -> None:
        command = [python, "-I", "-S", str(archive), "serve", "--upstream", upstream, "--listen", LOCAL, *options]
        super().__init__(command, folder / f"{name}.log", folder / f"{name}.ready", env or ON)


def _link(entry: Path) -> str:
    try:
        return os.readlink(entry)
    except OSError:
        return ""  # closed in the meantime
