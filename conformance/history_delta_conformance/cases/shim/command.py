# SPDX-License-Identifier: Apache-2.0
"""``history-delta conformance shim``: start shims with the command that is given, and run their cases."""

import argparse
import contextlib
from collections.abc import AsyncIterator, Sequence

from ...processes import BadCommand, StartError
from .. import load
from ..base import Case
from ..options import USAGE, CannotRun, add_options, run_command
from ..registry import SHIM
from ..runner import OpenTarget
from ..transcript import Transcript
from .bench import Target
from .process import EXAMPLE, Command


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="history-delta conformance shim",
        description="Runs the published cases against a shim that speaks the history-delta protocol. It is started "
        "anew for every case, with HISTORY_DELTA_ENABLED=1 in its environment.",
        epilog="{upstream} becomes the server's origin (http://127.0.0.1:PORT), {listen} the HOST:PORT to listen on, "
        "and {rollout} a rollout id; without the last, the shim is expected to mint one.",
        allow_abbrev=False,
    )
    made.add_argument("--command", metavar="COMMAND", type=_command, help=f'starts a shim: "{EXAMPLE}"')
    add_options(made)
    return made


def _command(text: str) -> Command:
    try:
        return Command(text)
    except BadCommand as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def main(argv: Sequence[str]) -> int:
    """0: all that ran passed; 1: something did not; 2: nothing could be run."""
    made = parser()
    try:
        options = made.parse_args(argv)
    except SystemExit as error:
        return USAGE if error.code else 0
    if not (options.command or options.list):
        made.print_usage()
        print("expected --command")
        return USAGE
    load("shim")
    target = options.command.text if options.command else ""
    return run_command(options, SHIM, target, lambda: ground(options.command))


@contextlib.asynccontextmanager
async def ground(command: Command) -> AsyncIterator[OpenTarget]:
    """A command that starts nothing is told of once, and not by every case."""
    try:
        async with Target(command, Transcript()).bench():
            pass
    except StartError as error:
        raise CannotRun(str(error)) from error
    yield opener(command)


def opener(command: Command) -> OpenTarget:
    @contextlib.asynccontextmanager
    async def open_target(case: Case, transcript: Transcript) -> AsyncIterator[Target]:
        yield Target(command, transcript)

    return open_target
