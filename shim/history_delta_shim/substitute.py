# SPDX-License-Identifier: Apache-2.0
"""Replaces the upstream's origin by the shim's, byte for byte, in whatever text an agent is configured with.

Not a parser: configuration may hold escapes that a parse and a rewrite would lose. Only the exact origin counts, with
its default port written out or left out; ``localhost`` and ``127.0.0.1`` are two origins.
"""

import os
import re
from typing import Dict, List

from .origin import host_port, parse_origin, url

# What would make the match a prefix of another origin: a longer host name or port.
_BOUNDARY = b"(?![0-9A-Za-z.:-])"


class Substitution(object):
    """Points text at ``shim`` wherever it names ``upstream``; both are origins such as ``http://127.0.0.1:4141``.

    Raises ValueError where ``upstream`` is no origin.
    """

    def __init__(self, upstream: str, shim: str) -> None:
        plain = [spelling.encode("ascii") for spelling in spellings(upstream)]
        escaped = [_escape(spelling) for spelling in plain]
        alternatives = b"|".join(re.escape(form) for form in plain + escaped)
        self._pattern = re.compile(b"(?:" + alternatives + b")" + _BOUNDARY)
        self._shim = shim.encode("ascii")
        # The way back, for a file that the agent edited while it was pointed at the shim.
        self._shim_pattern = re.compile(
            b"(?:%s|%s)%s" % (re.escape(self._shim), re.escape(_escape(self._shim)), _BOUNDARY)
        )
        self._upstream = plain[0]

    def found_in(self, data: bytes) -> bool:
        return self._pattern.search(data) is not None

    def apply(self, data: bytes) -> bytes:
        return self._pattern.sub(lambda match: _like(match.group(), self._shim), data)

    def undo(self, data: bytes) -> bytes:
        """The reverse of ``apply``, but for how the default port was written."""
        return self._shim_pattern.sub(lambda match: _like(match.group(), self._upstream), data)

    def matches_any_shim(self, original: bytes, data: bytes) -> bool:
        """Whether ``data`` is ``original`` pointed at some shim, that of this run or of another."""
        loopback = rb"http:(?://|\\/\\/)127\.0\.0\.1:[0-9]{1,5}"
        between = self._pattern.split(original)
        return re.match(loopback.join(re.escape(part) for part in between) + rb"\Z", data) is not None


def spellings(text: str) -> List[str]:
    """An origin as given, without a final slash, and its other spelling where its port is the scheme's own."""
    origin = parse_origin(text)
    as_given = text[:-1] if text.endswith("/") else text
    others = (url(origin), "%s://%s" % (origin.scheme, host_port(origin.host, origin.port)))
    return [as_given] + [other for other in others if other != as_given]


def apply_to_text(substitution: Substitution, text: str) -> str:
    """For arguments and environment values, which the system holds as bytes and Python decodes by its locale."""
    return os.fsdecode(substitution.apply(os.fsencode(text)))


def apply_to_environment(substitution: Substitution, environ: Dict[str, str]) -> Dict[str, str]:
    """Those variables whose value changes, with their new value; our own settings are left alone."""
    changed = {}
    for name, value in environ.items():
        replaced = apply_to_text(substitution, value)
        if replaced != value and not name.startswith("HISTORY_DELTA_"):
            changed[name] = replaced
    return changed


def _escape(origin: bytes) -> bytes:
    return origin.replace(b"/", b"\\/")


def _like(found: bytes, origin: bytes) -> bytes:
    return _escape(origin) if b"\\/" in found else origin
