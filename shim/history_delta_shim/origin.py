# SPDX-License-Identifier: Apache-2.0
"""An origin: scheme, host and port, which is all that an upstream is here, for the path is the agent's own."""

import re
from typing import NamedTuple, Tuple


class Origin(NamedTuple):
    """``scheme`` is http or https, ``host`` a name or an address without brackets, in lower case."""

    scheme: str
    host: str
    port: int


_DEFAULT_PORTS = {"http": 80, "https": 443}
_ORIGIN = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::([0-9]{1,5}))?/?\Z", re.IGNORECASE)
_HOST_PORT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+):([0-9]{1,5})\Z")


def parse_origin(text: str) -> Origin:
    """``http://host:port`` or ``https://host``; ValueError for anything else, a path or credentials included."""
    match = _ORIGIN.match(text)
    if match is None:
        raise ValueError("expected an origin such as http://host:8000, without path or credentials")
    scheme = match.group(1).lower()
    port = int(match.group(3) or _DEFAULT_PORTS[scheme])
    if not 0 < port < 65536:
        raise ValueError("expected a port from 1 to 65535")
    return Origin(scheme, match.group(2).strip("[]").lower(), port)


def parse_host_port(text: str) -> Tuple[str, int]:
    """``host:port`` as (host, port); ValueError for anything else. Port 0 stands for any free one."""
    match = _HOST_PORT.match(text)
    if match is None or int(match.group(2)) > 65535:
        raise ValueError("expected HOST:PORT such as 127.0.0.1:0")
    return match.group(1).strip("[]"), int(match.group(2))


def host_port(host: str, port: int) -> str:
    """host:port, with brackets round an IPv6 address."""
    return ("[%s]:%d" if ":" in host else "%s:%d") % (host, port)


def authority(origin: Origin) -> str:
    """What stands in a Host header: the port only where it is not the scheme's own."""
    text = host_port(origin.host, origin.port)
    return text[: text.rindex(":")] if origin.port == _DEFAULT_PORTS[origin.scheme] else text


def url(origin: Origin) -> str:
    """The origin as it is written in a configuration, without a final slash."""
    return "%s://%s" % (origin.scheme, authority(origin))


def is_loopback(host: str) -> bool:
    """Whether the name or address stands for this machine by its spelling; nothing is looked up."""
    return (
        host in ("localhost", "::1")
        or host.endswith(".localhost")
        or re.match(r"127(\.\d{1,3}){3}\Z", host) is not None
    )
