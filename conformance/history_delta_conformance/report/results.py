# SPDX-License-Identifier: Apache-2.0
"""The results of a conformance run as data: what ``report.json`` holds and every other form is made from.

A cell is one agent, dialect, mode and scenario: a run with the transport off compared with one with it on.
"""

from typing import Literal

import msgspec

SCHEMA = 1

Verdict = Literal["passed", "failed", "not-run", "not-applicable"]


class Finding(msgspec.Struct, frozen=True):
    """One difference between two runs, or one fault of the run with the transport on.

    ``name`` is the kind of the fault (``message-missing``, ``body-not-equal``), ``aspect`` what was compared
    (``requests``, ``workspace``), ``diff`` a unified diff, off to on, where there is something to show.
    """

    aspect: str
    name: str
    summary: str
    diff: str = ""


class CallBytes(msgspec.Struct, frozen=True):
    """Request-body bytes of one model call: as the agent sent it, and as it crossed the wire with the transport on."""

    label: str
    kind: str
    body_bytes: int
    sent_bytes: int


class RuleCount(msgspec.Struct, frozen=True):
    """How many places a normalisation rule changed in either run."""

    off: int = 0
    on: int = 0


class Cell(msgspec.Struct, frozen=True):
    """One place of the matrix.

    ``reason`` says in one line why a cell was not run, does not apply or failed. ``requests`` is the number of requests
    of the run with the transport on, ``equal`` how many of those reached the model with the same SHA-256, without any
    normalisation. ``off_calls`` and ``calls`` are the model calls of the two runs. ``unstable`` are the differences
    between two runs with the transport off, where a second one was made; None where it was not. ``folder`` is where
    the artefacts were kept, relative to the report.
    """

    agent: str
    version: str
    dialect: str
    mode: str
    scenario: str
    verdict: Verdict
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    requests: int = 0
    equal: int = 0
    off_calls: tuple[CallBytes, ...] = ()
    calls: tuple[CallBytes, ...] = ()
    rules: dict[str, RuleCount] = {}
    unstable: tuple[Finding, ...] | None = None
    off_seconds: float = 0.0
    on_seconds: float = 0.0
    folder: str | None = None

    @property
    def name(self) -> str:
        return f"{self.scenario}/{self.row}"

    @property
    def row(self) -> str:
        """The agent, dialect and mode, as a table's row is headed."""
        return f"{self.agent} {self.dialect}" + ("" if self.mode == "proxy" else f" {self.mode}")


class AgentUsed(msgspec.Struct, frozen=True):
    """An agent as it was run; ``problem`` says why it was not, or that its version is an untested one."""

    name: str
    version: str
    tested_version: str
    problem: str = ""


class ScenarioUsed(msgspec.Struct, frozen=True):
    name: str
    description: str


class RuleUsed(msgspec.Struct, frozen=True):
    """A normalisation rule; ``agents`` is empty for all."""

    name: str
    reason: str
    agents: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True):
    """A whole run. ``started`` is ISO 8601 in UTC, ``versions`` what else took part (product, Python, platform)."""

    started: str
    seconds: float
    command: str
    versions: dict[str, str]
    agents: tuple[AgentUsed, ...]
    scenarios: tuple[ScenarioUsed, ...]
    rules: tuple[RuleUsed, ...]
    cells: tuple[Cell, ...]
    schema: int = SCHEMA

    def count(self, verdict: Verdict) -> int:
        return sum(cell.verdict == verdict for cell in self.cells)

    @property
    def good(self) -> bool:
        """Nothing failed and nothing that applies was left out; an empty run is not good."""
        return bool(self.count("passed")) and not self.count("failed") and not self.count("not-run")
