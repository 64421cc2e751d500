# SPDX-License-Identifier: Apache-2.0
"""Keeps one copy of bytes that many rollouts hold: system prompts, tool lists, the task's first messages.

It shares memory and nothing else: nobody can look a content up here, so one rollout never learns what another holds.
"""

from dataclasses import dataclass

import xxhash

# Below this the table's own entry costs more than a second copy.
_MIN_BYTES = 512


@dataclass(slots=True)
class _Entry:
    data: bytes
    references: int = 0


class Interner:
    """Reference-counted table of equal bytes. Every ``intern`` is paired with one ``release``."""

    def __init__(self) -> None:
        self._entries: dict[bytes, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def intern(self, data: bytes) -> bytes:
        """The copy to keep of ``data``: the one that is there, or ``data`` itself."""
        if len(data) < _MIN_BYTES:
            return data
        entry = self._entries.setdefault(self._key(data), _Entry(data))
        # The hash is not made to withstand forging; a collision is simply not shared.
        if entry.data != data:
            return data
        entry.references += 1
        return entry.data

    def release(self, data: bytes) -> None:
        """Undo one ``intern`` that returned ``data``."""
        if len(data) < _MIN_BYTES:
            return
        key = self._key(data)
        entry = self._entries.get(key)
        if entry is None or entry.data is not data:
            return
        entry.references -= 1
        if not entry.references:
            del self._entries[key]

    @staticmethod
    def _key(data: bytes) -> bytes:
        return xxhash.xxh3_128_digest(data)
