# SPDX-License-Identifier: Apache-2.0
"""Content-Encoding of frames: one gzip member (RFC 1952), decompressed under a limit. SPEC.md section 6.5."""

import zlib
from typing import Iterator

from .frame import Malformed, TooLarge

_GZIP_WINDOW = 31
# Level 6 packs a tool output some percent tighter; beyond this size its time would be felt.
_TIGHT_BELOW = 262144
# The 18 bytes of a member's own header and trailer eat what a smaller frame could gain.
_MIN_BYTES = 160
# A piece may be a thousand times as large as what it came from.
_FEED_BYTES = 16384
_PIECE_BYTES = 262144


def gzip_if_smaller(data: bytes) -> bytes:
    """``data`` as one gzip member, or ``data`` itself where that is not larger. Deterministic: no time, no name."""
    if len(data) < _MIN_BYTES:
        return data
    compressor = zlib.compressobj(6 if len(data) < _TIGHT_BELOW else 1, zlib.DEFLATED, _GZIP_WINDOW)
    packed = compressor.compress(data) + compressor.flush()
    return packed if len(packed) < len(data) else data


def gunzip(data: bytes, limit: int) -> bytes:
    """The content of one gzip member. Raises TooLarge past ``limit`` bytes, while decompressing, and Malformed."""
    return b"".join(gunzip_pieces(data, limit))


def gunzip_pieces(data: bytes, limit: int) -> Iterator[bytes]:
    """The same, at most some hundred kilobytes at once: whoever iterates can stop before there is more of it."""
    decompressor = zlib.decompressobj(_GZIP_WINDOW)
    size = fed = 0
    while not decompressor.eof:
        given = decompressor.unconsumed_tail
        if not given:
            given = data[fed : fed + _FEED_BYTES]
            fed += len(given)
        try:
            piece = decompressor.decompress(given, _PIECE_BYTES)
        except zlib.error as error:
            raise Malformed("body", "not gzip: %s" % error)
        if not piece and not given:
            raise Malformed("body", "the gzip member is not complete")
        size += len(piece)
        if size > limit:
            raise TooLarge("the decompressed frame", limit, "max_body_bytes")
        yield piece
    if decompressor.unused_data or fed < len(data):
        raise Malformed("body", "bytes follow the gzip member")
