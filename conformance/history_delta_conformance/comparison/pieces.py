# SPDX-License-Identifier: Apache-2.0
"""A request as the pieces in which one is compared with another: request line, headers, envelope and messages.

Pieces are raw text. A body that is no model call's JSON has none but itself.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ..budget import Parts, parts_of
from .evidence import ModelRequest

# RFC 9110, section 7.6.1, what frames a body, and Host, which names the next hop: each hop writes its own.
_OF_THE_CONNECTION = (
    *("connection", "content-length", "expect", "host", "keep-alive", "proxy-connection"),
    *("te", "trailer", "transfer-encoding", "upgrade"),
)
_STEP = re.compile(r"(.*) ([0-9]+)")


@dataclass(frozen=True)
class Pieces:
    """One request, normalised. ``number`` is its place among all of its run."""

    label: str
    number: int
    line: str
    headers: tuple[str, ...]
    body: str

    @property
    def head(self) -> tuple[str, ...]:
        return self.line, *self.headers

    @cached_property
    def text(self) -> str:
        return "\n".join(self.head) + "\n\n" + self.body

    @cached_property
    def messages(self) -> tuple[str, ...]:
        return () if self.parts is None else self.parts.messages

    @cached_property
    def count(self) -> Counter[str]:
        """All pieces, for what two requests have in common."""
        body = (self.body,) if self.parts is None else (*self.parts.members, *self.parts.messages)
        return Counter((*self.head, *body))

    @cached_property
    def parts(self) -> Parts | None:
        """Envelope and history as raw text; None for a body that is not a model call's."""
        return parts_of(self.line.partition(" ")[2], self.body.encode(errors="surrogateescape"))


def raw_text(request: ModelRequest) -> str:
    """Head and body of a request as one text, without what belongs to its connection."""
    head = [f"{request.method} {request.path}"]
    head += [f"{name}: {value}" for name, value in request.headers if name.lower() not in _OF_THE_CONNECTION]
    return "\n".join(head) + "\n\n" + request.body.decode(errors="surrogateescape")


def pieces_of(label: str, number: int, text: str) -> Pieces:
    head, _, body = text.partition("\n\n")
    line, *headers = head.split("\n")
    return Pieces(label, number, line, tuple(headers), body)


def split_label(label: str) -> tuple[str, int]:
    """The conversation and the step; step 0 where the model counts none."""
    found = _STEP.fullmatch(label)
    return (found[1], int(found[2])) if found else (label, 0)
