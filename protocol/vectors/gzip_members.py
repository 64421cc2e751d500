# SPDX-License-Identifier: Apache-2.0
"""Gzip members (RFC 1952) made bit by bit, so that they are the same whatever compression library is about."""

import struct
import zlib

from describe import run


def stored(data: bytes, *, name: bytes = b"", time: int = 0, block: int = 65_535) -> bytes:
    """``data`` in deflate blocks that are stored as they are; the last one may be empty."""
    pieces = [data[at : at + block] for at in range(0, len(data), block)]
    blocks = [b"\x00" + struct.pack("<HH", len(piece), 0xFFFF ^ len(piece)) + piece for piece in pieces]
    end = b"\x01\x00\x00\xff\xff"
    return header(name, time) + b"".join(blocks) + end + trailer(zlib.crc32(data), len(data))


def header(name: bytes = b"", time: int = 0) -> bytes:
    return (
        b"\x1f\x8b\x08"
        + (b"\x08" if name else b"\x00")
        + struct.pack("<I", time)
        + b"\x00\xff"
        + name
        + b"\x00" * bool(name)
    )


def trailer(check: int, length: int) -> bytes:
    return struct.pack("<II", check, length % 2**32)


def zeros(periods: int) -> bytes:
    """1 + 2064 * ``periods`` zeros: 13 octets for each 2064, with fixed Huffman codes."""
    start = "1" + "10" + "00110000"  # the last block, of fixed codes; a literal zero
    copy = "11000101" + "00000"  # 258 octets from one octet back
    period = copy * 8
    few = _octets(start + period * 2 + "0000000")
    # The codes end inside an octet, but repeat with whole ones: the first two octets, then 13 again and again.
    deflated = few[:2] + run(few[2:15], periods - 1) + few[15:]
    check = 0
    for size in [1] + [2064 * 1000] * (periods // 1000) + [2064] * (periods % 1000):
        check = zlib.crc32(bytes(size), check)
    member = header() + deflated + trailer(check, 1 + 2064 * periods)
    assert zlib.decompress(member, 31) == bytes(1 + 2064 * periods)
    return member


def _octets(bits: str) -> bytes:
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))
