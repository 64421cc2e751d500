# SPDX-License-Identifier: Apache-2.0
import shutil
import subprocess
import sys

import pytest
from support.interpreters import interpreters
from support.shim_archive import SHIM, build_shim

UPSTREAM = "http://127.0.0.1:9"
# What a shell is asked to show of the command that it ends up running.
SHOW = ["sh", "-c", 'printf "%s|" "$OPENAI_BASE_URL" "$PYTHONPATH" "$@"', "sh", "a b", "--", "*", ""]
SHELLS = [shell for shell in ("sh", "dash", "bash", "busybox") if shutil.which(shell)]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """What is shipped: the archive and the launcher side by side, under a name with a blank."""
    folder = tmp_path_factory.mktemp("dis t")
    build_shim(folder)
    shutil.copy(SHIM / "history-delta-shim.sh", folder)
    return folder


@pytest.fixture(params=SHELLS)
def launch(request, dist, tmp_path):
    shell = [request.param, "sh"] if request.param == "busybox" else [request.param]

    def launch(*words, **environ):
        return subprocess.run(
            [*shell, str(dist / "history-delta-shim.sh"), *words],
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(tmp_path), "OPENAI_BASE_URL": UPSTREAM} | environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )

    return launch


def run(launch, **environ):
    return launch("run", "--upstream", UPSTREAM, "--", *SHOW, **environ)


@pytest.mark.parametrize("folder", ["", "."])
def test_it_runs_the_archive_apart_from_the_agent_s_python_path(launch, tmp_path, folder):
    (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
    done = run(launch, HISTORY_DELTA_PYTHON=sys.executable, HISTORY_DELTA_ENABLED="1", PYTHONPATH=folder)
    url, *rest = done.stdout.split("|")
    assert url != UPSTREAM
    assert url.startswith("http://127.0.0.1:")
    assert rest == [folder, "a b", "--", "*", "", ""]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("python", ["no-such-python", "false", interpreters().get("2.7", "false")])
def test_without_a_python_that_can_it_runs_the_agent(launch, python):
    done = run(launch, HISTORY_DELTA_PYTHON=python, HISTORY_DELTA_ENABLED="1")
    assert done.stdout.split("|") == [UPSTREAM, "", "a b", "--", "*", "", ""]
    assert done.stderr == "history-delta: there is no Python from 3.6 on; running the agent directly\n"
    assert done.returncode == 0


def test_it_becomes_the_agent(launch):
    done = launch("run", "--", "sh", "-c", "kill -9 $$", HISTORY_DELTA_PYTHON="false")
    assert done.returncode == -9


@pytest.mark.parametrize(
    "words", [[], ["serve", "--upstream", UPSTREAM], ["run", "--upstream", UPSTREAM], ["run", "--"]]
)
def test_without_a_python_and_without_an_agent_it_says_so(launch, words):
    done = launch(*words, HISTORY_DELTA_PYTHON="false")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "history-delta: there is no Python from 3.6 on\n"


def test_without_the_archive_it_runs_the_agent(launch, dist):
    archive = dist / "history_delta_shim.pyz"
    archive.rename(dist / "elsewhere")
    try:
        done = run(launch, HISTORY_DELTA_PYTHON=sys.executable)
    finally:
        (dist / "elsewhere").rename(archive)
    assert done.stdout.startswith(UPSTREAM)
    assert "history_delta_shim.pyz is not there; running the agent directly" in done.stderr


def test_it_finds_a_python_on_the_path(launch):
    assert launch("--version").returncode == 0 or shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin") is None
