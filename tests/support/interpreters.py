# SPDX-License-Identifier: Apache-2.0
"""The Python interpreters on this machine: the shim must run on every one from 3.6 on."""

import functools
import re
import shutil
import subprocess
from pathlib import Path

_ASK = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"


@functools.cache
def interpreters() -> dict[str, str]:
    """Path of one interpreter per version, such as ``{"2.7": …, "3.6": …}``: pyenv's, and those on PATH."""
    candidates = sorted(Path.home().glob(".pyenv/versions/*/bin/python"))
    names = ["python3", "python2.7", *(f"python3.{minor}" for minor in range(6, 20))]
    found: dict[str, str] = {}
    for path in [*map(str, candidates), *filter(None, map(shutil.which, names))]:
        try:
            asked = subprocess.run([path, "-E", "-c", _ASK], capture_output=True)
        except OSError:
            continue
        if asked.returncode == 0 and re.fullmatch(r"\d+\.\d+", version := asked.stdout.decode()):
            found.setdefault(version, path)
    return found


def supported() -> dict[str, str]:
    """Those that the shim must run on, oldest first."""
    versions = sorted((tuple(map(int, version.split("."))), version) for version in interpreters())
    return {name: interpreters()[name] for version, name in versions if version >= (3, 6)}
