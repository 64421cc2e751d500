# SPDX-License-Identifier: Apache-2.0
"""Chain values: one SHA-256 that names an exact prefix of an exact history. SPEC.md section 5."""

import base64
import binascii
import hashlib
import struct
from typing import Any, List, Sequence

DIGEST_BYTES = 32
TEXT_LENGTH = 43

_length = struct.Struct(">Q").pack


def start(dialect_name: str) -> bytes:
    """h0, the chain value of the empty history: 32 bytes."""
    return hashlib.sha256(b"history-delta/1\n" + dialect_name.encode("ascii")).digest()


def begin(chain: bytes, separator: bytes, message_length: int) -> Any:
    """A SHA-256 to be updated with the next message's bytes: its digest is then the chain value after it."""
    return hashlib.sha256(chain + _length(len(separator)) + separator + _length(message_length))


def extend(chain: bytes, separator: bytes, message: bytes) -> bytes:
    """The chain value after one more message."""
    digest = begin(chain, separator, len(message))
    digest.update(message)
    return bytes(digest.digest())


def extend_over(chain: bytes, body: bytes, position: int, starts: Sequence[int], ends: Sequence[int]) -> List[bytes]:
    """The chain values after each of the messages of ``body`` at ``starts``/``ends``; the first separator begins at
    ``position``."""
    values = []
    view = memoryview(body)
    for first, end in zip(starts, ends):
        digest = begin(chain, body[position:first], end - first)
        digest.update(view[first:end])
        chain = digest.digest()
        values.append(chain)
        position = end
    return values


def item_hash(item: bytes) -> bytes:
    """The name of a head or a tail: SHA-256 of its bytes."""
    return hashlib.sha256(item).digest()


def to_text(digest: bytes) -> str:
    """43 characters of base64url without padding."""
    return base64.urlsafe_b64encode(digest).decode("ascii")[:TEXT_LENGTH]


def from_text(text: str) -> bytes:
    """The inverse of to_text; raises ValueError for anything that to_text does not give."""
    try:
        digest = base64.urlsafe_b64decode(text.encode("ascii") + b"=")
    except (UnicodeEncodeError, binascii.Error):
        raise ValueError("not base64url: %r" % text[:64])
    if len(digest) != DIGEST_BYTES or to_text(digest) != text:
        raise ValueError("not the canonical base64url of 32 bytes: %r" % text[:64])
    return digest
