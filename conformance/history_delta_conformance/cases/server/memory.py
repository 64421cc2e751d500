# SPDX-License-Identifier: Apache-2.0
"""How much memory the server under test takes, where the harness has started it and the system tells."""

import contextlib
import re
from pathlib import Path

from .target import Server

_PROC = Path("/proc")


class PeakMemory:
    """The growth of the server's resident memory, all its processes together, since this was made."""

    def __init__(self, server: Server) -> None:
        self._folders = _of_session(server.pid) if server.pid is not None else []
        for folder in self._folders:
            with contextlib.suppress(OSError):
                (folder / "clear_refs").write_text("5")
        self._before = self._read("VmRSS")

    def growth(self) -> int | None:
        """In bytes, at its highest; None where it cannot be seen."""
        return self._read("VmHWM") - self._before if self._folders else None

    def _read(self, field: str) -> int:
        total = 0
        for folder in self._folders:
            with contextlib.suppress(OSError):
                found = re.search(rf"^{field}:\s+(\d+) kB$", (folder / "status").read_text(), re.MULTILINE)
                total += int(found[1]) * 1024 if found else 0
        return total


def _of_session(leader: int) -> list[Path]:
    """The processes that a command has started, itself included."""
    folders = []
    for stat in _PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            # After the name in parentheses: state, parent, group, session.
            if int(stat.read_text().rpartition(")")[2].split()[3]) == leader:
                folders.append(stat.parent)
    return folders
