# SPDX-License-Identifier: Apache-2.0
"""JSON lines, one an event, written whole so that threads and processes can share a file.

No body, no header and no query string ever reaches a line: callers give names, sizes, times and reasons.
"""

import json
import os
import time
from typing import Any, Optional


class Log(object):
    """Writes to a file descriptor; without one, nowhere."""

    def __init__(self, fd: Optional[int]) -> None:
        self._fd = fd

    def event(self, event: str, **fields: Any) -> None:
        """Write one line. A log that cannot be written to never fails what it tells of."""
        if self._fd is None:
            return
        line = {"ts": round(time.time(), 3), "event": event}
        line.update(fields)
        try:
            os.write(self._fd, (json.dumps(line) + "\n").encode("ascii"))
        except OSError:
            pass


def describe(error: BaseException) -> str:
    """Type and place of an error, without its text: that may quote a body."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append("%s:%d" % (os.path.basename(trace.tb_frame.f_code.co_filename), trace.tb_lineno))
        trace = trace.tb_next
    return "%s at %s" % (type(error).__name__, " > ".join(frames))
