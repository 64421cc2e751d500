# SPDX-License-Identifier: Apache-2.0
"""Installs agents on demand, once, at pinned versions, into a folder that version control ignores.

The npm agents come from the ``NAME.package.json`` and ``NAME.package-lock.json`` beside this file. To change a version:
edit the former and have the lock rewritten by ``npm install --package-lock-only --ignore-scripts
--omit-lockfile-registry-resolved`` in a folder that holds the two under their usual names.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_HERE = Path(__file__).parent
_PROJECT = Path(__file__).parents[3]
_STAMP = ".installed"


class InstallError(RuntimeError):
    """An agent could not be installed; the message says what failed."""


def agents_folder() -> Path:
    """``HISTORY_DELTA_AGENTS_DIR``, else ``.agents`` in the project's root, else the user's cache."""
    if chosen := os.environ.get("HISTORY_DELTA_AGENTS_DIR"):
        return Path(chosen).absolute()
    if (_PROJECT / "pyproject.toml").is_file():
        return _PROJECT / ".agents"
    return Path.home() / ".cache" / "history-delta" / "agents"


def is_installed(name: str, version: str) -> bool:
    return (agents_folder() / f"{name}-{version}" / _STAMP).is_file()


def installed(name: str, version: str, install: Callable[[Path], Path]) -> Path:
    """The executable of an agent; ``install`` is called with an empty folder if it is not there yet."""
    folder = agents_folder() / f"{name}-{version}"
    stamp = folder / _STAMP
    with _lock(folder):
        if not stamp.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            stamp.write_text(str(install(folder).relative_to(folder)), encoding="utf-8")
        return folder / stamp.read_text(encoding="utf-8")


def npm_install(name: str, folder: Path, timeout: float) -> None:
    """Install what the agent's package.json and lock say. No install script is run: the binaries are in packages.

    Not ``npm ci``: it insists on a lock that lists the binaries of all platforms, and a registry need not have them.
    """
    if shutil.which("npm") is None:
        raise InstallError(f"{name}: npm is not installed")
    for kind in ("package.json", "package-lock.json"):
        shutil.copyfile(_HERE / f"{name}.{kind}", folder / kind)
    _run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], folder, timeout)


def pip_install(requirement: str, folder: Path, timeout: float) -> None:
    """Install into a virtual environment of its own."""
    _run([sys.executable, "-m", "venv", str(folder)], folder, timeout)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, requirement], folder, timeout)


def _run(command: list[str], folder: Path, timeout: float) -> None:
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"{' '.join(command)}: not done after {timeout:.0f} s") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise InstallError(f"{' '.join(command)}: {' / '.join(said[-3:])}")


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One at a time per agent, over processes: tests run in parallel."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(folder.name + ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
