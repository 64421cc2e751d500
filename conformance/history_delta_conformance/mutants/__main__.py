# SPDX-License-Identifier: Apache-2.0
"""A server with a fault: ``python -m history_delta_conformance.mutants NAME --upstream URL --listen HOST:PORT``.

It is the real server with a mutant behind it, on the way to the model. The fault is the transport's: with the transport
off (``HISTORY_DELTA_ENABLED``) nothing is done to anything. Given as its ``--server-command`` to a conformance run, it
shows how that fails.
"""

import argparse
import asyncio
import os
import signal
import sys

from ..processes import SERVER_COMMAND
from . import MUTANTS
from .mutant import Mutant
from .relay import MutatingRelay


def main() -> int:
    options = _parser().parse_args()
    enabled = os.environ.get("HISTORY_DELTA_ENABLED") == "1"
    mutant = MUTANTS[options.mutant]() if enabled else Mutant()
    return asyncio.run(_serve(mutant, options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("mutants", description="The server, with one fault committed on purpose")
    parser.add_argument("mutant", choices=list(MUTANTS))
    parser.add_argument("--upstream", required=True, metavar="URL")
    parser.add_argument("--listen", required=True, metavar="HOST:PORT")
    return parser


async def _serve(mutant: Mutant, options: argparse.Namespace) -> int:
    async with MutatingRelay(mutant) as relay:
        relay.target = options.upstream
        server = await asyncio.create_subprocess_exec(
            *SERVER_COMMAND,
            *("--upstream", relay.url, "--listen", options.listen, "--admin-listen", "127.0.0.1:0", "--log-body-hash"),
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, server.terminate)
        return await server.wait()


if __name__ == "__main__":
    sys.exit(main())
