# SPDX-License-Identifier: Apache-2.0
"""Trying a call again that failed for a reason that may pass: what has arrived of its answer by then is forgotten."""

import http.client
import time
from collections.abc import Callable

from .endpoint import ModelError
from .history import Answer, BrokenStream

_WAITS = (0.1, 0.3)
_LONGEST_WAIT = 30.0
_TOO_MANY_REQUESTS = 429

PASSING = (OSError, http.client.HTTPException, BrokenStream, ModelError)


def attempts(
    call: Callable[[], Answer], failed: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> Answer:
    """The answer of the first call that succeeds; ``failed`` hears of the others. Raises what the last one did."""
    for wait in _WAITS:
        try:
            return call()
        except PASSING as error:
            failed(_kind(error))
            if not _may_pass(error):
                raise
            sleep(_asked_for(error) or wait)
    return call()


def _may_pass(error: Exception) -> bool:
    return not isinstance(error, ModelError) or error.status == _TOO_MANY_REQUESTS or error.status >= 500


def _asked_for(error: Exception) -> float | None:
    """The seconds that the model asked us to wait for."""
    asked = error.retry_after if isinstance(error, ModelError) else None
    try:
        seconds = float(asked or "")
    except ValueError:
        return None
    return min(seconds, _LONGEST_WAIT) if seconds > 0 else None


def _kind(error: Exception) -> str:
    return f"status {error.status}" if isinstance(error, ModelError) else "the connection or the stream broke"
