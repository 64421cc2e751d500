# SPDX-License-Identifier: Apache-2.0
"""What the shim knows of the server in front of it: whether it speaks the protocol, and with what capabilities."""

import json
from typing import Any, Callable, Dict, FrozenSet, NamedTuple

from history_delta_protocol import wire

_FIRST_PAUSE_SECONDS = 60.0
_LONGEST_PAUSE_SECONDS = 600.0


class Capabilities(NamedTuple):
    """What the server's capabilities document grants. The defaults are what every server takes."""

    encodings: FrozenSet[str] = frozenset()
    frame_line_bytes: int = wire.MAX_FRAME_LINE_BYTES
    body_bytes: int = wire.MAX_BODY_BYTES
    messages: int = wire.MAX_MESSAGES
    pieces: int = wire.MAX_PIECES


class Peer(object):
    """Unknown at first; asked at a slow, bounded rate until it has given its capabilities."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ask_at = clock()
        self._pause = _FIRST_PAUSE_SECONDS
        self._asked = False
        self.speaking = False
        self.capabilities = Capabilities()

    def ask_now(self) -> bool:
        """Whether to ask for capabilities before this call; at most one caller in a pause is told yes."""
        now = self._clock()
        if self._asked or now < self._ask_at:
            return False
        self._ask_at = now + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)
        return True

    def answered(self, status: int, body: bytes) -> None:
        """The answer to the capabilities question, whatever it is."""
        try:
            document = json.loads(body.decode("utf-8")) if status == 200 else None
        except (ValueError, RecursionError):
            document = None
        # As in a frame, a boolean is no integer.
        version = _mapping(document).get("version")
        if not isinstance(document, dict) or type(version) is not int or version != wire.PROTOCOL_VERSION:
            self.silent()
            return
        limits = _mapping(document.get("limits"))
        encodings = document.get("encodings")
        self.capabilities = Capabilities(
            frozenset(name for name in encodings if isinstance(name, str))
            if isinstance(encodings, list)
            else frozenset(),
            _smaller(limits.get("frame_line_bytes"), wire.MAX_FRAME_LINE_BYTES),
            _smaller(limits.get("body_bytes"), wire.MAX_BODY_BYTES),
            _smaller(limits.get("messages"), wire.MAX_MESSAGES),
            _smaller(limits.get("pieces"), wire.MAX_PIECES),
        )
        self.speaking = self._asked = True
        self._pause = _FIRST_PAUSE_SECONDS

    def spoke(self) -> None:
        """It answered with the protocol's version, asked or not."""
        self.speaking = True

    def silent(self) -> None:
        """It does not speak the protocol, or no longer: full bodies, and another question after the pause."""
        self.speaking = self._asked = False
        self.capabilities = Capabilities()
        self._ask_at = max(self._ask_at, self._clock() + _FIRST_PAUSE_SECONDS)


def _mapping(value: Any) -> Dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _smaller(value: Any, most: int) -> int:
    return min(value, most) if type(value) is int and value > 0 else most
