# SPDX-License-Identifier: Apache-2.0
"""The log's line about a call: the fields that all have, and one in the making for a call in the agent's own process.

That one is written when the response has ended, for which its stream is watched; without a log, streams are left alone.
"""

import functools
import time
from typing import Any, AsyncIterator, Dict, Iterator

from .log import Log

_LOGGED_CHARACTERS = 200  # of what an agent may make as long as it likes
_NOT_CONNECTED = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol")


def fields_of(method: str, target: str) -> Dict[str, Any]:
    """The fields of a line about a request with this method and target, of which nothing else is known yet."""
    return {
        "delivery": None,
        "kind": "pass-through",
        "reason": None,
        "method": method[:_LOGGED_CHARACTERS],
        "path": target.partition("?")[0][:_LOGGED_CHARACTERS],
        "body_bytes": None,
        "prepare_ms": None,
        "status": None,
        "resynced": False,
        "outcome": "failed",
        "sent_bytes": 0,
    }


def ms_since(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)


class CallRecord(object):
    """One line in the making; ``over`` writes it, once."""

    def __init__(self, log: Log, method: str, target: str) -> None:
        self._log = log
        self._started = time.monotonic()
        self._over = False
        self._response_bytes = 0
        self._fields = fields_of(method, target)

    def update(self, **fields: Any) -> None:
        self._fields.update(fields)

    def sent(self, size: int) -> None:
        self._fields["sent_bytes"] += size

    def received(self, piece: bytes) -> None:
        self._response_bytes += len(piece)

    def failed(self, error: BaseException) -> None:
        """No response began, or one broke; what is no Exception is an agent that has given up."""
        if not isinstance(error, Exception):
            self.over("agent-left")
            return
        name = type(error).__name__  # without its text: it may quote what it is about
        self._fields["error"] = name
        self.over("unreachable" if name in _NOT_CONNECTED else "broken")

    def over(self, outcome: str) -> None:
        if self._over:
            return
        self._over = True
        self._fields.update(outcome=outcome, response_bytes=self._response_bytes, total_ms=ms_since(self._started))
        self._log.event("call", **self._fields)


def watch(library: Any, response: Any, record: CallRecord) -> None:
    """Have the record written when the response ends, in whatever way."""
    response.stream = _watched_stream_of(library)(response.stream, record)


@functools.lru_cache(maxsize=None)
def _watched_stream_of(library: Any) -> Any:
    """The class of watched streams: httpx's own, as it insists, and fit for either kind of client."""

    class Watched(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, record: CallRecord) -> None:
            self._stream, self._record = stream, record

        def __iter__(self) -> Iterator[bytes]:
            try:
                for piece in self._stream:
                    self._record.received(piece)
                    yield piece
            except Exception as error:
                self._record.failed(error)
                raise
            self._record.over("complete")

        def close(self) -> None:
            try:
                self._stream.close()
            finally:
                self._record.over("closed")

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for piece in self._stream:
                    self._record.received(piece)
                    yield piece
            except Exception as error:
                self._record.failed(error)
                raise
            self._record.over("complete")

        async def aclose(self) -> None:
            try:
                await self._stream.aclose()
            finally:
                self._record.over("closed")

    return Watched
