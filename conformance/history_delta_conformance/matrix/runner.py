# SPDX-License-Identifier: Apache-2.0
"""Runs the matrix: a few runs at a time, each run with the transport off only once, whoever compares with it."""

import asyncio
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ..agents import Agent
from ..agents.versions import Prepared
from ..chain import Mode
from ..comparison.gather import gather
from ..report.results import Cell, Finding, Verdict
from ..report.table import View
from ..run import run
from ..scripted_model import load_scenario
from .cell import cell_of, empty_cell, with_second_run
from .plan import IN_EVERY_DIALECT, Place
from .proof import Run

_ROLLOUT = "conformance"


OffKey = tuple[Agent, str, str]


class Runner:
    """Runs places and gives their cells.

    ``jobs`` is how many agents run at the same time. ``folder`` gets a folder for each run, which stays only where the
    cell failed, or with ``keep``. ``server_command`` starts another server than ours (see ``Chain``).
    """

    def __init__(
        self,
        prepared: dict[str, Prepared],
        folder: Path,
        view: View,
        jobs: int,
        keep: bool = False,
        server_command: str | None = None,
    ) -> None:
        self._prepared, self._folder, self._view, self._keep = prepared, folder, view, keep
        self._server_command = server_command
        self._slots = asyncio.Semaphore(jobs)
        self._off: dict[OffKey, asyncio.Task[Run]] = {}
        self._needed: set[Path] = set()
        self._runs = 0

    async def run(self, places: Sequence[Place]) -> list[Cell]:
        """The cells, in the order of the places. Cancelled, it stops the agents that run, and gives what there is."""
        self.interrupted = False
        self._users = Counter(_off_key(place) for place in places if not place.not_applicable)
        cells: dict[Place, Cell] = {}
        try:
            async with asyncio.TaskGroup() as group:
                for place in places:
                    group.create_task(self._cell(place, cells))
        except asyncio.CancelledError:
            self.interrupted = True
        self._tidy()
        return [cells.get(place) or self._empty(place, "not-run", "interrupted") for place in places]

    async def _cell(self, place: Place, cells: dict[Place, Cell]) -> None:
        cells[place] = await self._judged(place)
        self._view.finished(cells[place])

    async def _judged(self, place: Place) -> Cell:
        prepared = self._prepared[place.row.agent.name]
        if place.not_applicable:
            return self._empty(place, "not-applicable", place.not_applicable)
        if prepared.executable is None:
            return self._empty(place, "not-run", prepared.problem)
        try:
            return await self._compared(place, prepared.version)
        except Exception as error:
            finding = Finding("run", "error", f"{type(error).__name__}: {error}")
            return self._empty(place, "failed", finding.summary, finding)

    def _empty(self, place: Place, verdict: Verdict, reason: str, *findings: Finding) -> Cell:
        return empty_cell(place, self._prepared[place.row.agent.name].version, verdict, reason, findings)

    async def _compared(self, place: Place, version: str) -> Cell:
        off, on = await self._both_runs(place)
        self._view.started(place.name, "compare")
        # In a thread: relays and models of other runs are served by this loop.
        cell = await asyncio.to_thread(cell_of, place, version, off, on)
        again = None
        if cell.findings or self._shows_stability(place):
            # What differs between two runs without the transport is the agent's own doing.
            again = await self._run(*_off_key(place), Mode.OFF, place.name)
            cell = await asyncio.to_thread(with_second_run, cell, off, again)
        folders = [run.result.task.folder.parent for run in (off, on, again) if run is not None]
        if cell.verdict == "passed" and not self._keep:
            return cell
        self._needed.update(folders)
        return msgspec.structs.replace(cell, folder=", ".join(str(path.relative_to(self._folder)) for path in folders))

    async def _both_runs(self, place: Place) -> tuple[Run, Run]:
        """Both wait for a slot in this order, so that cells are done one after the other."""
        row, key = place.row, _off_key(place)
        if key not in self._off:
            name = f"{key[2]}/{row.agent.name} {row.dialect}"
            self._off[key] = asyncio.create_task(self._run(*key, Mode.OFF, name))
        off_run = self._off[key]
        on_run = asyncio.create_task(self._run(row.agent, row.dialect, place.scenario, row.mode, place.name))
        try:
            return await asyncio.gather(asyncio.shield(off_run), on_run)
        finally:
            self._users[key] -= 1
            ours = [on_run] if self._users[key] else [on_run, self._off.pop(key)]
            for run_of_ours in ours:
                run_of_ours.cancel()
            await asyncio.wait(ours)

    def _shows_stability(self, place: Place) -> bool:
        return place.scenario in IN_EVERY_DIALECT and place.row.mode is Mode.PROXY

    async def _run(self, agent: Agent, dialect: str, scenario: str, mode: Mode, name: str) -> Run:
        async with self._slots:
            self._view.started(name, "off" if mode is Mode.OFF else "on")
            folder = self._new_folder(f"{scenario}, {agent.name} {dialect}, {mode}")
            result = await run(
                agent,
                load_scenario(scenario),
                folder,
                dialect=dialect,
                rollout=_ROLLOUT,
                mode=mode,
                server_command=self._server_command,
            )
            return Run(result, await asyncio.to_thread(gather, agent, result))

    def _new_folder(self, about: str) -> Path:
        """Numbered, so that the paths that agents put into their prompts are of the same length in all runs."""
        self._runs += 1
        folder = self._folder / "runs" / f"{self._runs:03}"
        folder.mkdir(parents=True)
        (folder / "about.txt").write_text(about + "\n", encoding="utf-8")
        return folder

    def _tidy(self) -> None:
        runs = self._folder / "runs"
        for folder in sorted(runs.glob("*")):
            if not self._keep and folder not in self._needed:
                shutil.rmtree(folder, ignore_errors=True)
        if runs.is_dir() and not any(runs.iterdir()):
            runs.rmdir()


def _off_key(place: Place) -> OffKey:
    """What a run with the transport off depends on: places with the same key share it."""
    scenario = load_scenario(place.scenario).same_off_as or place.scenario
    return place.row.agent, place.row.dialect, scenario
