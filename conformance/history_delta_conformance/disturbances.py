# SPDX-License-Identifier: Apache-2.0
"""What befalls the transport in the middle of a run, at a step of the main conversation that the scenario names.

Only decides which request is hit and how; the relays do it. Steps are told by the model's own markers, which stand in
full bodies and in the new messages of frames alike.
"""

import gzip
import re
import zlib
from collections.abc import Awaitable, Callable
from typing import Protocol

from .calls import is_model_call
from .observer import Exchange
from .relay import Intervention
from .scripted_model.scenario import Disturbance, Scenario

_EVENTS_BEFORE_CUT = 4
# An agent that finds the events and the break at once may do one thing or another.
_SILENCE_BEFORE_CUT = 1.0


class Transport(Protocol):
    """The processes that can be disturbed."""

    async def lose_server_state(self) -> None: ...

    async def switch_off(self) -> None: ...

    async def restart_shim(self) -> None: ...


class Disturbances:
    """The scenario's disturbances. ``at_agent`` and ``at_wire`` decide for the relay before and behind the shim; each
    disturbance strikes once. ``pending`` are those that have not struck yet."""

    def __init__(self, scenario: Scenario, transport: Transport) -> None:
        self.pending = list(scenario.disturbances)
        self._marker = re.compile(rb"\[" + re.escape(scenario.marker.encode()) + rb" step (\d+) of \d+\]")
        self._interventions: dict[str, Intervention] = {
            "server-loses-state": _meanwhile(transport.lose_server_state),
            "switched-off": _meanwhile(transport.switch_off),
            "shim-restarts": _meanwhile(transport.restart_shim),
            "drop-before": Intervention(drop=True),
            "drop-during": Intervention(cut_after=_EVENTS_BEFORE_CUT, silence=_SILENCE_BEFORE_CUT),
            "drop-after": Intervention(close_after=True),
            "repeat": Intervention(repeat=True),
        }

    def at_agent(self, exchange: Exchange) -> Intervention | None:
        return self._decide(exchange, before_shim=True)

    def at_wire(self, exchange: Exchange) -> Intervention | None:
        return self._decide(exchange, before_shim=False)

    def _decide(self, exchange: Exchange, before_shim: bool) -> Intervention | None:
        if not self.pending or not is_model_call(exchange):
            return None
        step = self._step(exchange)
        for disturbance in self.pending:
            if disturbance.step == step and _is_before_shim(disturbance) == before_shim:
                self.pending.remove(disturbance)
                return self._interventions[disturbance.kind]
        return None

    def _step(self, exchange: Exchange) -> int:
        """The step that this request asks for."""
        markers = self._marker.findall(_plain(exchange))
        return int(markers[-1]) + 1 if markers else 1


def _meanwhile(action: Callable[[], Awaitable[None]]) -> Intervention:
    return Intervention(meanwhile=action)


def _is_before_shim(disturbance: Disturbance) -> bool:
    return disturbance.kind == "shim-restarts"


def _plain(exchange: Exchange) -> bytes:
    if exchange.header("content-encoding") != "gzip":
        return exchange.body
    try:
        return gzip.decompress(exchange.body)
    except (OSError, EOFError, zlib.error):
        return exchange.body
