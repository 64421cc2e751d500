# SPDX-License-Identifier: Apache-2.0
"""``history-delta demo``: the whole chain on free ports, an agent at work, and what crossed the wire, call by call.

Exit code 0 only if every body reached the model as the agent sent it and the agent did its task; 1 if not; 2 if the
demo could not be started as asked.
"""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .agents import AGENTS, Agent, InstallError
from .agents.installing import is_installed
from .chain import Chain
from .demo_view import View, view_for
from .processes import StartError
from .run import RunResult, calls_so_far, run_task, task_on
from .scripted_model import Scenario, ScenarioError, load_scenario, scenario_names

_AUTO = "auto"
_PREFERRED, _FALLBACK = AGENTS["opencode"], AGENTS["builtin"]
_INSTALL_WITHIN = 180.0
_LOOK_EVERY = 0.1
_ROLLOUT = "demo"
_USAGE_ERROR = 2


class DemoError(Exception):
    """The demo cannot be started as asked; one line for the user."""


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    view = view_for(options.json)
    # As an interrupt: what was started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        scenario = load_scenario(options.scenario)
        wanted = _PREFERRED if options.agent == _AUTO else AGENTS[options.agent]
        dialect = _dialect(wanted, options.dialect)
        folder = _folder(options.keep)
        agent = _installed(wanted, view, _FALLBACK if options.agent == _AUTO else None)
        result = asyncio.run(_run(agent, scenario, dialect, folder, view))
    except (DemoError, ScenarioError, InstallError, StartError) as error:
        print(f"history-delta demo: {error}", file=sys.stderr)
        return _USAGE_ERROR
    except KeyboardInterrupt:
        print("history-delta demo: interrupted", file=sys.stderr)
        return 130
    good = result.bodies_equal and result.finished
    if good and options.keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    view.summary(result, None if good and options.keep is None else folder)
    return 0 if good else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("history-delta demo", description="Server, shim and an agent on a scripted model")
    add = parser.add_argument
    add("--agent", choices=[_AUTO, *AGENTS], default=_AUTO, help="auto: OpenCode if it can be had, else the built-in")
    add("--dialect", choices=["chat", "responses", "messages"], help="default: the agent's usual one")
    add("--scenario", default="tool-use", metavar="NAME|FILE", help=f"one of {', '.join(scenario_names())}")
    add("--json", action="store_true", help="print one JSON document at the end and nothing else")
    add("--keep", type=Path, metavar="DIR", help="keep logs, recordings and workspace there; it must be empty or new")
    return parser


def _installed(agent: Agent, view: View, fallback: Agent | None) -> Agent:
    """The agent once it is installed, or else the fallback. Raises InstallError without one."""
    try:
        if agent is not _FALLBACK and not is_installed(agent.name, agent.version):
            view.note(f"Installing {agent.name} {agent.version}, once, with its own package manager …")
        agent.install(_INSTALL_WITHIN)
    except InstallError as error:
        if fallback is None:
            raise
        view.note(f"No real agent here ({error}): the built-in one does the task.")
        return fallback
    return agent


def _dialect(agent: Agent, wanted: str | None) -> str:
    if wanted is not None and wanted not in agent.dialects:
        raise DemoError(f"--dialect: {agent.name} speaks {', '.join(agent.dialects)}, not {wanted}")
    return wanted or agent.dialects[0]


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="history-delta-demo-"))
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise DemoError(f"--keep: expected a new or empty folder, got {keep}")
    return keep.absolute()


async def _run(agent: Agent, scenario: Scenario, dialect: str, folder: Path, view: View) -> RunResult:
    async with Chain(scenario, folder) as chain:
        view.begin(agent, dialect, scenario, chain)
        task = task_on(chain, dialect, _ROLLOUT)
        watching = asyncio.create_task(_watch(chain, view))
        try:
            result = await run_task(agent, task, chain)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            view.calls(calls_so_far(chain))
            view.end()
        return result


async def _watch(chain: Chain, view: View) -> None:
    while True:
        view.calls(calls_so_far(chain))
        await asyncio.sleep(_LOOK_EVERY)
