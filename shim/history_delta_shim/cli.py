# SPDX-License-Identifier: Apache-2.0
"""The command line: ``serve`` is the shim alone, ``run`` the shim round an agent. What they do is in server and run."""

import argparse
import os
import sys
from typing import Any, List, Optional

from . import __version__
from .settings import ENABLED_VARIABLE, Invalid
from .streams import ensure_standard_streams, tell

PROGRAM = "history-delta"
USAGE_ERROR = 2
_COMMANDS = {
    "serve": "listen for agents and send to the upstream",
    "run": "start an agent with the shim in front of its model",
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        raise Invalid(message)


def main(argv: Optional[List[str]] = None) -> int:
    """Do what the arguments say; the exit code, 2 where they or the environment are wrong."""
    ensure_standard_streams()
    arguments = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(arguments)
    except Invalid as error:
        tell("%s: %s" % (PROGRAM, error))
        return USAGE_ERROR


def _dispatch(arguments: List[str]) -> int:
    # Only the module of the command that was given is loaded: starting is on the agent's time.
    if arguments[:1] == ["serve"]:
        from . import server, settings

        parser = _parser("serve")
        settings.add_arguments(parser)
        return server.serve(settings.from_arguments(parser.parse_args(arguments[1:]), os.environ))
    if arguments[:1] == ["run"]:
        from . import run

        parser = _parser("run")
        run.add_arguments(parser)
        return run.main(parser.parse_args(arguments[1:]))
    return _help(arguments)


def _parser(command: str) -> argparse.ArgumentParser:
    description = "%s. Acts only with %s=1." % (_COMMANDS[command].capitalize(), ENABLED_VARIABLE)
    return _Parser(prog="%s %s" % (_command_name(), command), description=description)


def _command_name() -> str:
    """What was typed: the one file, or the installed command's part for the shim."""
    name = os.path.basename(sys.argv[0])
    return name if name.endswith(".pyz") else PROGRAM + " shim"


def _help(arguments: List[str]) -> int:
    if arguments[:1] == ["--version"]:
        print(__version__)
    elif arguments[:1] in (["-h"], ["--help"]):
        print("usage: %s COMMAND [OPTIONS]" % _command_name())
        for command in sorted(_COMMANDS):
            print("%-6s %s (%s --help)" % (command, _COMMANDS[command], command))
    else:
        raise Invalid("expected a command, serve or run; --help says more")
    return 0
