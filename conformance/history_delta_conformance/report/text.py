# SPDX-License-Identifier: Apache-2.0
"""Text and figures as every form of the report shows them. What an agent or a model wrote is never shown raw."""

import re

# C0 and C1 controls but for tab and newline, soft hyphen, zero-width and direction characters, separators that break
# lines, noncharacters, lone surrogates, tags: what cannot be seen, reorders what can, or no document may hold.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)
_UNITS = ("B", "kB", "MB", "GB", "TB")


def visible(text: str) -> str:
    """The text with every character that hides or misleads written as an escape, as Python writes it."""
    return _HIDDEN.sub(_escape, text)


def one_line(text: str) -> str:
    """The same, on one line."""
    return " ".join(visible(text).split())


def exact(number: int) -> str:
    return f"{number:,}"


def size(number: float) -> str:
    """Bytes in three digits or so: ``12.3 kB``. Units are powers of 1000."""
    unit = 0
    while number >= 999.5 and unit < len(_UNITS) - 1:
        number /= 1000
        unit += 1
    digits = 0 if unit == 0 or number >= 99.95 else 1
    return f"{number:.{digits}f} {_UNITS[unit]}"


def ratio(off: int, on: int) -> str:
    """How many times fewer ``on`` is: ``12.3x``; ``-`` without figures."""
    return f"{off / on:.1f}x" if off and on else "-"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def counted(number: int, singular: str, plural: str = "") -> str:
    """``1 request``, ``2 requests``."""
    return f"{exact(number)} {singular if number == 1 else plural or singular + 's'}"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if match[0] == "\r":
        return "\\r"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
