# SPDX-License-Identifier: Apache-2.0
"""``history-delta conformance server`` and ``… shim``: the published cases against an implementation of one's own."""

from collections.abc import Sequence


def server_main(argv: Sequence[str]) -> int:
    """0: all that ran passed; 1: something did not; 2: nothing could be run."""
    from .server.command import main

    return main(argv)


def shim_main(argv: Sequence[str]) -> int:
    """The same for a shim."""
    from .shim.command import main

    return main(argv)
