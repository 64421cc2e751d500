# SPDX-License-Identifier: Apache-2.0
"""The comparison can fail: every seeded fault, in a run through real processes, is caught by its name."""

import shlex
import sys

import pytest
from history_delta_conformance.agents import AGENTS
from history_delta_conformance.chain import Mode
from history_delta_conformance.comparison.compare import compare, raw
from history_delta_conformance.comparison.gather import gather
from history_delta_conformance.mutants import MUTANTS
from history_delta_conformance.mutants.mutant import BodyMutant
from history_delta_conformance.run import run
from history_delta_conformance.scripted_model import load_scenario

TWO_HELPERS = """
name = "two-helpers"
prompt = "Have one helper count the files and another read them, at the same time."
needs = ["sub-agents"]

[[turns]]
text = "I'll start both."
calls = [
    { tool = "task", description = "Count", prompt = "You are a counting helper: say how many files are here." },
    { tool = "task", description = "Read", prompt = "You are a reading helper: say what the files hold." },
]

[[turns]]
text = "Both are done."

[[conversations]]
name = "counter"
match = "You are a counting helper"

[[conversations.turns]]
text = "Listing."
calls = [{ tool = "shell", command = "ls | wc -l" }]

[[conversations.turns]]
text = "I have counted."

[[conversations]]
name = "reader"
match = "You are a reading helper"

[[conversations.turns]]
text = "Reading."
calls = [{ tool = "shell", command = "cat README.md" }]

[[conversations.turns]]
text = "I have read."
"""

# What a mutant needs beside any conversation: a scenario in which its fault can be committed, and a dialect.
USUAL = ("short-task", "chat")
NEEDS = {
    "end-cut": ("model-cut-mid-text", "chat"),
    "change-status": ("model-503", "chat"),
    "lose-final-event": ("short-task", "messages"),
    "swap-conversations": ("two-helpers", "chat"),
}
FAULTS = [name for name, mutant in MUTANTS.items() if mutant.finding]


@pytest.fixture(scope="module")
def run_without_transport(tmp_path_factory):
    """The evidence of an agent's run with the transport off; made once for whoever asks for the same."""
    known = {}

    async def evidence(agent, scenario, dialect):
        key = (agent.name, scenario.name, scenario.faults, dialect)
        if key not in known:
            folder = tmp_path_factory.mktemp("0")
            known[key] = gather(agent, await run_through("none", agent, scenario, dialect, folder, Mode.OFF))
        return known[key]

    return evidence


@pytest.fixture
def findings(run_without_transport, tmp_path_factory):
    """What the comparison says of a run through a mutant, and what the bodies say by themselves: names of findings."""

    async def findings(mutant, agent, name, dialect=None):
        agent, scenario = AGENTS[agent], scenario_of(name, tmp_path_factory)
        off = await run_without_transport(agent, scenario, dialect)
        on = await run_through(mutant, agent, scenario, dialect, tmp_path_factory.mktemp("0"), Mode.PROXY)
        return compare(off, gather(agent, on)).names, {finding.name for finding in raw(on.sent, on.received)}

    return findings


def scenario_of(name, tmp_path_factory):
    if name != "two-helpers":
        return load_scenario(name)
    file = tmp_path_factory.mktemp("scenario") / "two-helpers.toml"
    file.write_text(TWO_HELPERS)
    return load_scenario(file)


async def run_through(mutant, agent, scenario, dialect, folder, mode):
    words = [sys.executable, "-m", "history_delta_conformance.mutants", mutant]
    command = shlex.join([*words, "--upstream", "{model}", "--listen", "{listen}"])
    return await run(agent, scenario, folder, dialect=dialect, rollout="r-1", mode=mode, server_command=command)


@pytest.mark.parametrize("mutant", FAULTS)
async def test_a_seeded_fault_is_caught_by_its_name(mutant, findings):
    found, bodies = await findings(mutant, "builtin", *NEEDS.get(mutant, USUAL))
    assert MUTANTS[mutant].finding in found
    # Without any rule as well, where a body was touched or sent once more.
    touched = issubclass(MUTANTS[mutant], BodyMutant) or mutant == "repeat-delivery"
    assert bodies == ({"body-not-equal"} if touched else set())


@pytest.mark.parametrize(("name", "dialect"), sorted({USUAL, *NEEDS.values()}))
async def test_the_same_run_without_a_fault_has_no_finding(name, dialect, findings):
    assert await findings("none", "builtin", name, dialect) == (set(), set())


@pytest.mark.parametrize("dialect", ["responses", "messages"])
@pytest.mark.parametrize("mutant", ["drop-message", "rewrite-arguments"])
async def test_a_fault_in_a_body_has_the_same_name_in_the_other_dialects(mutant, dialect, findings):
    found, bodies = await findings(mutant, "builtin", "short-task", dialect)
    assert MUTANTS[mutant].finding in found
    assert bodies == {"body-not-equal"}


@pytest.mark.agents
@pytest.mark.parametrize("mutant", ["none", "drop-message", "rewrite-arguments", "lose-header", "repeat-delivery"])
@pytest.mark.parametrize("agent", ["codex", "pi"])
async def test_with_a_real_agent_as_well(agent, mutant, findings):
    found, _ = await findings(mutant, agent, "short-task")
    assert (MUTANTS[mutant].finding in found) if MUTANTS[mutant].finding else (found == set())


def test_every_mutant_says_what_it_is_caught_by():
    assert [name for name, mutant in MUTANTS.items() if not mutant.finding] == ["none"]
    assert [mutant.name for mutant in MUTANTS.values()] == list(MUTANTS)
