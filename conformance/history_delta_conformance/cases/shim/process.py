# SPDX-License-Identifier: Apache-2.0
"""The shim under test as a process: what its command line must have, and how it is started from that.

How a process is waited for and stopped is not said here (processes.py).
"""

from pathlib import Path

from ...processes import LISTEN, CommandProcess, fill_in

UPSTREAM = "{upstream}"
ROLLOUT_PLACE = "{rollout}"
ROLLOUT = "conformance-1"
_STOP_WITHIN = 2.0  # its case is over: whatever it still waits for is of no use to anybody
EXAMPLE = f"history-delta shim serve --listen {LISTEN} --upstream {UPSTREAM}"


class Command:
    """A shim's command line with placeholders for its addresses and, where it has that, its rollout.

    Raises processes.BadCommand.
    """

    def __init__(self, text: str) -> None:
        fill_in(text, {UPSTREAM: "", LISTEN: ""})
        self.text = text
        self.names_rollout = ROLLOUT_PLACE in text

    def shim(self, upstream: str, folder: Path) -> CommandProcess:
        """A shim before that server; what it prints stays in the folder."""
        values = {UPSTREAM: upstream} | ({ROLLOUT_PLACE: ROLLOUT} if self.names_rollout else {})
        shim = CommandProcess("shim", self.text, values, folder, {"HISTORY_DELTA_ENABLED": "1"})
        shim.stop_within = _STOP_WITHIN
        return shim
