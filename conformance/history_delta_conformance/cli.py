# SPDX-License-Identifier: Apache-2.0
"""The commands that this package adds to ``history-delta``: ``demo`` and ``scripted-model``."""

import sys
from collections.abc import Sequence

_COMMANDS = ("demo", "scripted-model")
_USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``argv[0]`` with the rest as its arguments; the exit code, 2 for a command that is not ours."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command == "demo":
        from . import demo

        return demo.main(rest)
    if command == "scripted-model":
        from .scripted_model import __main__ as scripted_model

        return scripted_model.main(rest)
    print(f"history-delta: expected one of {', '.join(_COMMANDS)}, got {command!r}", file=sys.stderr)
    return _USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main())
