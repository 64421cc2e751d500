# SPDX-License-Identifier: Apache-2.0
"""The demo as a user runs it, with the built-in agent; real agents are for tests/end_to_end."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from history_delta_conformance import cli

COMMAND = [sys.executable, "-m", "history_delta_conformance.cli", "demo"]
PROGRAMS = ("server", "shim")


def demo(*options, **environment):
    return subprocess.run(
        [*COMMAND, *options], capture_output=True, text=True, timeout=100, env=dict(os.environ) | environment
    )


def test_shows_every_call_and_the_summary_and_succeeds(tmp_path):
    done = demo("--agent", "builtin", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("  equal")]
    assert len(rows) == 12
    assert "12 of 12 requests reached the model byte for byte" in done.stdout
    assert list(tmp_path.glob("history-delta-demo-*")) == []


def test_json_is_one_document_and_keep_keeps_the_evidence(tmp_path):
    keep = tmp_path / "kept"
    done = demo("--agent", "builtin", "--json", "--dialect", "messages", "--keep", str(keep))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["good"]
    assert document["kept"] == str(keep)
    assert [call["kind"] for call in document["calls"][1:]] == ["delta"] * 11
    assert document["sent_bytes"] < document["new_bytes"] < document["body_bytes"]
    assert len(list((keep / "model").glob("*.body"))) == 12


def test_an_agent_that_fails_is_a_failure_whose_traces_are_kept(tmp_path):
    scenario = tmp_path / "refused.toml"
    scenario.write_text('extends = "hello"\nfaults = [{ step = 1, kind = "status", status = 400 }]\n')
    done = demo("--agent", "builtin", "--scenario", str(scenario), TMPDIR=str(tmp_path))
    assert done.returncode == 1
    assert "did not do the task: ended with status 1" in done.stdout
    [kept] = tmp_path.glob("history-delta-demo-*")
    assert f"Kept     {kept}" in done.stdout


def test_without_npm_the_built_in_agent_does_it_and_that_is_said(tmp_path):
    done = demo("--scenario", "hello", PATH=path_without_npm(tmp_path), HISTORY_DELTA_AGENTS_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "No real agent here (opencode: npm is not installed): the built-in one does the task." in done.stdout


def path_without_npm(tmp_path):
    """The tools that a demo needs, and no npm beside them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("git", "sh"):
        found = next(Path(place) / tool for place in os.environ["PATH"].split(":") if (Path(place) / tool).exists())
        (folder / tool).symlink_to(found)
    return str(folder)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--agent", "codex", "--dialect", "chat"], "codex speaks responses"),
        (["--agent", "builtin", "--scenario", "no-such"], "no scenario 'no-such'"),
        (["--agent", "builtin", "--keep", "."], "expected a new or empty folder"),
        (["--agent", "nobody"], "invalid choice"),
    ],
)
def test_what_cannot_be_started_as_asked_is_said(options, said):
    done = demo(*options)
    assert done.returncode == 2
    assert said in done.stderr


def test_an_unknown_command_is_said():
    assert cli.main(["dance"]) == 2


def test_a_demo_that_is_stopped_stops_all_that_it_started(tmp_path, is_gone):
    keep, pipe = tmp_path / "kept", tmp_path / "pipe"
    os.mkfifo(pipe)
    scenario = tmp_path / "endless.toml"
    call = f'calls=[{{tool="shell",command="echo $PPID > {pipe}; sleep 600"}}]'
    scenario.write_text(f'name="endless"\nprompt="p"\n[[turns]]\ntext="t"\n{call}\n[[turns]]\ntext="end"\n')
    options = ["--agent", "builtin", "--scenario", str(scenario), "--keep", str(keep)]
    process = subprocess.Popen([*COMMAND, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    started = [int(pipe.read_text()), *(json.loads((keep / f"{name}.ready").read_text())["pid"] for name in PROGRAMS)]
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "interrupted" in said
    assert [is_gone(pid) for pid in started] == [True] * 3
