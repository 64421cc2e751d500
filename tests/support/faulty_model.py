# SPDX-License-Identifier: Apache-2.0
"""A scripted model that fails at chosen calls, for agents that must get over it.

What it says comes from the conformance suite's director and encoders; the faults are bytes of its own.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from history_delta_conformance.scripted_model import Scenario, chat, messages, responses
from history_delta_conformance.scripted_model.director import direct
from history_delta_protocol.dialect import dialect_of

from .model_server import ModelCall

_ENCODERS: dict[str, ModuleType] = {"chat": chat, "responses": responses, "messages": messages}
# What stands in the events that carry tool calls, dialect by dialect.
_TOOL_CALL = (b'"tool_calls":[', b'"type":"response.output_item.done"', b'"type":"content_block_stop"')
_ERROR = b'{"error":{"message":"try again","type":"server_error","code":null,"param":null}}'

Fault = Callable[[ModelCall, list[bytes]], None]


def fails(call: ModelCall, events: list[bytes]) -> None:
    call.respond(_ERROR, "Content-Type: application/json", status="500 Internal Server Error")


def refuses(call: ModelCall, events: list[bytes]) -> None:
    call.respond(_ERROR, "Content-Type: application/json", status="400 Bad Request")


def conflicts(call: ModelCall, events: list[bytes]) -> None:
    """A 409 of the model's own."""
    call.respond(_ERROR, "Content-Type: application/json", status="409 Conflict")


def is_busy_for_good(call: ModelCall, events: list[bytes]) -> None:
    call.respond(_ERROR, "Content-Type: application/json", status="429 Too Many Requests")


def is_busy(call: ModelCall, events: list[bytes]) -> None:
    call.respond(_ERROR, "Content-Type: application/json", "Retry-After: 1", status="429 Too Many Requests")


def cuts(call: ModelCall, events: list[bytes]) -> None:
    """Behind the last event of a tool call, before the one that says that all is said."""
    last = max(index for index, event in enumerate(events) if any(mark in event for mark in _TOOL_CALL))
    _stream(call, events[: last + 1])
    call.close()


def resets(call: ModelCall, events: list[bytes]) -> None:
    call.reset()


@dataclass(frozen=True)
class Played:
    """A call of the agent's main conversation: how many messages it had, and what was done about it."""

    messages: int
    fault: str


class FaultyModel:
    """``behave`` for a model server. ``faults`` names calls with tools by their number, from 1."""

    def __init__(self, scenario: Scenario, faults: Mapping[int, Fault]) -> None:
        self.played: list[Played] = []
        self._scenario, self._faults = scenario, faults
        self._lock = threading.Lock()

    def __call__(self, call: ModelCall) -> None:
        wanted = json.loads(call.body)
        dialect = dialect_of(call.request.target)
        assert dialect is not None, call.request.target
        encoder = _ENCODERS[dialect.name]
        offered = encoder.offered_tools(wanted)
        reply = direct(self._scenario, call.body, str(wanted.get("model")), offered)
        fault = self._next(wanted[dialect.history_key]) if offered else None
        if not wanted.get("stream"):
            call.respond(json.dumps(encoder.document(reply, wanted)).encode(), "Content-Type: application/json")
            return
        events = [event.data for event in encoder.stream(reply, wanted)]
        if fault is not None:
            fault(call, events)
        else:
            _stream(call, events)
            call.end()

    def _next(self, history: list[Any]) -> Fault | None:
        with self._lock:
            fault = self._faults.get(len(self.played) + 1)
            self.played.append(Played(len(history), fault.__name__ if fault else ""))
            return fault


def _stream(call: ModelCall, events: list[bytes]) -> None:
    call.stream("Content-Type: text/event-stream")
    for event in events:
        call.chunk(event)
