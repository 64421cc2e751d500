# SPDX-License-Identifier: Apache-2.0
"""Piece lists: a new item told as copies out of an old one and literal bytes between them. SPEC.md section 6.4."""

import re
from typing import Dict, List, Match, Optional, Tuple, Union

from .wire import MAX_PIECES

# A copy (offset, length) out of the old item, or bytes that stand for themselves.
Piece = Union[Tuple[int, int], bytes]

# What a copy costs in the frame's line is about this much; a shorter one does not pay.
_MIN_COPY = 16
_CHUNK = 65536
# Searching looks at every fragment: beyond this the shared ends have to do.
_MAX_SEARCHED = 16384
# JSON members and elements are what agents re-order: a fragment is what stands between their marks, and the marks
# behind it, which differ for the last of an object.
_FRAGMENTS = re.compile(rb"([^,{}\[\]]*)(?:[,{}\[\]]+|\Z)")


def common_prefix(old: bytes, old_start: int, old_end: int, new: bytes, new_start: int, new_end: int) -> int:
    """How many leading bytes ``old[old_start:old_end]`` and ``new[new_start:new_end]`` share."""
    length = min(old_end - old_start, new_end - new_start)
    done = 0
    while done < length:
        step = min(_CHUNK, length - done)
        if old[old_start + done : old_start + done + step] != new[new_start + done : new_start + done + step]:
            break
        done += step
    if done == length:
        return done
    low, high = 0, min(_CHUNK, length - done) - 1
    while low < high:
        middle = (low + high + 1) // 2
        begin = done + low
        if old[old_start + begin : old_start + done + middle] == new[new_start + begin : new_start + done + middle]:
            low = middle
        else:
            high = middle - 1
    return done + low


def common_suffix(old: bytes, new: bytes, limit: int) -> int:
    """How many trailing bytes the two share, at most ``limit``."""
    low, high = 0, min(limit, len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[len(old) - middle : len(old) - low] == new[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def diff(old: bytes, new: bytes) -> Optional[List[Piece]]:
    """The pieces that make ``new`` out of ``old``, at most MAX_PIECES; None where nothing worth copying is shared."""
    prefix = common_prefix(old, 0, len(old), new, 0, len(new))
    suffix = common_suffix(old, new, min(len(old), len(new)) - prefix)
    if prefix < _MIN_COPY:
        prefix = 0
    if suffix < _MIN_COPY:
        suffix = 0
    if not prefix and not suffix:
        return None
    middle = new[prefix : len(new) - suffix]
    inner = _fragments(old[prefix : len(old) - suffix], prefix, middle)
    pieces: List[Piece] = []
    if prefix:
        pieces.append((0, prefix))
    pieces.extend(inner)
    if suffix:
        pieces.append((len(old) - suffix, suffix))
    return pieces


def _fragments(old: bytes, offset: int, new: bytes) -> List[Piece]:
    """Finds re-ordered fragments of ``new`` in ``old``, which begins at ``offset`` of its item, in linear time."""
    if not new or max(len(old), len(new)) > _MAX_SEARCHED:
        return [new] if new else []
    places: Dict[bytes, int] = {}
    for fragment in _FRAGMENTS.finditer(old):
        places.setdefault(fragment.group(1), fragment.start())
    pieces: List[Piece] = []
    copied = 0  # how far the pieces go in ``new``
    follows = -1  # where the last copy ended in ``old``, as long as nothing else has come since
    for fragment in _FRAGMENTS.finditer(new):
        start = fragment.start()
        length = _agreeing(old, follows, fragment) if follows >= 0 and copied == start else 0
        if length:
            begin, before = pieces[-1]
            pieces[-1] = (begin, before + length)
        else:
            found = places.get(fragment.group(1), -1)
            if found < 0 or len(fragment.group(1)) < _MIN_COPY:
                continue
            if copied < start:
                pieces.append(new[copied:start])
            length = _agreeing(old, found, fragment)
            follows = found
            pieces.append((offset + found, length))
        copied = start + length
        follows += length
        if len(pieces) > MAX_PIECES - 2:
            return [new]
    if copied < len(new):
        pieces.append(new[copied:])
    return pieces if len(pieces) <= MAX_PIECES - 2 else [new]


def _agreeing(old: bytes, place: int, fragment: "Match[bytes]") -> int:
    """How much of a fragment stands at a place of ``old``: all, all but the marks behind it, or nothing."""
    if old.startswith(fragment.group(), place):
        return len(fragment.group())
    return len(fragment.group(1)) if old.startswith(fragment.group(1), place) else 0


def size_of(pieces: List[Piece]) -> int:
    """The length of the item that the pieces make."""
    return sum(len(piece) if isinstance(piece, bytes) else piece[1] for piece in pieces)


def apply(old: bytes, pieces: List[Piece], begin: int = 0) -> bytes:
    """The item that the pieces make out of ``old[begin:]``, in time that goes with what they make. Raises ValueError
    for a copy beyond its end."""
    out = []
    for piece in pieces:
        if isinstance(piece, bytes):
            out.append(piece)
            continue
        offset, length = piece
        if begin + offset + length > len(old):
            raise ValueError("copies %d bytes at %d of an item of %d bytes" % (length, offset, len(old) - begin))
        out.append(old[begin + offset : begin + offset + length])
    return b"".join(out)
