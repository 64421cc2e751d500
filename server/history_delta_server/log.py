# SPDX-License-Identifier: Apache-2.0
"""The log: one event a line on stderr, as JSON or as text. Never a body, a credential or a query string.

Never in the way either: a line that cannot be written at once is dropped, and the next one says how many were.
"""

import contextlib
import io
import json
import logging
import os
import select
import sys
import time
from typing import Any, TextIO

from .report import AGENT_LEFT, FULL, Report

# So much, and no less, can be written to a pipe that is ready.
_MAX_LINE = select.PIPE_BUF
_SHOWN_OF_PATH = 200
_SHOWN_OF_FAILURE = 1000


class Log:
    """Writes events; a field that is None is left out. Neither raises nor blocks."""

    def __init__(self, form: str = "json", stream: TextIO | None = None) -> None:
        self._form = form
        self._sink = _sink(stream or sys.stderr)
        self._dropped = 0

    def event(self, name: str, **fields: Any) -> None:
        present = {key: value for key, value in fields.items() if value is not None}
        if self._dropped:
            present["lines_dropped"] = self._dropped
        try:
            line = self._json(name, present) if self._form == "json" else self._text(name, present)
            written = self._sink.write(line + "\n")
        except (OSError, ValueError):
            written = False
        self._dropped = 0 if written else self._dropped + 1

    def request(self, report: Report) -> None:
        """One line for every request, and one more that says why for every full send."""
        if report.kind == FULL:
            self.event("full-send", rollout=report.rollout, delivery=report.delivery, reason=report.reason)
        self.event(
            "call" if report.kind else "left" if report.outcome == AGENT_LEFT else "answer",
            delivery=report.delivery,
            rollout=report.rollout,
            kind=report.kind,
            reason=report.reason,
            path=report.path[:_SHOWN_OF_PATH],
            status=report.status,
            outcome=report.outcome,
            repeated=report.repeated or None,
            rebuild_ms=None if report.rebuild_seconds is None else round(report.rebuild_seconds * 1000, 3),
            body_bytes=report.body_bytes,
            received_bytes=report.received_bytes,
            upstream=(report.call and report.call.upstream) or None,
            duration_ms=round(report.seconds * 1000, 3),
            sha256=report.body_sha256,
            failure=(report.call and report.call.failure[:_SHOWN_OF_FAILURE]) or None,
        )

    @staticmethod
    def _json(name: str, fields: dict[str, Any]) -> str:
        return json.dumps({"time": round(time.time(), 3), "event": name, **fields}, default=str)

    @staticmethod
    def _text(name: str, fields: dict[str, Any]) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        return " ".join([stamp, name, *(f"{key}={_shown(value)}" for key, value in fields.items())])


def _shown(value: object) -> str:
    text = str(value)
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "=')
    return text if plain else json.dumps(text)


class _Descriptor:
    """Writes where a whole line has room now. The descriptor stays as it is: other processes may share it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def write(self, line: str) -> bool:
        data = line.encode("ascii", "backslashreplace")
        if len(data) > _MAX_LINE or not self._poll.poll(0):
            return False
        return os.write(self._descriptor, data) == len(data)


class _Memory:
    """A stream without a descriptor. None: there is no stderr at all."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, line: str) -> bool:
        if self._stream is None:
            return False
        self._stream.write(line)
        return True


def _sink(stream: TextIO | None) -> _Descriptor | _Memory:
    if stream is not None:
        with contextlib.suppress(io.UnsupportedOperation):
            return _Descriptor(stream.fileno())
    return _Memory(stream)


class LibraryMessages(logging.Handler):
    """Lets what the HTTP library has to say stand in the same log, in the same form."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        exc = record.exc_info[1] if record.exc_info else None
        # The kind of error alone: its text may quote the request.
        error = type(exc).__name__ if exc else None
        self._log.event("library", logger=record.name, message=str(record.msg)[:200], error=error)
