# SPDX-License-Identifier: Apache-2.0
"""Which cells there are: every agent in each of its modes with every scenario, and why one does not apply.

An agent plays the whole list in its usual dialect, and the 12-turn task in its others. A Python agent plays it twice:
with the shim beside it, and with the transport in its own process.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..agents import AGENTS, Agent
from ..chain import Mode
from ..scripted_model import Scenario, load_scenario

# In the order of the report: what it is for, then what can befall it, then what the model can do to it.
SCENARIOS = (
    "tool-use",
    "long",
    "title-call",
    "sub-agents",
    "compaction",
    "compaction-between-prompts",
    "pruning",
    "server-loses-state",
    "shim-restarts",
    "switched-off",
    "repeated-delivery",
    "dropped-before",
    "dropped-during",
    "dropped-after",
    "model-400",
    "model-409",
    "model-429-retry-after",
    "model-429",
    "model-500",
    "model-503",
    "model-reset-before",
    "model-cut-mid-text",
    "model-cut-after-tool-call",
    "model-reset-mid-stream",
    "model-no-final-event",
    "model-short-length",
    "model-stall",
    "model-drip",
)
IN_EVERY_DIALECT = ("tool-use",)
REAL_AGENTS = tuple(name for name in AGENTS if name != "builtin")
SMOKE_AGENTS = ("opencode", "codex", "pi", "hermes")
SMOKE_SCENARIOS = ("tool-use", "server-loses-state")


@dataclass(frozen=True)
class Row:
    """An agent as it is run."""

    agent: Agent
    dialect: str
    mode: Mode

    @property
    def name(self) -> str:
        return f"{self.agent.name} {self.dialect}" + ("" if self.mode is Mode.PROXY else f" {self.mode}")


@dataclass(frozen=True)
class Place:
    """A row and a scenario, by its name or file; ``not_applicable`` says why that is nothing to run."""

    row: Row
    scenario: str
    not_applicable: str = ""

    @property
    def title(self) -> str:
        """What a report calls the scenario."""
        return Path(self.scenario).stem

    @property
    def name(self) -> str:
        return f"{self.title}/{self.row.name}"


def rows(agents: Iterable[Agent], modes: Sequence[Mode] = (Mode.PROXY, Mode.IN_PROCESS)) -> list[Row]:
    """The rows of the matrix, an agent's usual dialect first."""
    return [
        Row(agent, dialect, mode)
        for agent in agents
        for mode in modes
        if mode is Mode.PROXY or agent.is_python
        for dialect in agent.dialects
    ]


def places(rows: Iterable[Row], scenarios: Sequence[str]) -> list[Place]:
    """A place for each row and scenario. Raises ScenarioError."""
    loaded = {name: load_scenario(name) for name in scenarios}
    return [Place(row, name, _why_not(row, name, scenario)) for row in rows for name, scenario in loaded.items()]


def _why_not(row: Row, name: str, scenario: Scenario) -> str:
    lacking = sorted(set(scenario.needs) - row.agent.abilities)
    if lacking:
        return f"{row.agent.name} does not do {', '.join(lacking)}"
    if row.dialect != row.agent.dialects[0] and name not in IN_EVERY_DIALECT:
        return f"run in {row.agent.name}'s usual dialect, {row.agent.dialects[0]}"
    if row.mode is Mode.IN_PROCESS and any(
        disturbance.kind == "shim-restarts" for disturbance in scenario.disturbances
    ):
        return "in process there is no shim to restart"
    return ""
