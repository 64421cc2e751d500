# SPDX-License-Identifier: Apache-2.0
"""Real agents through shim and server against the scripted model: every body arrives to the byte, for what is new.

Installs the agents on demand, at pinned versions; minutes, not seconds.
"""

import asyncio
import json
from dataclasses import replace

import pytest
from history_delta_conformance.agents import AGENTS, run_agent, wrong_files
from history_delta_conformance.agents.opencode import configuration
from history_delta_conformance.budget import allowed
from history_delta_conformance.calls import is_model_call
from history_delta_conformance.chain import Chain
from history_delta_conformance.processes import SHIM_RUN_COMMAND
from history_delta_conformance.run import run, task_on
from history_delta_conformance.scripted_model import load_scenario
from history_delta_protocol.wire import FRAME_MEDIA_TYPE

pytestmark = [pytest.mark.agents, pytest.mark.timeout(900)]

# As a library Hermes is the same agent, and run takes it for any other Python program.
REAL = [name for name in AGENTS if name not in ("builtin", "hermes-library")]
IN_EVERY_DIALECT = [(name, dialect) for name in REAL for dialect in AGENTS[name].dialects]
GZIP_SHARE = 0.45
# What Codex shuffles on every call, and what an ordinary call appends, in bytes.
CODEX_METADATA, ORDINARY_CALL = 1400, 2200


def check(result):
    """Done, equal to the byte, and within what may cross the wire."""
    assert result.finished, (result.agent, result.wrong_files, result.agent.stderr.read_text()[-2000:])
    assert result.bodies_equal, (result.sent - result.received, result.received - result.sent)
    assert all(call.equal for call in result.calls)
    assert result.sent_plain_bytes <= allowed(result.budget, len(result.calls))
    assert result.sent_bytes <= GZIP_SHARE * result.budget
    # Nothing that the agent was sent was taken for anything else: no error, no resync.
    assert {call.status for call in result.calls} == {200}
    assert [call.reason for call in result.calls if call.kind == "full"] == []


@pytest.mark.parametrize("name", REAL)
async def test_tool_use(name, tmp_path):
    """In the usual dialect: the conformance smoke run has the others."""
    scenario = load_scenario("tool-use")
    result = await run(AGENTS[name], scenario, tmp_path, rollout="r-1")
    check(result)
    assert len(result.calls) >= len(scenario.turns)
    # A first call of each conversation, title calls among them, and in some dialects one whose only message changed.
    assert sum(call.kind != "delta" for call in result.calls) <= 3


async def test_tool_use_without_a_rollout_prefix(tmp_path):
    check(await run(AGENTS["codex"], load_scenario("tool-use"), tmp_path))


async def test_codex_pays_for_its_shuffled_metadata_and_not_for_its_envelope(tmp_path):
    result = await run(AGENTS["codex"], load_scenario("tool-use"), tmp_path, rollout="r-1")
    ordinary = [call for call in result.calls[1:] if call.number != 5]  # the fifth has the long output
    assert max(call.sent_plain_bytes for call in ordinary) <= CODEX_METADATA + ORDINARY_CALL


async def test_opencode_in_the_anthropic_dialect_pays_for_messages_and_not_for_the_history(tmp_path):
    result = await run(AGENTS["opencode"], load_scenario("tool-use"), tmp_path, dialect="messages", rollout="r-1")
    after_the_long_output = result.calls[6:]
    assert len(after_the_long_output) >= 6
    # The long output is in the history; the message that holds it is rewritten once, by a moved mark.
    assert max(call.sent_plain_bytes for call in after_the_long_output) <= ORDINARY_CALL


