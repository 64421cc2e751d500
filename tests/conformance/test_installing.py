# SPDX-License-Identifier: Apache-2.0
"""Installing an agent: once, also when several ask at the same time, and again after a failure."""

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from history_delta_conformance import agents
from history_delta_conformance.agents import AGENTS, InstallError
from history_delta_conformance.agents.installing import agents_folder, installed, is_installed, npm_install

LOCKS = sorted(Path(agents.__file__).parent.glob("*.package-lock.json"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HISTORY_DELTA_AGENTS_DIR", str(tmp_path / "agents"))
    return tmp_path / "agents"


def test_installs_once_for_all_who_ask(folder):
    calls = []

    def install(into):
        calls.append(into)
        (into / "bin").mkdir()
        return into / "bin" / "agent"

    with ThreadPoolExecutor(8) as pool:
        executables = set(pool.map(lambda _: installed("x", "1", install), range(8)))
    assert executables == {folder / "x-1" / "bin" / "agent"}
    assert calls == [folder / "x-1"]
    assert is_installed("x", "1")
    assert not is_installed("x", "2")


def test_other_processes_wait(folder):
    code = (
        "import sys; from history_delta_conformance.agents.installing import installed\n"
        "def install(into):\n"
        "    with open(sys.argv[1], 'a') as log: log.write('x')\n"
        "    return into / 'agent'\n"
        "installed('x', '1', install)"
    )
    log = folder.parent / "log"
    processes = [subprocess.Popen([sys.executable, "-c", code, str(log)]) for _ in range(4)]
    assert [process.wait(30) for process in processes] == [0] * 4
    assert log.read_text() == "x"


def test_a_failure_leaves_nothing_that_looks_installed(folder):
    def fail(into):
        (into / "half").touch()
        raise InstallError("no network")

    with pytest.raises(InstallError):
        installed("x", "1", fail)
    assert not is_installed("x", "1")

    def install(into):
        assert list(into.iterdir()) == []
        return into / "agent"

    assert installed("x", "1", install) == folder / "x-1" / "agent"


def test_no_npm_is_said_plainly(folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InstallError, match="npm is not installed"):
        npm_install("opencode", folder, 10)


def test_what_npm_says_is_passed_on(folder, monkeypatch, tmp_path):
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text("#!/bin/sh\nls >&2\necho E404 not found >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")
    folder.mkdir()
    with pytest.raises(InstallError, match=r"package-lock.json / package.json / E404 not found"):
        npm_install("opencode", folder, 10)


def test_the_default_folder_is_in_the_project_and_ignored(monkeypatch):
    monkeypatch.delenv("HISTORY_DELTA_AGENTS_DIR")
    assert agents_folder().name == ".agents"
    assert (agents_folder().parent / "pyproject.toml").is_file()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_locks_pin_the_drivers_version_with_integrity_and_without_a_registry(lock):
    name = lock.name.removesuffix(".package-lock.json")
    packages = json.loads(lock.read_text())["packages"]
    [(package, version)] = packages[""]["dependencies"].items()
    assert version == packages[f"node_modules/{package}"]["version"] == AGENTS[name].version
    for path, entry in packages.items():
        assert not re.search(r"https?:", str(entry.get("resolved", "")))
        assert path == "" or "integrity" in entry
    manifest = json.loads(lock.with_name(f"{name}.package.json").read_text())
    assert manifest["dependencies"] == {package: version}


def test_there_is_a_lock_for_each_npm_agent():
    assert [path.name.split(".")[0] for path in LOCKS] == ["codex", "kilo", "opencode", "pi"]
