# SPDX-License-Identifier: Apache-2.0
"""The commands that this package adds to ``history-delta``: ``demo``, ``scripted-model`` and ``conformance``."""

import sys
from collections.abc import Sequence
from importlib import import_module

_COMMANDS = {
    "demo": "demo",
    "scripted-model": "scripted_model.__main__",
    "conformance": "matrix.command",
}
# What stands behind ``conformance``; without one of these it runs the agents.
_CONFORMANCE_COMMANDS = {
    "server": "cases.server.command",
    "shim": "cases.shim.command",
    "report": "report.__main__",
}
_USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``argv[0]`` with the rest as its arguments; the exit code, 2 for a command that is not ours."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    module = _COMMANDS.get(command)
    if module is None:
        print(f"history-delta: expected one of {', '.join(_COMMANDS)}, got {command!r}", file=sys.stderr)
        return _USAGE_ERROR
    if command == "conformance" and rest[:1] and rest[0] in _CONFORMANCE_COMMANDS:
        module, rest = _CONFORMANCE_COMMANDS[rest[0]], rest[1:]
    # Only what the command needs is loaded.
    code: int = import_module(f".{module}", __package__).main(rest)
    return code


if __name__ == "__main__":
    sys.exit(main())