@pytest.mark.parametrize("dialect", AGENTS["opencode"].dialects)
async def test_two_sub_agents_in_parallel(dialect, tmp_path):
    scenario = load_scenario("sub-agents")
    both = Rendezvous(2, scenario.conversations[0].match.encode(), scenario.turns[0].text.encode())
    result = await run(AGENTS["opencode"], scenario, tmp_path, dialect=dialect, rollout="r-1", pace=both)
    check(result)
    helpers = [exchange for exchange in result.agent_side if exchange.header("x-parent-session-id")]
    assert len({exchange.header("x-session-id") for exchange in helpers}) == 2
    distinct = len({exchange.sha256 for exchange in helpers})
    # In the responses dialect a session's id stands in the body; in the others the two send the same bytes.
    assert distinct == (len(helpers) if dialect == "responses" else len(helpers) // 2)


class Rendezvous:
    """Holds the streams of the first requests of a kind until that many are in flight at once."""

    def __init__(self, count, holding, without):
        self.count, self.holding, self.without = count, holding, without
        self.arrived = set()
        self.all_here = asyncio.Event()

    async def __call__(self, recording):
        if self.holding not in recording.body or self.without in recording.body:
            return
        self.arrived.add(recording.number)
        if len(self.arrived) >= self.count:
            self.all_here.set()
        await asyncio.wait_for(self.all_here.wait(), 60)


@pytest.mark.parametrize(("name", "dialect"), IN_EVERY_DIALECT)
async def test_compaction(name, dialect, tmp_path):
    scenario = load_scenario("compaction-between-prompts" if name == "pi" else "compaction")
    result = await run(AGENTS[name], scenario, tmp_path, dialect=dialect, rollout="r-1")
    check(result)
    compacted = [record for record in result.model_side if scenario.summary.encode() in record.body]
    assert compacted
    first = min(record.number for record in compacted)
    longest_before = max(len(record.body) for record in result.model_side if record.number < first)
    assert len(compacted[0].body) < longest_before


@pytest.mark.parametrize("name", REAL)
async def test_the_shim_round_an_agent(name, tmp_path):
    agent, scenario = AGENTS[name], load_scenario("tool-use")
    async with Chain(scenario, tmp_path / "chain") as chain:
        task = wrapped(chain, name, task_on(chain, agent.dialects[0], "r-1"))
        result = await run_agent(agent, task)
        assert result.exit_status == 0, result.stderr.read_text()[-2000:]
        assert scenario.final_text in result.final_text
        assert wrong_files(task.workspace, scenario) == []
        sent = model_calls_in_frames(chain, result)
        assert len(sent) >= len(scenario.turns)
        for recording in chain.model.recorder.recordings:
            if recording.method == "POST":
                json.loads(recording.body)


def wrapped(chain, name, task):
    """The same task with a shim of its own round the agent, in place of the chain's."""
    options = ["--upstream", chain.wire.url, "--agent", name]
    wrapper = (*SHIM_RUN_COMMAND, *options, "--")
    return replace(task, origin=chain.wire.url, wrapper=wrapper, environment={"HISTORY_DELTA_ENABLED": "1"})


def model_calls_in_frames(chain, result):
    """What crossed the wire: frames and nothing but frames, since the agent really went through the shim."""
    assert "running it directly" not in result.stderr.read_text()
    sent = [exchange for exchange in chain.wire.exchanges if is_model_call(exchange)]
    assert {exchange.content_type for exchange in sent} == {FRAME_MEDIA_TYPE}
    return sent


HOSTILE_PROMPT = (
    'Keep {env:X} and {file:missing.txt} as they are: "quotes", back\\slashes \\n, 🎈 and https://example.invalid'
)


async def test_a_hostile_prompt_in_opencodes_variable_reaches_it_unchanged(tmp_path):
    """OpenCode replaces {env:…} in the text of its configuration, but not where the brace is written as an escape."""
    agent = AGENTS["opencode"]
    async with Chain(load_scenario("hello"), tmp_path / "chain") as chain:
        task = wrapped(chain, "opencode", task_on(chain, "chat", "r-1"))
        config = configuration(task) | {"agent": {"build": {"prompt": "PROMPT"}}}
        escaped = json.dumps(HOSTILE_PROMPT, ensure_ascii=False).replace("{", "\\u007b")
        text = json.dumps(config).replace('"PROMPT"', escaped)
        environment = dict(task.environment) | {"OPENCODE_CONFIG_CONTENT": text, "X": "must not appear"}
        result = await run_agent(agent, replace(task, environment=environment))
        assert result.exit_status == 0, result.stderr.read_text()[-2000:]
        model_calls_in_frames(chain, result)
        bodies = [json.loads(recording.body) for recording in chain.model.recorder.recordings]
        [system] = [body["messages"][0]["content"] for body in bodies if body.get("tools")]
        assert HOSTILE_PROMPT in system
