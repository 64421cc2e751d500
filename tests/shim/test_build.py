# SPDX-License-Identifier: Apache-2.0
"""The shim as one file, on every interpreter that there is."""

import hashlib
import json
import os
import subprocess
import sys
import urllib.request
import zipfile

import pytest
from support.interpreters import interpreters, supported
from support.needs import needs
from support.recording_upstream import recording_upstream
from support.running_agent import AGENT, PATIENCE, RunningAgent, base_environment, wait_until
from support.shim_archive import SHIM

SMALLEST_NUMBER = 3  # interpreters from 3.6 on, below which a green run would say little
MAX_BYTES = 110_000


@pytest.fixture(params=supported().values(), ids=supported().keys())
def isolated(request):
    """An interpreter without site-packages: a third-party import would fail."""
    return [request.param, "-I", "-S"]


def test_there_are_interpreters_enough():
    needs(len(supported()) >= SMALLEST_NUMBER, "three Pythons from 3.6 on")


def test_it_is_small_and_holds_sources_alone(archive):
    assert archive.stat().st_size < MAX_BYTES
    assert os.access(archive, os.X_OK)
    assert archive.read_bytes().startswith(b"#!/usr/bin/env python3\n")
    names = zipfile.ZipFile(archive).namelist()
    assert names[0] == "__main__.py"
    assert {name.rpartition("/")[0] for name in names} == {
        "",
        "history_delta_protocol",
        "history_delta_shim",
        "history_delta_shim/injected",
    }
    assert all(name.endswith(".py") for name in names)


def test_it_is_the_same_whoever_builds_it(isolated, archive, tmp_path):
    """At another time, with another umask and locale, and on another Python."""
    target = tmp_path / "again.pyz"
    subprocess.run(
        [*isolated, str(SHIM / "build.py"), "--output", str(target)],
        env={"TZ": "Asia/Tokyo", "LC_ALL": "C"},
        preexec_fn=lambda: os.umask(0o077),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert hashlib.sha256(target.read_bytes()).digest() == hashlib.sha256(archive.read_bytes()).digest()
    assert target.stat().st_mode == archive.stat().st_mode


def test_help_needs_nothing_but_the_standard_library(isolated, archive):
    done = subprocess.run([*isolated, str(archive), "--help"], capture_output=True, text=True, env={"LC_ALL": "C"})
    assert (done.returncode, done.stderr) == (0, "")
    for command in ("serve", "run"):
        assert command in done.stdout
        told = subprocess.run([*isolated, str(archive), command, "--help"], capture_output=True, env={"LC_ALL": "C"})
        assert (told.returncode, told.stderr) == (0, b"")


def test_serve_starts_and_answers(isolated, archive, tmp_path):
    ready = tmp_path / "ready.json"
    with recording_upstream() as upstream:
        options = ["--upstream", upstream.origin, "--ready-file", str(ready)]
        shim = subprocess.Popen(
            [*isolated, str(archive), "serve", *options],
            env={"HISTORY_DELTA_ENABLED": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(ready.exists, "the shim is ready")
            url = json.loads(ready.read_text())["url"] + "/v1/chat/completions"
            body = b'{"messages": [{"role": "user", "content": "hi"}]}'
            with urllib.request.urlopen(urllib.request.Request(url, body, method="POST"), timeout=PATIENCE) as response:
                assert response.status == 200
                assert response.read().endswith(b"data: [DONE]\n\n")
        finally:
            shim.terminate()
        assert shim.wait(PATIENCE) == 0
        assert [request.body for request in upstream.posts()] == [body]


def test_run_works(isolated, archive, tmp_path):
    with recording_upstream() as upstream:
        environ = base_environment(tmp_path) | {"OPENAI_BASE_URL": upstream.origin + "/v1"}
        words = ["run", "--upstream", upstream.origin, "--", *AGENT, "--", "--agent"]
        with RunningAgent([*isolated, str(archive), *words], environ, tmp_path) as agent:
            assert agent.ask("call")["status"] == 200
            assert agent.started["arguments"] == ["--", "--agent"]
            assert agent.exit(9) == 9
        assert "History-Delta-Delivery" in upstream.posts()[0].headers
        assert agent.errors() == ""


def test_an_old_python_is_told_what_is_needed(archive):
    needs("2.7" in interpreters(), "Python 2.7")
    done = subprocess.run([interpreters()["2.7"], str(archive), "serve"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("history-delta: Python 3.6 or newer is needed")
    assert done.stderr.count("\n") == 1


def test_the_entry_parses_on_any_python():
    """Also where there is no Python 2.7 to try: nothing that it does not know."""
    source = (SHIM / "history_delta_shim" / "__main__.py").read_text()
    for unknown in ("f'", 'f"', "print ", "->", ": str", "async", ":="):
        assert unknown not in source


def test_the_script_says_what_it_built(tmp_path):
    done = subprocess.run(
        [sys.executable, str(SHIM / "build.py"), "--output", str(tmp_path / "a" / "b.pyz")],
        capture_output=True,
        text=True,
        check=True,
    )
    digest = hashlib.sha256((tmp_path / "a" / "b.pyz").read_bytes()).hexdigest()
    assert done.stdout.startswith(digest)
