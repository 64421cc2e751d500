# SPDX-License-Identifier: Apache-2.0
"""The scripted model as a process of its own: ``history-delta scripted-model``."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from ..ready import write_ready_file
from .recording import Recorder, Recording
from .scenario import Fault, Scenario
from .scenario_file import ScenarioError, load_scenario, scenario_names
from .server import ScriptedModel

_USAGE_ERROR = 2
_EPILOG = """\
Any path that ends in /chat/completions, /responses or /messages is a model call, so a client's base URL is the printed
address with /v1 behind it (without, for Anthropic's clients); any key will do. Every other path is a 404.

exit codes: 0 stopped by SIGINT or SIGTERM, or --check found no mistake; 2 wrong option, scenario or address
"""


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM, or do what an option asks for instead. The exit code."""
    options = _parser().parse_args(argv)
    if options.list:
        _list()
        return 0
    try:
        scenario = load_scenario(options.scenario)
        if options.check:
            print(_described(scenario))
            return 0
        asyncio.run(_serve(scenario, options))
    except (ScenarioError, OSError, OverflowError) as error:
        _say(str(error))
        return _USAGE_ERROR
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "history-delta scripted-model",
        description="A model endpoint that plays a script: chat completions, responses and Anthropic messages.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--scenario", default="tool-use", metavar="NAME|FILE", help="what to play (default tool-use); see --list")
    add("--listen", type=_address, default="127.0.0.1:0", metavar="HOST:PORT", help="port 0, the default: any free one")
    add("--record", type=Path, metavar="DIR", help="store every request there, verbatim, with an index.jsonl")
    add("--token-delay", type=_seconds, default=0.0, metavar="SECONDS", help="wait after each piece of a stream")
    add("--ready-file", type=Path, metavar="FILE", help='gets {"url", "pid"} once requests are accepted')
    add("--check", action="store_true", help="say what the scenario holds or what is wrong with it, and do not serve")
    add("--list", action="store_true", help="list the scenarios that come with the package")
    return parser


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, got {listen!r}")
    return host.strip("[]"), int(port)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds, 0 or more, got {text!r}")
    return seconds


def _list() -> None:
    names = scenario_names()
    width = max(map(len, names))
    for name in names:
        print(f"{name:{width}}  {load_scenario(name).description}")


def _described(scenario: Scenario) -> str:
    steps = [f"{len(scenario.turns)} steps"]
    steps += [f"{len(other.turns)} of {other.name}" for other in scenario.conversations]
    faults = [f"{fault.kind} at {_step(scenario, fault)}" for fault in scenario.faults]
    return f"{scenario.name}: {', '.join(steps)}; faults: {', '.join(faults) or 'none'}"


def _step(scenario: Scenario, fault: Fault) -> str:
    return f"{fault.conversation or scenario.marker} {fault.step}"


async def _serve(scenario: Scenario, options: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    recorder, (host, port) = Recorder(options.record), options.listen
    model = ScriptedModel(
        scenario, recorder, host, port, lambda _: asyncio.sleep(options.token_delay), on_fault=_say_fault
    )
    async with model:
        if options.ready_file is not None:
            write_ready_file(options.ready_file, model.url)
        _say(f"{scenario.name} on {model.url}")
        await stopped.wait()


def _say_fault(recording: Recording, fault: Fault) -> None:
    what = f"status {fault.status}" if fault.kind == "status" else fault.kind
    _say(f"request {recording.number}, {recording.label}: {what}")


def _say(line: str) -> None:
    print(f"scripted model: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
