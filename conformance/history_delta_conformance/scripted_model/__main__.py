# SPDX-License-Identifier: Apache-2.0
"""The scripted model as a process of its own: ``python -m history_delta_conformance.scripted_model``."""

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from ..ready import write_ready_file
from .recording import Recorder
from .scenario_file import ScenarioError, load_scenario, scenario_names
from .server import ScriptedModel


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGINT or SIGTERM. Exit code 2 for a wrong scenario or address."""
    options = _parser().parse_args(argv)
    try:
        scenario = load_scenario(options.scenario)
        host, port = _address(options.listen)
        model = ScriptedModel(
            scenario, Recorder(options.record), host, port, lambda _: asyncio.sleep(options.token_delay)
        )
        asyncio.run(_serve(model, options.ready_file))
    except (ScenarioError, ValueError, OSError) as error:
        print(f"scripted model: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("history-delta scripted-model", description="A model endpoint that plays a script")
    parser.add_argument("--scenario", default="tool-use", help=f"a TOML file or one of {', '.join(scenario_names())}")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="port 0: any free one")
    parser.add_argument("--ready-file", type=Path, metavar="FILE", help='gets {"url", "pid"} once it accepts')
    parser.add_argument("--record", type=Path, metavar="DIR", help="store every request here, verbatim")
    parser.add_argument("--token-delay", type=float, default=0.0, metavar="SECONDS", help="between streamed tokens")
    return parser


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"--listen: expected HOST:PORT, got {listen!r}")
    return host, int(port)


async def _serve(model: ScriptedModel, ready_file: Path | None) -> None:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with model:
        if ready_file is not None:
            write_ready_file(ready_file, model.url)
        print(f"scripted model: {model.scenario.name} on {model.url}", file=sys.stderr, flush=True)
        await stopped.wait()


if __name__ == "__main__":
    sys.exit(main())
