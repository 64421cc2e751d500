# SPDX-License-Identifier: Apache-2.0
"""``history-delta conformance``: real agents, transport off against on, and a report of every difference.

Exit code 0 if everything that applies was run and nothing differs, 1 if something differs, 3 if nothing differs but
something was not run, 2 for a command line or a scenario that is at fault, 130 where it was interrupted.
"""

import argparse
import asyncio
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from ..agents import AGENTS, Agent
from ..agents.versions import Prepared, prepare, use_executable, variable_of
from ..chain import MODEL
from ..comparison.rules import RULES
from ..processes import LISTEN, BadCommand, fill_in
from ..report.results import AgentUsed, Report, RuleUsed, ScenarioUsed
from ..report.table import View, view_for
from ..report.write import write_report
from ..scripted_model import ScenarioError, load_scenario
from .plan import REAL_AGENTS, SCENARIOS, SMOKE_AGENTS, SMOKE_SCENARIOS, Place, places, rows
from .runner import Runner

DIFFERENT, USAGE_ERROR, NOT_ALL_RUN, INTERRUPTED = 1, 2, 3, 130
_JOBS = 3

T = TypeVar("T")


class UsageError(Exception):
    """The command line is at fault; one line for the user."""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser().parse_args(arguments)
    try:
        if options.list:
            return _list()
        agents, scenarios = _chosen(options)
        planned = places(rows(agents), scenarios)
        output = _output(options.output)
        return _run(options, arguments, agents, planned, output)
    except (UsageError, ScenarioError, OSError) as error:
        print(f"history-delta conformance: {error}", file=sys.stderr)
        return USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "history-delta conformance",
        description="Run real agents with the transport off and on, and show every difference.",
        epilog="Further: conformance server and conformance shim (the published cases), conformance report (render "
        "again). Exit code: 0 no difference, 1 some, 3 none but not everything was run, 2 wrong usage.",
    )
    add = parser.add_argument
    add("--agents", metavar="A,B", help=f"default: {','.join(REAL_AGENTS)}; also: builtin, which needs no installation")
    add("--scenarios", metavar="A,B", help="names or TOML files; default: all (see --list)")
    add("--smoke", action="store_true", help=f"{', '.join(SMOKE_AGENTS)} with {' and '.join(SMOKE_SCENARIOS)}")
    add("--list", action="store_true", help="list agents and scenarios, and run nothing")
    add("--output", type=Path, metavar="DIR", default=Path("conformance-report"), help="for report and artefacts")
    add("--jobs", type=int, default=_JOBS, metavar="N", help="runs at the same time [%(default)s]")
    add("--keep", action="store_true", help="keep what every run wrote, not only what failed ones did")
    add(
        "--agent-executable",
        action="append",
        default=[],
        metavar="NAME=PATH",
        help="an agent of your own instead of the pinned one; also $" + variable_of("NAME"),
    )
    add(
        "--server-command",
        metavar="COMMAND",
        help='a server of your own instead: "my-server --upstream {model} --listen {listen}"',
    )
    add("--allow-untested", action="store_true", help="run agents of other versions than the tested ones too")
    return parser


def _list() -> int:
    print("agents:")
    for agent in AGENTS.values():
        print(f"  {agent.name:<28} {agent.version:<10} {', '.join(agent.dialects)}")
    print("scenarios:")
    for name in SCENARIOS:
        print(f"  {name:<28} {load_scenario(name).description}")
    return 0


def _chosen(options: argparse.Namespace) -> tuple[list[Agent], list[str]]:
    names = _split(options.agents) or (SMOKE_AGENTS if options.smoke else REAL_AGENTS)
    for name in names:
        if name not in AGENTS:
            raise UsageError(f"--agents: no driver for {name!r}; there are {', '.join(AGENTS)}")
    for choice in options.agent_executable:
        name, equals, path = choice.partition("=")
        if not equals or name not in AGENTS:
            raise UsageError(f"--agent-executable: expected NAME=PATH with NAME of {', '.join(AGENTS)}, got {choice!r}")
        use_executable(name, path)
    if options.server_command is not None:
        try:
            fill_in(options.server_command, {LISTEN: "", MODEL: ""})
        except BadCommand as error:
            raise UsageError(f"--server-command: {error}") from error
    if options.jobs < 1:
        raise UsageError(f"--jobs: expected 1 or more, got {options.jobs}")
    return [AGENTS[name] for name in names], _split(options.scenarios) or list(
        SMOKE_SCENARIOS if options.smoke else SCENARIOS
    )


def _split(value: str | None) -> list[str]:
    return list(dict.fromkeys(part.strip() for part in (value or "").split(",") if part.strip()))


def _output(folder: Path) -> Path:
    """A report that is there already is replaced; anything else is left alone."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output: {folder} is no folder")
    if (folder / "runs").exists():
        raise UsageError(f"--output: {folder} holds the runs of an earlier report; move or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute()


def _run(
    options: argparse.Namespace, arguments: list[str], agents: list[Agent], planned: list[Place], output: Path
) -> int:
    view = view_for(sys.stderr)
    began, started = time.monotonic(), datetime.now(UTC)
    prepared = {agent.name: _prepared(agent, options.allow_untested, view) for agent in agents}
    view.planned(
        list(dict.fromkeys(place.row.name for place in planned)),
        list(dict.fromkeys(place.title for place in planned)),
        sum(not place.not_applicable for place in planned),
    )
    runner = Runner(prepared, output, view, options.jobs, options.keep, options.server_command)
    report = None
    try:
        cells = asyncio.run(_until_signalled(runner.run(planned)))
        report = Report(
            started=started.isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - began, 1),
            command=shlex.join(["history-delta", "conformance", *arguments]),
            versions=_versions(options.jobs),
            agents=tuple(_agents_used(agents, prepared)),
            scenarios=tuple(_scenarios_used(planned)),
            rules=tuple(RuleUsed(rule.name, rule.reason, tuple(rule.agents)) for rule in RULES),
            cells=tuple(cells),
        )
        write_report(report, output)
    finally:
        view.close(report, output)
    if runner.interrupted:
        return INTERRUPTED
    if report.count("failed"):
        return DIFFERENT
    return 0 if report.good else NOT_ALL_RUN


async def _until_signalled(work: Coroutine[Any, Any, T]) -> T:
    """The work's result; SIGINT and SIGTERM cancel it, which stops what it has started."""
    task = asyncio.ensure_future(work)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return await task


def _prepared(agent: Agent, allow_untested: bool, view: View) -> Prepared:
    """The agent, with a note about whatever stands in the way."""
    prepared = prepare(agent)
    if prepared.problem:
        untested = prepared.executable is not None
        hint = "; --allow-untested runs it" if untested and not allow_untested else ""
        view.note(f"{agent.name}: {prepared.problem}{hint}")
        if untested and not allow_untested:
            return Prepared(None, prepared.version, prepared.problem)
    return prepared


def _agents_used(agents: Iterable[Agent], prepared: Mapping[str, Prepared]) -> Iterator[AgentUsed]:
    for agent in agents:
        found = prepared[agent.name]
        yield AgentUsed(agent.name, found.version, agent.version, found.problem)


def _scenarios_used(planned: Iterable[Place]) -> Iterator[ScenarioUsed]:
    for name, title in dict.fromkeys((place.scenario, place.title) for place in planned):
        yield ScenarioUsed(title, load_scenario(name).description)


def _versions(jobs: int) -> dict[str, str]:
    return {
        "history-delta": version("history-delta"),
        "Python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "runs at a time": str(jobs),
    }
