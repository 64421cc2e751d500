# SPDX-License-Identifier: Apache-2.0
"""Which forward proxy, if any, the environment names for an upstream: HTTPS_PROXY, HTTP_PROXY and NO_PROXY.

Lower-case names go first, as everywhere. An upstream on this machine is never reached through a proxy.
"""

import base64
import re
from typing import Mapping, NamedTuple, Optional

from .origin import Origin, is_loopback


class Proxy(NamedTuple):
    """An http:// proxy; ``authorization`` is the value of Proxy-Authorization."""

    host: str
    port: int
    authorization: Optional[str]


_PROXY_URL = re.compile(r"(?:http://)?(?:([^@/]*)@)?(\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::([0-9]{1,5}))?/?\Z", re.I)


def proxy_for(origin: Origin, environ: Mapping[str, str]) -> Optional[Proxy]:
    """The proxy to use for the origin; ValueError names the variable where its value is not an http:// proxy."""
    if is_loopback(origin.host) or _excluded(origin, _variable(environ, "no_proxy")):
        return None
    name = origin.scheme + "_proxy"
    value = _variable(environ, name)
    if not value:
        return None
    match = _PROXY_URL.match(value)
    if match is None or int(match.group(3) or 80) > 65535:
        raise ValueError("%s: expected a proxy such as http://host:3128" % name.upper())
    credentials, host, port = match.groups()
    return Proxy(host.strip("[]"), int(port or 80), _basic(credentials))


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _basic(credentials: Optional[str]) -> Optional[str]:
    if not credentials:
        return None
    from urllib.parse import unquote_to_bytes

    return "Basic " + base64.b64encode(unquote_to_bytes(credentials)).decode("ascii")


def _excluded(origin: Origin, no_proxy: str) -> bool:
    return any(_matches(entry.strip().lower(), origin) for entry in no_proxy.split(",") if entry.strip())


def _matches(entry: str, origin: Origin) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        return _in_network(entry, origin.host)
    with_port = re.match(r"(.*):([0-9]+)\Z", entry) if entry.count(":") == 1 or "]:" in entry else None
    if with_port:
        if int(with_port.group(2)) != origin.port:
            return False
        entry = with_port.group(1)
    name = entry.strip("[]").lstrip("*").lstrip(".")
    return bool(name) and (origin.host == name or origin.host.endswith("." + name))


def _in_network(network: str, host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
