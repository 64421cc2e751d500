# SPDX-License-Identifier: Apache-2.0
"""How the demo shows itself: a live table in a terminal, plain lines elsewhere, or one JSON document."""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from .agents import Agent
from .calls import Call
from .chain import Chain
from .run import RunResult
from .scripted_model import Scenario

_COLUMNS = ("call", "kind", "body B", "sent B", "ratio", "shim ms", "server ms", "SHA-256")
_LINE = "{:>4}  {:<14} {:>9} {:>9} {:>7} {:>8} {:>9}  {}"


def view_for(as_json: bool) -> "View":
    if as_json:
        return JsonView()
    console = Console(highlight=False)
    return TableView(console) if console.is_terminal else PlainView()


class View(ABC):
    """What the demo tells as it goes. ``calls`` gets all rows so far, again and again."""

    @abstractmethod
    def note(self, text: str) -> None: ...

    @abstractmethod
    def calls(self, calls: Sequence[Call]) -> None: ...

    @abstractmethod
    def summary(self, result: RunResult, folder: Path | None) -> None: ...

    def begin(self, agent: Agent, dialect: str, scenario: Scenario, chain: Chain) -> None:
        self.note(f"{agent.name} → shim ({chain.shim.url}) → server ({chain.server.url}) → model ({chain.model.url})")
        self.note(f"Scenario {scenario.name} in the {dialect} dialect; everything is on this machine.")

    def end(self) -> None:  # noqa: B027 - most views have nothing to close
        pass


class PlainView(View):
    def __init__(self) -> None:
        self._shown = 0

    def note(self, text: str) -> None:
        print(text, flush=True)

    def begin(self, agent: Agent, dialect: str, scenario: Scenario, chain: Chain) -> None:
        super().begin(agent, dialect, scenario, chain)
        print(_LINE.format(*_COLUMNS), flush=True)

    def calls(self, calls: Sequence[Call]) -> None:
        for call in calls[self._shown :]:
            print(_LINE.format(*_cells(call)), flush=True)
        self._shown = max(self._shown, len(calls))

    def summary(self, result: RunResult, folder: Path | None) -> None:
        print("\n" + "\n".join(_summary_lines(result, folder)), flush=True)


class TableView(View):
    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None

    def note(self, text: str) -> None:
        self._console.print(text, markup=False)

    def begin(self, agent: Agent, dialect: str, scenario: Scenario, chain: Chain) -> None:
        super().begin(agent, dialect, scenario, chain)
        self._live = Live(_table([]), console=self._console, refresh_per_second=10)
        self._live.start()

    def calls(self, calls: Sequence[Call]) -> None:
        if self._live is not None:
            self._live.update(_table(calls))

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()

    def summary(self, result: RunResult, folder: Path | None) -> None:
        self._console.print()
        for line in _summary_lines(result, folder):
            self._console.print(line, markup=False)


class JsonView(View):
    def note(self, text: str) -> None:
        pass

    def calls(self, calls: Sequence[Call]) -> None:
        pass

    def summary(self, result: RunResult, folder: Path | None) -> None:
        print(json.dumps(_document(result, folder), indent=1))


def _table(calls: Sequence[Call]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in ("kind", "SHA-256") else "right")
    for call in calls:
        table.add_row(*_cells(call), style=None if call.equal else "red")
    if calls:
        table.add_section()
        body, sent = sum(call.body_bytes for call in calls), sum(call.sent_bytes for call in calls)
        table.add_row("all", "", f"{body:,}", f"{sent:,}", _ratio(body, sent), "", "", "", style="bold")
    return table


def _cells(call: Call) -> list[str]:
    return [
        str(call.number),
        call.kind,
        f"{call.body_bytes:,}",
        f"{call.sent_bytes:,}",
        _ratio(call.body_bytes, call.sent_bytes),
        _milliseconds(call.shim_ms),
        _milliseconds(call.server_ms),
        "equal" if call.equal else "NOT EQUAL",
    ]


def _summary_lines(result: RunResult, folder: Path | None) -> list[str]:
    body, sent, sent_requests = result.body_bytes, result.sent_bytes, result.sent.total()
    headers = sum(call.header_bytes for call in result.calls)
    right = (result.sent & result.received).total()
    lines = [
        f"Bodies   {body:,} B as the agent sent them, {sent:,} B over the wire: {_ratio(body, sent)} fewer"
        f" (beside {headers:,} B of headers).",
        f"New      {result.budget:,} B were new in those bodies; without gzip the wire would have carried"
        f" {result.sent_plain_bytes:,} B.",
        f"Equal    {right} of {sent_requests} requests reached the model byte for byte"
        f" (SHA-256, by relays and recording, not by shim or server).",
        f"Agent    {_ending(result)}",
        f"Result   {'good' if result.bodies_equal and result.finished else 'FAILED'}",
    ]
    return lines if folder is None else [*lines, f"Kept     {folder}"]


def _ending(result: RunResult) -> str:
    agent = result.agent
    if result.finished:
        return f"did the task in {agent.seconds:.1f} s; its workspace is as it should be."
    status = "was stopped at its timeout" if agent.exit_status is None else f"ended with status {agent.exit_status}"
    wrong = f"; wrong in the workspace: {', '.join(result.wrong_files)}" if result.wrong_files else ""
    return f"did not do the task: {status} after {agent.seconds:.1f} s{wrong}; its output: {agent.stderr}"


def _document(result: RunResult, folder: Path | None) -> dict[str, Any]:
    return {
        "good": result.bodies_equal and result.finished,
        "bodies_equal": result.bodies_equal,
        "finished": result.finished,
        "requests": result.sent.total(),
        "body_bytes": result.body_bytes,
        "sent_bytes": result.sent_bytes,
        "sent_plain_bytes": result.sent_plain_bytes,
        "new_bytes": result.budget,
        "agent_seconds": round(result.agent.seconds, 3),
        "calls": [asdict(call) for call in result.calls],
        "kept": None if folder is None else str(folder),
    }


def _ratio(body: int, sent: int) -> str:
    return f"{body / sent:.1f}x" if sent else "-"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
