# SPDX-License-Identifier: Apache-2.0
"""One run of an agent through the whole chain, and the figures by which it is judged.

The figures rest on what the relays and the model recorded. Judging them is the caller's business.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .agents import Agent, AgentResult, Task, make_workspace, run_agent, wrong_files
from .budget import allowed, budgets
from .calls import (
    Call,
    Fingerprint,
    calls_with_shim,
    calls_without_shim,
    is_model_call,
    is_recorded_call,
    read_events,
    received_by_model,
    sent_by_agent,
)
from .chain import Chain, Mode
from .observer import Exchange
from .scripted_model import Pace, Recording, Scenario, no_pause

# How long the last lines of the logs may take to appear once the agent is done: 10 s.
_LOOKS = 200
_LOOK_EVERY = 0.05


@dataclass(frozen=True)
class RunResult:
    """What a run left behind. ``agent_side`` is what the agent sent, ``wire`` what reached the server, ``model_side``
    what arrived at the model; ``pending`` what was to befall the transport and did not, ``struck`` the requests
    before the server that it befell, ``repeats`` how the second of two was answered."""

    scenario: Scenario
    mode: Mode
    task: Task
    agent: AgentResult
    agent_side: list[Exchange]
    wire: list[Exchange]
    model_side: list[Recording]
    calls: list[Call]
    wrong_files: list[str]
    relay_failures: list[str]
    pending: list[str]
    struck: list[Exchange]
    repeats: list[str]

    @property
    def sent(self) -> Counter[Fingerprint]:
        return sent_by_agent(self._seen_by_both)

    @property
    def received(self) -> Counter[Fingerprint]:
        if self.mode == Mode.IN_PROCESS:
            return received_by_model(recording for recording in self.model_side if is_recorded_call(recording))
        return received_by_model(self.model_side)

    @property
    def _seen_by_both(self) -> list[Exchange]:
        # In process only the agent's HTTP client for its model calls is watched: probes may take another.
        return list(filter(is_model_call, self.agent_side)) if self.mode == Mode.IN_PROCESS else self.agent_side

    @property
    def bodies_equal(self) -> bool:
        """Every request of the agent reached the model, to the byte, as often as it was sent, and nothing else did."""
        return self.sent == self.received and not self.relay_failures

    @property
    def finished(self) -> bool:
        """The agent came to the scenario's end and left the workspace as it should be."""
        return (
            self.agent.exit_status == 0 and self.scenario.final_text in self.agent.final_text and not self.wrong_files
        )

    @property
    def body_bytes(self) -> int:
        return sum(call.body_bytes for call in self.calls)

    @property
    def sent_bytes(self) -> int:
        return sum(call.sent_bytes for call in self.calls)

    @property
    def sent_plain_bytes(self) -> int:
        """What would have been sent without compression."""
        return sum(call.sent_plain_bytes for call in self.calls)

    @property
    def budget(self) -> int:
        """First bodies and appended and rewritten bytes."""
        return sum(budgets([exchange for exchange in self.agent_side if is_model_call(exchange)]))

    @property
    def within_budget(self) -> bool:
        return self.sent_plain_bytes <= allowed(self.budget, len(self.calls))


async def run(
    agent: Agent,
    scenario: Scenario,
    folder: Path,
    *,
    dialect: str | None = None,
    rollout: str | None = None,
    mode: Mode = Mode.PROXY,
    pace: Pace = no_pause,
    server_command: str | None = None,
) -> RunResult:
    """Have the agent do the scenario's task in a new folder, which keeps everything that was written."""
    async with Chain(scenario, folder, mode, pace, server_command) as chain:
        return await run_task(agent, task_on(chain, dialect or agent.dialects[0], rollout), chain)


def task_on(chain: Chain, dialect: str, rollout: str | None = None) -> Task:
    """The scenario's task in a new workspace, with the agent pointed at the chain's beginning."""
    return Task(
        origin=chain.origin,
        dialect=dialect,
        workspace=make_workspace(chain.folder / "workspace"),
        prompt=chain.scenario.prompt,
        follow_ups=chain.scenario.follow_ups,
        folder=chain.folder / "agent",
        rollout=rollout,
        wrapper=chain.wrapper,
        environment=chain.environment,
        window=chain.scenario.window,
        wanted=frozenset(chain.scenario.needs),
    )


async def run_task(agent: Agent, task: Task, chain: Chain) -> RunResult:
    """Run the agent on a chain that stands, and collect what there is to know."""
    result = await run_agent(agent, task)
    await _logs_written(chain)
    return RunResult(
        scenario=chain.scenario,
        mode=chain.mode,
        task=task,
        agent=result,
        agent_side=list(chain.agent_side),
        wire=list(chain.wire.exchanges),
        model_side=list(chain.model.recorder.recordings),
        calls=calls_so_far(chain),
        wrong_files=wrong_files(task.workspace, chain.scenario),
        relay_failures=chain.failures,
        pending=list(chain.pending),
        struck=list(chain.wire.struck),
        repeats=list(chain.wire.repeats),
    )


def calls_so_far(chain: Chain) -> list[Call]:
    """The rows of all calls that are over by now."""
    recordings = chain.model.recorder.recordings
    if chain.mode == Mode.OFF:
        return calls_without_shim(chain.wire.exchanges, recordings)
    served = read_events(chain.server_log)
    return calls_with_shim(chain.agent_side, chain.wire.exchanges, recordings, read_events(chain.shim_log), served)


async def _logs_written(chain: Chain) -> None:
    """Wait for the lines of the last calls: they are written when a call is over, which the agent need not await."""
    wanted = sum(map(is_model_call, chain.agent_side))
    for _ in range(_LOOKS):
        if _is_written(chain, wanted):
            return
        await asyncio.sleep(_LOOK_EVERY)


def _is_written(chain: Chain, wanted: int) -> bool:
    if chain.mode == Mode.OFF:
        return True  # the relay has seen what the agent has
    calls = [event for event in read_events(chain.shim_log) if event.get("delivery")]
    answered = {call["delivery"] for call in calls if call.get("outcome") == "complete"}
    served = {event.get("delivery") for event in read_events(chain.server_log)}
    return len(calls) >= wanted and answered <= served
