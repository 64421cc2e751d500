# SPDX-License-Identifier: Apache-2.0
"""Keeps one copy of bytes that many rollouts hold: system prompts, tool lists, the task's first messages.

It shares memory and nothing else: nobody can look a content up here, so one rollout never learns what another holds.
"""

# Below this the table's own entry costs more than a second copy.
_MIN_BYTES = 512


class Interner:
    """Reference-counted table of equal bytes. Every ``intern`` is paired with one ``release``."""

    def __init__(self) -> None:
        self._copies: dict[bytes, bytes] = {}
        # References beyond the first: most contents are held once, and need no number.
        self._more: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._copies)

    def intern(self, data: bytes) -> bytes:
        """The copy to keep of ``data``: the one that is there, or ``data`` itself."""
        if len(data) < _MIN_BYTES:
            return data
        copy = self._copies.get(data)
        if copy is None:
            self._copies[data] = data
            return data
        self._more[copy] = self._more.get(copy, 0) + 1
        return copy

    def release(self, data: bytes) -> None:
        """Undo one ``intern`` that returned ``data``."""
        if len(data) < _MIN_BYTES:
            return
        more = self._more.pop(data, 0)
        if not more:
            del self._copies[data]
        elif more > 1:
            self._more[data] = more - 1
