# SPDX-License-Identifier: Apache-2.0
"""Gzip of frames: there and back, refused where it is not exactly one member, and bounded while it grows."""

import contextlib
import gzip
import sys
import tracemalloc

import pytest
from history_delta_protocol import encoding
from history_delta_protocol.frame import Malformed, TooLarge
from hypothesis import given
from hypothesis import strategies as st

LIMIT = 1_000_000


@given(st.binary(max_size=2000) | st.text("ab", max_size=3000).map(str.encode))
def test_there_and_back(data):
    packed = encoding.gzip_if_smaller(data)
    assert packed == data or (len(packed) < len(data) and encoding.gunzip(packed, LIMIT) == data)


@pytest.mark.parametrize("size", [262_143, 262_144, 3_000_000])
def test_large_frames_too(size):
    data = b"0123456789abcdef" * (size // 16) + b"x" * (size % 16)
    assert encoding.gunzip(encoding.gzip_if_smaller(data), size) == data


def test_what_would_not_shrink_stays():
    assert encoding.gzip_if_smaller(b"a" * 159) == b"a" * 159
    noise = bytes(range(256))
    assert encoding.gzip_if_smaller(noise) is noise


def test_packing_is_deterministic():
    assert encoding.gzip_if_smaller(b"abc" * 100) == encoding.gzip_if_smaller(b"abc" * 100)


def test_members_of_other_writers_are_read():
    assert encoding.gunzip(gzip.compress(b"abc", mtime=12345), 3) == b"abc"
    with_name = gzip.compress(b"abc", mtime=0)
    with_name = with_name[:3] + b"\x08" + with_name[4:10] + b"name\x00" + with_name[10:]
    assert encoding.gunzip(with_name, 3) == b"abc"


@given(st.binary(max_size=300))
def test_any_bytes_are_content_or_malformed(data):
    with contextlib.suppress(Malformed):
        assert len(encoding.gunzip(data, LIMIT)) <= LIMIT


@pytest.mark.parametrize("cut", range(1, 24))
def test_an_incomplete_member_is_malformed(cut):
    packed = gzip.compress(b"some content", mtime=0)
    with pytest.raises(Malformed, match="not complete"):
        encoding.gunzip(packed[:-cut], LIMIT)


def test_a_damaged_check_value_is_malformed():
    packed = bytearray(gzip.compress(b"some content", mtime=0))
    packed[-5] ^= 1
    with pytest.raises(Malformed, match="not gzip"):
        encoding.gunzip(bytes(packed), LIMIT)


@pytest.mark.parametrize("behind", [b"\x00", b"x", gzip.compress(b"", mtime=0), gzip.compress(b"more", mtime=0)])
def test_anything_behind_the_member_is_malformed(behind):
    with pytest.raises(Malformed, match="follow"):
        encoding.gunzip(gzip.compress(b"some content", mtime=0) + behind, LIMIT)


@given(st.integers(0, 300), st.integers(0, 300))
def test_the_limit_is_exact(size, limit):
    packed = gzip.compress(b"a" * size, mtime=0)
    if size <= limit:
        assert encoding.gunzip(packed, limit) == b"a" * size
    else:
        with pytest.raises(TooLarge) as caught:
            encoding.gunzip(packed, limit)
        assert (caught.value.limit, caught.value.setting) == (limit, "max_body_bytes")


def test_a_bomb_takes_no_more_memory_than_the_limit():
    bomb = gzip.compress(bytes(200_000_000), 9, mtime=0)
    assert len(bomb) < 300_000
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            encoding.gunzip(bomb, LIMIT)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * LIMIT + 2 * sys.getsizeof(bomb)
