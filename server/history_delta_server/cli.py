# SPDX-License-Identifier: Apache-2.0
"""The ``history-delta`` command. Imports the standard library alone until it knows what is asked for, so that the
shim's part works from the base install."""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from history_delta_shim.streams import ensure_standard_streams

from . import __version__

_USAGE = """\
usage: history-delta COMMAND [OPTIONS]

commands:
  serve            the server in front of a model: rebuilds requests and passes them on
  shim             the client side, next to an agent
  demo             server, shim and an agent on a scripted model, with a table of what crossed the wire
  conformance      real agents with the transport off and on, and every difference; the published cases
  scripted-model   the model that the demo and the tests use

options:
  -h, --help       this text; after a command: its own
  --version        the version
"""

# What each command runs, and which extra brings what it needs.
_COMMANDS = {
    "serve": ("history_delta_server.serve", "server"),
    "shim": ("history_delta_shim.cli", None),
    "demo": ("history_delta_conformance.cli", "conformance"),
    "conformance": ("history_delta_conformance.cli", "conformance"),
    "scripted-model": ("history_delta_conformance.cli", "conformance"),
}
_OUR_PACKAGES = ("history_delta_protocol", "history_delta_server", "history_delta_shim", "history_delta_conformance")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0, or the command's own; 2 for a command line or configuration that is at fault."""
    ensure_standard_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command in ("-h", "--help", "help"):
        print(_USAGE, end="")
        return 0
    if command in ("-V", "--version"):
        print(f"history-delta {__version__}")
        return 0
    if command not in _COMMANDS:
        what = f"unknown command {command!r}" if command else "no command"
        print(f"history-delta: {what}; expected one of {', '.join(_COMMANDS)} (see --help)", file=sys.stderr)
        return 2
    return _run(command, rest)


def _run(command: str, rest: list[str]) -> int:
    module_name, extra = _COMMANDS[command]
    try:
        entry: Callable[[list[str]], int | None] = import_module(module_name).main
        # The conformance package serves several commands, and loads what each of them needs.
        return entry([command, *rest] if extra == "conformance" else rest) or 0
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _OUR_PACKAGES:
            raise
        print(
            f"history-delta {command}: {error.name} is missing; pip install 'history-delta[{extra}]'", file=sys.stderr
        )
        return 2
