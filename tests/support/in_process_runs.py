# SPDX-License-Identifier: Apache-2.0
"""Programs in Python that are run with the transport in process or without, and what they see of themselves."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from .running_agent import PATIENCE

UPSTREAM = "http://127.0.0.1:9"
# What a program sees of itself and of what it inherits.
SEEN = (
    "import json, os, sys\n"
    "def seen():\n"
    "    mine = {name: os.environ[name] for name in os.environ if not name.startswith('LC_')}\n"
    "    return [mine, sys.path, str(sys.modules.get('sitecustomize')), sys.flags.no_site]\n"
)
IN_A_CHILD = (
    "import subprocess\n"
    "json.dump([seen(), json.loads(subprocess.check_output([sys.executable, '-c', %r]))], sys.stdout)\n"
    % (SEEN + "json.dump(seen(), sys.stdout)")
)

Done = subprocess.CompletedProcess[str]


class InProcessRuns:
    """Call it with the text of a program, to be run by ``run --in-process``, off or on."""

    def __init__(self, shim: Sequence[str], folder: Path) -> None:
        self._shim, self._folder = shim, folder

    def __call__(
        self,
        program: str,
        *options: str,
        python: str = sys.executable,
        enabled: str = "1",
        flags: Sequence[str] = (),
        command: "Sequence[str] | None" = None,
        **environ: str,
    ) -> Done:
        words = [*self._shim, "run", "--in-process", "--upstream", UPSTREAM, *options, "--"]
        words += command or [python, *flags, "-c", program]
        environ = {"PATH": os.environ["PATH"], "HISTORY_DELTA_ENABLED": enabled, **environ}
        return subprocess.run(words, env=environ, cwd=self._folder, capture_output=True, text=True, timeout=PATIENCE)


def off_and_on(run: Callable[..., Done], program: str, **more: str) -> "tuple[str, str]":
    """What the program prints without the transport and with it."""
    off, on = (run(program, enabled=enabled, HISTORY_DELTA_X="", **more) for enabled in ("no", "yes"))
    assert (on.returncode, on.stderr) == (off.returncode, off.stderr) == (0, "")
    # The one variable that the two were given differently.
    return off.stdout, on.stdout.replace('"yes"', '"no"')
