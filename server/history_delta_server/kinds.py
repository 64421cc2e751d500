# SPDX-License-Identifier: Apache-2.0
"""The kinds of value that a setting can have: how each is read from text and from TOML, and what it must be.

Readers raise ValueError; what a person sees is made of the kind's ``expected``. A secret is never shown.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address, or a Unix socket where ``path`` is set."""

    host: str = ""
    port: int = 0
    path: str | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UpstreamUrl:
    """A model server: origin and base path (no slash at its end)."""

    scheme: str
    host: str
    port: int
    base_path: str

    @property
    def authority(self) -> str:
        """The value of its Host header: without the port that the scheme implies."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.base_path}"


@dataclass(frozen=True, slots=True)
class Kind:
    """``read`` takes text (flag or variable); ``from_toml`` a decoded value, by default text alone."""

    expected: str
    read: Callable[[str], Any]
    metavar: str
    toml_types: tuple[type, ...] = (str,)
    many: bool = False
    secret: bool = False

    def from_toml(self, value: object) -> Any:
        if self.many and isinstance(value, list) and all(isinstance(item, str) for item in value):
            return self.read(" ".join(value))
        # type(), not isinstance(): true is no integer.
        if type(value) not in self.toml_types:
            raise ValueError(value)
        return self.read(str(value))


_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNITS = {"": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30}
_SIZE = re.compile(r"([0-9]{1,18})\s*(|kib|mib|gib)", re.IGNORECASE)
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in _BOOLEANS:
        raise ValueError(text)
    return _BOOLEANS[word]


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    size = int(match[1]) * _UNITS[match[2].lower()] if match else 0
    if not size:
        raise ValueError(text)
    return size


def _count(text: str) -> int:
    count = int(text) if text.strip().isascii() and text.strip().isdigit() else 0
    if not count:
        raise ValueError(text)
    return count


def _one(text: str) -> int:
    if text.strip() != "1":
        raise ValueError(text)
    return 1


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e9:
        raise ValueError(text)
    return seconds


def _nonempty(text: str) -> str:
    if not text.strip() or "\0" in text:
        raise ValueError(text)
    return text


def _key(text: str) -> str:
    if not _VISIBLE.fullmatch(text.strip()):
        raise ValueError
    return text.strip()


def _log_format(text: str) -> str:
    if text not in ("json", "text"):
        raise ValueError(text)
    return text


def _tcp_address(text: str) -> Address:
    host, colon, port = text.strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(text)
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError(text)
    return Address(host, int(port))


def _address(text: str) -> Address:
    if text.startswith("unix:"):
        return Address(path=_nonempty(text[len("unix:") :]))
    return _tcp_address(text)


def _upstreams(text: str) -> tuple[UpstreamUrl, ...]:
    urls = tuple(dict.fromkeys(_upstream(part) for part in text.replace(",", " ").split()))
    if not urls:
        raise ValueError(text)
    return urls


def _upstream(text: str) -> UpstreamUrl:
    url = urlsplit(text)
    port = _DEFAULT_PORTS.get(url.scheme) if url.port is None else url.port
    plain = text.isascii() and "@" not in url.netloc and "?" not in text and "#" not in text
    if not port or not url.hostname or not plain or not _VISIBLE.fullmatch(text):
        raise ValueError(text)
    return UpstreamUrl(url.scheme, url.hostname, port, url.path.rstrip("/"))


BOOLEAN = Kind("1 or 0, true or false, yes or no, on or off", _boolean, "BOOL", (bool,))
SIZE = Kind("a number of bytes over 0, such as 65536 or 64KiB", _size, "BYTES", (int, str))
COUNT = Kind("an integer over 0", _count, "N", (int,))
ONE = Kind("1; more workers are not supported yet", _one, "N", (int,))
SECONDS = Kind("a number of seconds over 0", _seconds, "SECONDS", (int, float))
PATH = Kind("a path", _nonempty, "FILE")
KEY = Kind("visible ASCII characters without blanks", _key, "KEY", secret=True)
LOG_FORMAT = Kind("json or text", _log_format, "FORMAT")
TCP_ADDRESS = Kind("HOST:PORT", _tcp_address, "HOST:PORT")
ADDRESS = Kind("HOST:PORT or unix:/path", _address, "HOST:PORT")
UPSTREAMS = Kind(
    "one or several http:// or https:// URLs without user, query and fragment", _upstreams, "URL", (str,), many=True
)
