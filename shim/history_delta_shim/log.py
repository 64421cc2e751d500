# SPDX-License-Identifier: Apache-2.0
"""JSON lines, one an event, written whole so that threads and processes can share a file, or not at all.

No body, no header and no query string ever reaches a line: callers give names, sizes, times and reasons.
"""

import json
import os
import select
import threading
import time
from typing import Any, Optional

_MAX_LINE_BYTES = 4096  # what a pipe that shows room takes at once, and whole


class Log(object):
    """Writes to a file descriptor; without one, nowhere."""

    def __init__(self, fd: Optional[int]) -> None:
        self._fd = fd
        self._lock = threading.Lock()
        self._dropped = 0  # lines since the last one that was written

    def event(self, event: str, **fields: Any) -> None:
        """Write one line, or drop it and let the next one say so: a log never fails or holds up what it tells of."""
        if self._fd is None:
            return
        line = {"ts": round(time.time(), 3), "event": event}
        line.update(fields)
        with self._lock:
            if self._dropped:
                line["dropped"] = self._dropped
            written = _write(self._fd, (json.dumps(line) + "\n").encode("ascii"))
            self._dropped = 0 if written else self._dropped + 1


def _write(fd: int, data: bytes) -> bool:
    """Whether the line was written, which it is only where that does not wait for a reader."""
    poller = select.poll()
    try:
        poller.register(fd, select.POLLOUT)
        if len(data) > _MAX_LINE_BYTES or not dict(poller.poll(0)).get(fd, 0) & select.POLLOUT:
            return False
        return os.write(fd, data) == len(data)
    except OSError:
        return False


def describe(error: BaseException) -> str:
    """Type and place of an error, without its text: that may quote a body."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append("%s:%d" % (os.path.basename(trace.tb_frame.f_code.co_filename), trace.tb_lineno))
        trace = trace.tb_next
    return "%s at %s" % (type(error).__name__, " > ".join(frames))
