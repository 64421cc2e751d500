# SPDX-License-Identifier: Apache-2.0
"""Real agents and a model that fails them: through shim and server they must do what they do at the model itself.

Each is run twice with the same faults, once each way: the same calls, in the same order, of as many messages, must
reach the model, and the same must come of it. Installs the agents on demand; a few minutes.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import pytest
from history_delta_conformance.agents import AGENTS, Task, make_workspace, run_agent
from history_delta_conformance.scripted_model.scenario import Scenario, Shell, Turn
from support.ends import ShimProcess
from support.faulty_model import (
    Fault,
    FaultyModel,
    Played,
    conflicts,
    cuts,
    fails,
    is_busy,
    is_busy_for_good,
    refuses,
    resets,
)
from support.model_server import ModelServer
from support.running_agent import wait_until

pytestmark = [pytest.mark.agents, pytest.mark.timeout(600)]

STEPS = ("one", "two", "three", "four")
SCENARIO = Scenario(
    name="trouble",
    prompt="Append the words one, two, three and four to trace.txt, one at a time.",
    turns=(
        *(Turn(text=f"Now {word}.", calls=(Shell(command=f"echo {word} >> trace.txt"),)) for word in STEPS),
        Turn(text="All four words are there."),
    ),
)
# By the number of the call: each of them is followed by calls that succeed.
FAULTS = {1: fails, 3: is_busy, 5: cuts, 7: resets}


@dataclass
class Outcome:
    """What came of a run."""

    played: list[Played]
    exit_status: int | None
    final_text: str
    trace: str


async def run(name: str, model: ModelServer, faulty: FaultyModel, origin: str, folder) -> Outcome:
    workspace = make_workspace(folder / "workspace")
    dialect = AGENTS[name].dialects[0]
    task = Task(origin, dialect, workspace, SCENARIO.prompt, folder / "agent", rollout="r1", timeout=240)
    result = await run_agent(AGENTS[name], task)
    trace = workspace / "trace.txt"
    said = trace.read_text() if trace.is_file() else ""
    return Outcome(faulty.played, result.exit_status, result.final_text, said)


def model_calls(shim: ShimProcess) -> list[dict[str, Any]]:
    return [call for call in shim.logged() if call["delivery"]]


async def both_ways(name: str, faults: Mapping[int, Fault], start, folder) -> Outcome:
    """The outcome, having made sure that it is the same directly and through both ends."""
    directly = FaultyModel(SCENARIO, faults)
    model = start.model(directly)
    expected = await run(name, model, directly, model.origin, folder / "directly")
    through = FaultyModel(SCENARIO, faults)
    model = start.model(through)
    shim = start.shim(start.server(model).origin, "--log-body-hash")
    outcome = await run(name, model, through, shim.origin, folder / "through")
    assert outcome == expected
    # One call at the model for one of the agent's, to the byte, and as what is new of it.
    logged = wait_until(lambda: calls if len(calls := model_calls(shim)) == len(model.calls) else None, "all is logged")
    assert Counter(call["sha256"] for call in logged) == Counter(sha256(body).hexdigest() for body in model.bodies)
    assert not any(call["resynced"] for call in logged)
    assert {call["kind"] for call in logged} <= {"self-contained", "delta"}
    return outcome


@pytest.mark.parametrize("name", ["codex", "opencode", "pi", "hermes"])
async def test_an_agent_gets_over_what_a_model_does_to_it_as_it_would_without_us(name, start, tmp_path):
    outcome = await both_ways(name, FAULTS, start, tmp_path)
    faults = [played.fault for played in outcome.played]
    assert [faults.count(fault.__name__) for fault in FAULTS.values()] == [1] * len(FAULTS)
    assert SCENARIO.final_text in outcome.final_text


GIVES_UP = [("codex", refuses), ("codex", is_busy_for_good), ("pi", refuses)]
GIVES_UP += [("pi", conflicts), ("hermes", refuses), ("hermes", conflicts)]


@pytest.mark.parametrize(("name", "fault"), GIVES_UP, ids=lambda value: getattr(value, "__name__", value))
async def test_an_agent_gives_up_when_it_would_without_us(name, fault, start, tmp_path):
    outcome = await both_ways(name, dict.fromkeys(range(2, 100), fault), start, tmp_path)
    assert outcome.played[1].fault == fault.__name__
    assert outcome.trace == "one\n"
