# SPDX-License-Identifier: Apache-2.0
"""The log: one event a line on stderr, as JSON or as text. Never a body, a credential or a query string."""

import json
import logging
import sys
import time
from typing import Any, TextIO

from .report import FULL, Report


class Log:
    """Writes events; a field that is None is left out."""

    def __init__(self, form: str = "json", stream: TextIO | None = None) -> None:
        self._form = form
        self._stream = stream or sys.stderr

    def event(self, name: str, **fields: Any) -> None:
        present = {key: value for key, value in fields.items() if value is not None}
        line = self._json(name, present) if self._form == "json" else self._text(name, present)
        self._stream.write(line + "\n")
        self._stream.flush()

    def request(self, report: Report) -> None:
        """One line for every request, and one more that says why for every full send."""
        if report.kind == FULL:
            self.event("full-send", rollout=report.rollout, delivery=report.delivery, reason=report.reason)
        self.event(
            "call" if report.kind else "answer",
            delivery=report.delivery,
            rollout=report.rollout,
            kind=report.kind,
            reason=report.reason,
            path=report.path,
            status=report.status,
            outcome=report.outcome,
            repeated=report.repeated or None,
            rebuild_ms=None if report.rebuild_seconds is None else round(report.rebuild_seconds * 1000, 3),
            body_bytes=report.body_bytes,
            received_bytes=report.received_bytes,
            upstream=(report.call and report.call.upstream) or None,
            duration_ms=round(report.seconds * 1000, 3),
            sha256=report.body_sha256,
            failure=(report.call and report.call.failure) or None,
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
