# SPDX-License-Identifier: Apache-2.0
"""``history-delta conformance server``: reach or start a server, with a model of ours behind it, and run its cases."""

import argparse
import functools
from collections.abc import Sequence

from .. import load
from ..options import USAGE, add_options, run_command
from ..registry import SERVER
from .ground import EXAMPLE, Ground, address

_MODEL_LISTEN = "127.0.0.1:8799"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="history-delta conformance server",
        description="Runs the published cases against a server that speaks the history-delta protocol.",
        epilog="With --url, the server must have been started with http:// and the address of --model-listen as its "
        "only upstream.",
        allow_abbrev=False,
    )
    which = made.add_mutually_exclusive_group()
    which.add_argument("--url", metavar="URL", help="a running server, such as http://127.0.0.1:8700")
    which.add_argument(
        "--command",
        metavar="COMMAND",
        help=f'starts a server: "{EXAMPLE}"',
    )
    made.add_argument(
        "--model-listen",
        metavar="HOST:PORT",
        type=address,
        default=address(_MODEL_LISTEN),
        help=f"with --url: where the model of the cases listens (default: {_MODEL_LISTEN})",
    )
    add_options(made)
    return made


def main(argv: Sequence[str]) -> int:
    made = parser()
    try:
        options = made.parse_args(argv)
    except SystemExit as error:
        return USAGE if error.code else 0
    if not (options.url or options.command or options.list):
        made.print_usage()
        print("expected --url or --command")
        return USAGE
    load("server")
    ground = functools.partial(Ground, options.url, options.command, options.model_listen)
    return run_command(options, SERVER, options.url or options.command or "", ground)
