# SPDX-License-Identifier: Apache-2.0
"""Texts as a person can read them: broken into lines at JSON members and line ends, and two of them as a diff.

No character is changed or left out but for the line breaks that are put in, so that a difference in layout shows.
"""

import difflib
import re

_MOST_LINES = 200
_WIDTH = 160
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]|[^"{}\[\],]+|.', re.DOTALL)


def diff(off: str, on: str) -> str:
    """A unified diff, off to on; empty if they are the same."""
    shown = list(difflib.unified_diff(lines(off), lines(on), "off", "on", n=2, lineterm=""))
    left_out = len(shown) - _MOST_LINES
    if left_out > 0:
        shown[_MOST_LINES:] = [f"… {left_out} more lines of this diff are left out"]
    return "\n".join(shown)


def lines(text: str) -> list[str]:
    """One line for each JSON member, element and line of a string; a long one is wrapped."""
    broken = [piece for line in text.split("\n") for piece in (_members(line) if _is_json(line) else [line])]
    return [line[start : start + _WIDTH] for line in broken for start in range(0, max(len(line), 1), _WIDTH)]


def _is_json(line: str) -> bool:
    return line.lstrip()[:1] in ("{", "[") or '":' in line


def _members(text: str) -> list[str]:
    depth, current, broken = 0, "", []
    for token in _TOKEN.findall(text):
        if token in "}]":
            broken.append(current)
            depth = max(depth - 1, 0)
            current = " " * depth + token
            continue
        current += token.replace("\\n", "\\n\n") if token.startswith('"') else token
        if token in "{[,":
            depth += token != ","
            broken.append(current)
            current = " " * depth
    return [line for piece in [*broken, current] for line in piece.split("\n") if line.strip()]


def preview(text: str, width: int = 70) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"
