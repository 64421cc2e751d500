# SPDX-License-Identifier: Apache-2.0
"""Header lists as they stand on the wire: (name, value) in bytes, with their order, case and duplicates.

Says what travels on in either direction and what does not; knows no sockets.
"""

from collections.abc import Iterable, Sequence

from history_delta_protocol import wire

Header = tuple[bytes, bytes]
Headers = Sequence[Header]

_OURS = wire.HEADER_PREFIX.encode("ascii")
_FRAME = wire.FRAME_MEDIA_TYPE.encode("ascii")
# RFC 9110, 7.6.1, with the older names; Expect is answered by us (we have the body, or ask for it ourselves).
_HOP_BY_HOP = frozenset(
    [
        b"connection",
        b"expect",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    ]
)


def values(headers: Headers, name: bytes) -> list[bytes]:
    """All values of a header; ``name`` in lower case."""
    return [value for key, value in headers if key.lower() == name]


def tokens(headers: Headers, name: bytes) -> set[bytes]:
    """The lower-case members of a comma-separated header."""
    return {token.strip().lower() for value in values(headers, name) for token in value.split(b",")} - {b""}


def size(headers: Headers) -> int:
    """How many bytes they take on the wire."""
    return sum(len(name) + len(value) + 4 for name, value in headers)


def end_to_end(headers: Headers) -> list[Header]:
    """What is left for the next hop: no hop-by-hop header, none that Connection names, none of ours."""
    dropped = _HOP_BY_HOP | (tokens(headers, b"connection") - _KEPT)
    return [header for header in headers if (name := header[0].lower()) not in dropped and not name.startswith(_OURS)]


# A peer cannot have these taken away by naming them in Connection.
_KEPT = frozenset([b"authorization", b"content-encoding", b"content-length", b"content-type", b"host", b"x-api-key"])


def replaced(headers: Iterable[Header], name: bytes, value: bytes | None) -> list[Header]:
    """With one header of that name at most: ``value`` in the first one's place (or at the end), or none."""
    kept: list[Header] = []
    missing = value is not None
    for header in headers:
        if header[0].lower() != name.lower():
            kept.append(header)
        elif missing and value is not None:
            kept.append((header[0], value))
            missing = False
    if missing and value is not None:
        kept.append((name, value))
    return kept


def names_frame(headers: Headers) -> bool:
    """Whether the body is said to be a frame, in whatever case and with whatever parameters."""
    return any(
        part.partition(b";")[0].strip().lower() == _FRAME
        for value in values(headers, b"content-type")
        for part in value.split(b",")
    )


def with_credentials(headers: Iterable[Header], api_key: str | None, *, messages_dialect: bool) -> list[Header]:
    """The operator's credential in place of the sandbox's; without one, the sandbox's own travels on."""
    if api_key is None:
        return list(headers)
    key = api_key.encode("ascii")
    result = replaced(headers, b"Authorization", b"Bearer " + key)
    return replaced(result, b"x-api-key", key if messages_dialect else None)


def serialize(start_line: bytes, headers: Headers) -> bytes:
    """A message head. Raises ValueError for a line break or NUL, which would forge a header."""
    lines = [start_line, *(name + b": " + value for name, value in headers)]
    if any(_FORGING & set(line) for line in lines):
        raise ValueError("a line break or NUL in a header")
    return b"\r\n".join(lines) + b"\r\n\r\n"


_FORGING = set(b"\r\n\0")
