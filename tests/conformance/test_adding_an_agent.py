# SPDX-License-Identifier: Apache-2.0
"""The example in docs/adding-an-agent.md, as it stands there, run through the whole chain."""

import importlib.util
import re
import sys
from pathlib import Path
from typing import get_args

import pytest
from history_delta_conformance.agents import Task, base, make_workspace, prepare, run_agent, use_executable
from history_delta_conformance.chain import Mode
from history_delta_conformance.run import run
from history_delta_conformance.scripted_model import load_scenario
from history_delta_conformance.scripted_model.scenario import Need

DOCUMENT = (Path(__file__).parents[2] / "docs" / "adding-an-agent.md").read_text()
EXAMPLES = dict(re.findall(r"<!-- example: (.+?) -->\n```python\n(.*?)```", DOCUMENT, re.DOTALL))


@pytest.fixture
def tiny(tmp_path):
    """The driver, with the agent of the document as its executable."""
    executable = tmp_path / "tiny-agent"
    executable.write_text(EXAMPLES["tiny-agent"].replace("/usr/bin/env python3", sys.executable))
    executable.chmod(0o755)
    driver = tmp_path / "tiny.py"
    driver.write_text(EXAMPLES["tiny.py"])
    spec = importlib.util.spec_from_file_location("history_delta_conformance.agents.tiny", driver)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    use_executable("tiny", executable)
    yield module.Tiny()
    use_executable("tiny", None)


def test_its_version_is_the_tested_one(tiny):
    prepared = prepare(tiny)
    assert (prepared.version, prepared.problem) == ("1.0.0", "")


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.PROXY])
async def test_it_does_a_task(mode, tiny, tmp_path):
    scenario = load_scenario("tool-use")
    result = await run(tiny, scenario, tmp_path / "run", mode=mode)
    assert result.finished, result.agent.stderr.read_text()
    assert result.bodies_equal
    assert len(result.calls) == len(scenario.turns)
    task = task_in(tmp_path / "run")
    assert tiny.usage(task)["last"]["completion_tokens"] > 0
    record = tiny.session_record(task)
    assert scenario.final_text in record["stdout"]
    assert record["session-1"].count('"tool_call_id"') == sum(len(turn.calls) for turn in scenario.turns)


async def test_it_says_nothing_of_a_run_that_failed_and_does_not_fail_itself(tiny, tmp_path):
    task = Task("http://127.0.0.1:1", "chat", make_workspace(tmp_path / "workspace"), "go", tmp_path / "run" / "agent")
    result = await run_agent(tiny, task)
    assert result.exit_status == 1
    assert result.final_text == ""
    assert tiny.usage(task) == {}
    assert tiny.session_record(task) == {"stdout": "", "session-1": ""}


def test_the_document_names_every_member_and_ability():
    members = {name for name in [*vars(base.Agent), *base.Agent.__annotations__] if not name.startswith("_")}
    abilities = {name for name in vars(base) if getattr(base, name) in get_args(Need)}
    assert len(abilities) == len(get_args(Need))
    assert {name for name in members | abilities if f"`{name}`" not in DOCUMENT} == set()


def task_in(folder):
    return Task("", "chat", folder / "workspace", "", folder / "agent")
