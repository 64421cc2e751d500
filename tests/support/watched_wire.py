# SPDX-License-Identifier: Apache-2.0
"""The conformance suite's recording relay, run beside a test that is not asynchronous itself.

What it saw is independent evidence of what crossed the wire between shim and server.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from history_delta_conformance.calls import is_model_call
from history_delta_conformance.observer import Exchange
from history_delta_conformance.relay import Relay
from history_delta_protocol.wire import FRAME_MEDIA_TYPE

FULL, FRAME = "full", "frame"


class Wire:
    """``origin`` is where the shim sends to."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self.origin = relay.url

    @property
    def model_calls(self) -> list[Exchange]:
        return [exchange for exchange in self._relay.exchanges if is_model_call(exchange)]

    @property
    def kinds(self) -> list[str]:
        """What each request to a model was, in order."""
        return [FRAME if call.content_type == FRAME_MEDIA_TYPE else FULL for call in self.model_calls]


@contextmanager
def watched_wire(server: str) -> Iterator[Wire]:
    """A relay to that origin."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    relay = Relay(server)
    asyncio.run_coroutine_threadsafe(relay.__aenter__(), loop).result()
    try:
        yield Wire(relay)
    finally:
        asyncio.run_coroutine_threadsafe(relay.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
