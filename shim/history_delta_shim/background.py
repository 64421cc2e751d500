# SPDX-License-Identifier: Apache-2.0
"""Going on in the background: the process that was started returns once the one that goes on is ready.

Sandbox exec calls wait until every inherited pipe is closed, so that none may be kept.
"""

import os
from typing import Callable, Iterable, Optional, Tuple

_READY, _FAILED = b"+", b"-"

# announce(ready, text): what the started process is told, once.
Announce = Callable[[bool, str], None]


def detach(keep: Iterable[int]) -> Tuple[Optional[Announce], bool, str]:
    """Return twice: as (announce, ...) in a process that has nothing inherited but the ``keep`` descriptors, and as
    (None, ready, text) in the one that was started, with what was announced to it."""
    reader, writer = os.pipe()
    first = os.fork()
    if first:
        os.close(writer)
        os.waitpid(first, 0)
        return (None,) + _announced(reader)
    os.setsid()
    if os.fork():
        os._exit(0)  # the one that goes on can never have a terminal again
    _close_all_but(set(keep) | {writer})
    return (lambda ready, text: _announce(writer, ready, text)), False, ""


def _announce(writer: int, ready: bool, text: str) -> None:
    try:
        os.write(writer, (_READY if ready else _FAILED) + text.encode("utf-8"))
    except OSError:
        pass  # nobody waits any more
    os.close(writer)


def _announced(reader: int) -> Tuple[bool, str]:
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read()
    if not told:
        return False, "the process in the background ended before it was ready"
    return told[:1] == _READY, told[1:].decode("utf-8")


def _close_all_but(keep: Iterable[int]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    kept = sorted(fd for fd in keep if fd > 2)
    low = 3
    for fd in kept + [_highest_fd() + 1]:
        os.closerange(low, fd)
        low = fd + 1


def _highest_fd() -> int:
    try:
        return max(int(name) for name in os.listdir("/dev/fd"))
    except (OSError, ValueError):
        return 4096
