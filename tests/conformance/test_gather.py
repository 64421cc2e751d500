# SPDX-License-Identifier: Apache-2.0
"""What is taken down of a run: every file, every change, every call by the name that the model gives it."""

import hashlib
import os

from history_delta_conformance.agents import AGENTS, make_workspace
from history_delta_conformance.chain import Mode
from history_delta_conformance.comparison.gather import file_hashes, gather
from history_delta_conformance.run import run
from history_delta_conformance.scripted_model import load_scenario


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def test_everything_but_gits_own_is_taken_down_with_its_permissions_and_a_link_by_where_it_points(tmp_path):
    workspace = make_workspace(tmp_path / "workspace")
    (workspace / "deep" / "er").mkdir(parents=True, mode=0o755)
    (workspace / "deep" / "er" / ".hidden").write_bytes(b"\xff\r\n")
    (workspace / "deep" / "er" / ".hidden").chmod(0o750)
    (workspace / ".gitignore").write_text("ignored")
    (workspace / "ignored").write_text("")
    (workspace / "link").symlink_to("nowhere")
    (workspace / "folder").symlink_to("deep")
    os.mkfifo(workspace / "pipe")
    hashes = dict(file_hashes(workspace))
    assert hashes["deep/er/.hidden"] == f"-rwxr-x--- {sha256(bytes([0xFF, 13, 10]))}"
    assert (hashes["deep/er"][:4], hashes["pipe"][:2]) == ("drwx", "pr")
    assert (hashes["link"], hashes["folder"]) == ("lrwxrwxrwx nowhere", "lrwxrwxrwx deep")
    others = {"README.md", "deep", ".gitignore", "ignored"}
    assert set(hashes) == {"deep/er", "deep/er/.hidden", "link", "folder", "pipe", *others}


def test_a_file_that_can_be_run_all_at_once_is_another(tmp_path):
    workspace = make_workspace(tmp_path / "workspace")
    before = dict(file_hashes(workspace))
    (workspace / "README.md").chmod(0o755)
    (workspace / "empty").mkdir()
    after = dict(file_hashes(workspace))
    assert before["README.md"] != after["README.md"]
    assert set(after) - set(before) == {"empty"}


async def test_a_run_is_taken_down_whole(tmp_path):
    agent = AGENTS["builtin"]
    evidence = gather(agent, await run(agent, load_scenario("short-task"), tmp_path, rollout="r-1", mode=Mode.PROXY))
    scenario = load_scenario("short-task")
    steps = [f"{scenario.marker} {step}" for step in range(1, len(scenario.turns) + 1)]
    assert [request.label for request in evidence.requests] == steps
    assert [(attempt.label, attempt.status, attempt.complete) for attempt in evidence.attempts] == [
        (step, 200, True) for step in steps
    ]
    assert all(attempt.size > 500 for attempt in evidence.attempts)
    assert evidence.exit_status == 0
    assert evidence.final_text.endswith(scenario.final_text)
    assert set(evidence.workspace) >= {"README.md", *(file.path for file in scenario.files)}
    assert all(f"+++ b/{file.path}" in evidence.git_diff for file in scenario.files)
    assert evidence.paths["<workspace>"] == str(tmp_path / "workspace")
    assert evidence.session_record
    assert {name.lower() for name, _ in evidence.requests[0].headers} >= {"host", "authorization", "content-type"}


async def test_what_failed_is_taken_down_as_that(tmp_path):
    agent, scenario = AGENTS["builtin"], load_scenario("model-cut-mid-text")
    evidence = gather(agent, await run(agent, scenario, tmp_path, rollout="r-1", mode=Mode.OFF))
    of_the_step = [attempt for attempt in evidence.attempts if attempt.label == f"{scenario.marker} 3"]
    assert [(attempt.status, attempt.complete) for attempt in of_the_step] == [(200, False), (200, True)]
    assert [attempt.size is None for attempt in of_the_step] == [True, False]
