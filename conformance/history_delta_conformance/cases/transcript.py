# SPDX-License-Identifier: Apache-2.0
"""What crossed the wire while a case ran, in order, for whoever has to find out why it failed. Bounded."""

from collections import deque

_MOST_ENTRIES = 60
_MOST_BYTES = 1500


class Transcript:
    """``note`` what was sent or came; ``lines`` are for people: escaped, and shortened where there is much."""

    def __init__(self) -> None:
        self._entries: deque[tuple[str, str, bytes, int]] = deque(maxlen=_MOST_ENTRIES)
        self._dropped = 0
        self._stopped = False

    def note(self, where: str, what: str, data: bytes = b"") -> None:
        """``where`` names the connection, ``what`` says what happened there: ``sent``, ``received``, ``reset``."""
        if self._stopped:
            return
        if len(self._entries) == _MOST_ENTRIES:
            self._dropped += 1
        self._entries.append((where, what, data[:_MOST_BYTES], len(data)))

    def restart(self) -> None:
        """What came before does not matter any more."""
        if not self._stopped:
            self._entries.clear()
            self._dropped = 0

    def stop(self) -> None:
        """What is to be shown has happened: nothing more is noted."""
        self._stopped = True

    def lines(self) -> tuple[str, ...]:
        first = [f"({self._dropped} earlier ones are left out)"] if self._dropped else []
        return (*first, *(_line(*entry) for entry in self._entries))


def _line(where: str, what: str, data: bytes, length: int) -> str:
    if not length:
        return f"{where}: {what}"
    rest = f" … and {length - len(data)} octets more" if length > len(data) else ""
    return f"{where}: {what} {length} octets: {escaped(data)}{rest}"


def escaped(data: bytes) -> str:
    """Printable ASCII as it stands, all else as in a bytes literal."""
    return repr(data)[2:-1]
