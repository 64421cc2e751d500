# SPDX-License-Identifier: Apache-2.0
"""The matrix with the built-in agent: real shim, real server, runs off and on, and what stays of them."""

import asyncio
import io
import shlex
from pathlib import Path

import pytest
from history_delta_conformance.agents import AGENTS
from history_delta_conformance.agents.builtin import BuiltIn
from history_delta_conformance.agents.versions import Prepared
from history_delta_conformance.chain import Mode
from history_delta_conformance.matrix.plan import SCENARIOS, places, rows
from history_delta_conformance.matrix.runner import Runner
from history_delta_conformance.processes import SERVER_COMMAND
from history_delta_conformance.report.table import view_for
from history_delta_conformance.scripted_model import load_scenario

DISTURBED = [name for name in SCENARIOS if load_scenario(name).disturbances]
FAILING = [name for name in SCENARIOS if load_scenario(name).faults]
OUR_SERVER = shlex.join(SERVER_COMMAND)
BUILTIN = {"builtin": Prepared(Path("builtin"), "2")}


class Untidy(BuiltIn):
    """An agent that is not deterministic: what it records differs from run to run."""

    runs = 0

    def session_record(self, task):
        Untidy.runs += 1
        return super().session_record(task) | {"mood": f"number {Untidy.runs}"}


class Forgetful(BuiltIn):
    """An agent whose record of a run with the transport on is another one."""

    def session_record(self, task):
        return super().session_record(task) | {"seen": str(task.folder.parent.joinpath("shim.log").is_file())}


@pytest.fixture
def play(tmp_path):
    """Run scenarios with an agent of the built-in kind: the cells by name."""

    async def play(*scenarios, agent=AGENTS["builtin"], prepared=BUILTIN, **options):
        planned = [
            place for place in places(rows([agent], (Mode.PROXY,)), scenarios) if place.row.dialect == agent.dialects[0]
        ]
        runner = Runner(prepared, tmp_path, view_for(io.StringIO()), jobs=2, **options)
        return {cell.scenario: cell for cell in await runner.run(planned)}

    return play


@pytest.mark.parametrize("scenario", DISTURBED)
async def test_whatever_befalls_the_transport_the_agent_does_the_same(scenario, play):
    cell = (await play(scenario))[scenario]
    assert (cell.verdict, cell.reason) == ("passed", "")
    assert cell.requests == cell.equal > 0
    kinds = [call.kind for call in cell.calls]
    assert kinds[1] == "delta"
    expected = {
        "server-loses-state": ["delta", "full"],
        "switched-off": ["delta", "full"],
        "shim-restarts": ["delta", "self-contained"],
        "dropped-before": ["delta", "delta"],
    }
    assert kinds[1:3] == expected.get(scenario, ["delta", "delta"])


@pytest.mark.parametrize("scenario", FAILING)
async def test_whatever_the_model_does_the_agent_does_the_same(scenario, play):
    cell = (await play(scenario))[scenario]
    assert (cell.verdict, cell.reason) == ("passed", "")
    assert cell.requests == cell.equal > 0


async def test_a_run_with_the_transport_off_serves_all_that_are_the_same_without_it(play, tmp_path):
    cells = await play("server-loses-state", "switched-off", "repeated-delivery", "shim-restarts", keep=True)
    assert [cell.verdict for cell in cells.values()] == ["passed"] * 4
    assert sorted(path.read_text().strip() for path in tmp_path.glob("runs/*/about.txt")) == [
        "repeated-delivery, builtin chat, proxy",
        "server-loses-state, builtin chat, proxy",
        "shim-restarts, builtin chat, proxy",
        "short-task, builtin chat, off",
        "switched-off, builtin chat, proxy",
    ]


async def test_nothing_is_kept_of_what_passed(play, tmp_path):
    cells = await play("short-task")
    assert cells["short-task"].folder is None
    assert list(tmp_path.iterdir()) == []


async def test_an_agent_that_differs_between_two_runs_without_the_transport_is_shown_as_that(play, tmp_path):
    cell = (await play("tool-use", agent=Untidy()))["tool-use"]
    assert cell.verdict == "failed"
    assert [finding.aspect for finding in cell.findings] == ["session-record"]
    assert [finding.aspect for finding in cell.unstable] == ["session-record"]


async def test_a_difference_by_the_transport_is_one_that_the_agent_does_not_have_by_itself(play, tmp_path):
    cell = (await play("short-task", agent=Forgetful()))["short-task"]
    assert cell.verdict == "failed"
    assert cell.reason == "record-changed: seen is not the same"
    assert cell.unstable == ()
    kept = [tmp_path / name for name in cell.folder.split(", ")]
    assert len(kept) == 3
    assert all((folder / "agent" / "stdout.txt").is_file() for folder in kept)
    assert sorted(kept) == sorted((tmp_path / "runs").iterdir())


async def test_an_agent_that_cannot_be_had_is_not_run_and_says_why(play):
    prepared = {"builtin": Prepared(None, "", "not installable: npm is not installed")}
    cell = (await play("short-task", prepared=prepared))["short-task"]
    assert (cell.verdict, cell.reason) == ("not-run", "not installable: npm is not installed")


async def test_an_error_of_ours_fails_the_cell_and_not_the_others(play):
    cells = await play("short-task", "hello", server_command="false {listen} {model}")
    assert {cell.verdict for cell in cells.values()} == {"failed"}
    assert all("server did not start" in cell.reason for cell in cells.values())


async def test_another_server_can_be_put_to_the_test(play):
    command = f"{OUR_SERVER} --upstream {{model}} --listen {{listen}} --admin-listen 127.0.0.1:0"
    cells = await play("server-loses-state", server_command=command)
    assert cells["server-loses-state"].verdict == "passed"


async def test_a_server_that_does_not_speak_is_found_out(play):
    command = f"env HISTORY_DELTA_ENABLED=0 {OUR_SERVER} --upstream {{model}} --listen {{listen}}"
    cell = (await play("short-task", server_command=command + " --admin-listen 127.0.0.1:0"))["short-task"]
    assert [finding.name for finding in cell.findings] == ["transport-not-used", "too-many-bytes"]


async def test_what_was_interrupted_is_not_run(play, tmp_path):
    playing = asyncio.create_task(play("model-stall"))
    async with asyncio.timeout(20):
        while not list(tmp_path.glob("runs/*/server.ready")):  # noqa: ASYNC110 - a file is the sign
            await asyncio.sleep(0)
    playing.cancel()
    cells = await playing
    assert [(cell.verdict, cell.reason) for cell in cells.values()] == [("not-run", "interrupted")]
