# SPDX-License-Identifier: Apache-2.0
"""What the recorder has written, as the exchanges that a relay would have seen.

``wire_bytes`` is 0, for what goes on the wire is not known there; a body that was streamed is not recorded, and its
exchange not ``complete``. ``response_complete`` is False only where the client was given an error: an agent that
closes a response early has what it wanted.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from ..observer import Exchange


class DamagedRecord(ValueError):
    """A body is not what its line says it is."""


def read_recorded(path: Path) -> list[Exchange]:
    """In the order in which the requests were given to be sent; a last line without its end is left for later."""
    if not path.is_file():
        return []
    exchanges: dict[str, Exchange] = {}
    for line in path.read_bytes().rpartition(b"\n")[0].splitlines():
        event = json.loads(line)
        if event["event"] == "request":
            exchanges[event["id"]] = _begun(event, path)
        else:
            _end(exchanges[event["id"]], event)
    return list(exchanges.values())


def _begun(event: dict[str, Any], path: Path) -> Exchange:
    headers = [(name, value) for name, value in event["headers"]]
    exchange = Exchange(0, event["method"], event["target"], headers, event["time"])
    if event["sha256"] is not None:
        exchange.body = path.with_name(path.name + ".bodies").joinpath(event["id"]).read_bytes()
        exchange.complete = True
        if hashlib.sha256(exchange.body).hexdigest() != event["sha256"] or len(exchange.body) != event["length"]:
            raise DamagedRecord(f"{path}: the body of request {event['id']}")
    return exchange


def _end(exchange: Exchange, event: dict[str, Any]) -> None:
    exchange.status, exchange.answered = event["status"], event["answered"]
    exchange.response_bytes = event["bytes"]
    exchange.response_complete = event["ended"] in ("complete", "closed")
