# SPDX-License-Identifier: Apache-2.0
"""Header lists as (name, value) pairs in the order in which they came, and which of them may travel on.

Nothing here merges, sorts or re-cases a header: what is passed on is passed on as it was written.
"""

from typing import List, Optional, Tuple

from history_delta_protocol import wire

Headers = List[Tuple[str, str]]

# RFC 9110, section 7.6.1, with the proxy's own credentials, which are not the upstream's business.
_HOP_BY_HOP = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "transfer-encoding",
        "upgrade",
    ]
)
# What says where a message ends or whom it is for: set anew on each hop, and never taken from a trailer.
FRAMING = ("content-length", "host", "trailer")
# Of a request: whom it is for is said where and as the agent says it (see ``addressed``).
REQUEST_FRAMING = ("content-length", "trailer", "expect")
# Naming one of these in Connection does not take it away: they say where a message ends or whom it is for.
_NOT_BY_CONNECTION = frozenset(["content-length", "content-type", "content-encoding", "host", "authorization"])


def values(headers: Headers, name: str) -> List[str]:
    """The values of every header of that (lower-case) name, in order."""
    return [value for key, value in headers if key.lower() == name]


def header_value(headers: Headers, name: str) -> Optional[str]:
    """The first value of a header, whatever the case of either name."""
    return next(iter(values(headers, name.lower())), None)


def tokens(headers: Headers, name: str) -> List[str]:
    """The lower-case members of a comma-separated header, over all its lines."""
    members = ",".join(values(headers, name)).split(",")
    return [member.strip().lower() for member in members if member.strip()]


def end_to_end(headers: Headers, without: Tuple[str, ...] = ()) -> Headers:
    """What may travel on: no hop-by-hop header, none that Connection names, none of ours, none of ``without``."""
    dropped = _HOP_BY_HOP.union(without, (t for t in tokens(headers, "connection") if t not in _NOT_BY_CONNECTION))
    return [(name, value) for name, value in strip_own(headers) if name.lower() not in dropped]


def addressed(headers: Headers, authority: str) -> Headers:
    """A request's headers for another host: its name stands where the agent put the first one, in the agent's case."""
    first = next((index for index, (name, _) in enumerate(headers) if name.lower() == "host"), None)
    if first is None:
        return [("Host", authority)] + headers
    rest = [header for header in headers[first + 1 :] if header[0].lower() != "host"]
    return headers[:first] + [(headers[first][0], authority)] + rest


def strip_own(headers: Headers) -> Headers:
    """Headers without the protocol's: those are hop-local."""
    return [(name, value) for name, value in headers if not name.lower().startswith(wire.HEADER_PREFIX)]
