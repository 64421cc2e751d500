# SPDX-License-Identifier: Apache-2.0
"""Bodies for cases, and frames that stand for them, made with the reference codec and easily broken afterwards."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from history_delta_protocol import chain, frame, scan
from history_delta_protocol.dialect import DIALECTS

Messages = list[tuple[bytes, bytes]]
_KEYS = {dialect.name: dialect.history_key for dialect in DIALECTS}


@dataclass(frozen=True)
class Parts:
    """A body taken apart: head, (separator, message) pairs, tail; and the chain value after each message."""

    head: bytes
    messages: Messages
    tail: bytes
    chain: list[bytes]

    @property
    def held(self) -> str:
        """The value of History-Delta-Held."""
        return f"{len(self.messages)} {chain.to_text(self.chain[-1])}"


def parts_of(body: bytes, dialect: str = "chat") -> Parts:
    """Raises NotUnderstood."""
    found = scan.split(body, _KEYS[dialect])
    messages: Messages = []
    values = [chain.start(dialect)]
    position = found.head_end
    for start, end in zip(found.starts, found.ends, strict=True):
        messages.append((body[position:start], body[start:end]))
        values.append(chain.extend(values[-1], *messages[-1]))
        position = end
    return Parts(body[: found.head_end], messages, body[found.tail_start :], values)


def held(body: bytes, dialect: str = "chat") -> str:
    return parts_of(body, dialect).held


def result_of(body: bytes, dialect: str = "chat") -> frame.Result:
    parts = parts_of(body, dialect)
    hashes = chain.item_hash(parts.head), chain.item_hash(parts.tail)
    return frame.Result(len(parts.messages), parts.chain[-1], *hashes, len(body))


def delta(old: bytes, new: bytes, dialect: str = "chat", content_type: str | None = "application/json") -> frame.Frame:
    """``new`` as what it appends to the messages that it has in common with ``old``; head and tail held where equal."""
    before, after = parts_of(old, dialect), parts_of(new, dialect)
    base = 0
    while base < min(len(before.messages), len(after.messages)) and before.messages[base] == after.messages[base]:
        base += 1
    return frame.Frame(
        content_type,
        frame.HELD if before.head == after.head else after.head,
        base,
        after.chain[base],
        [],
        after.messages[base:],
        frame.HELD if before.tail == after.tail else after.tail,
        result_of(new, dialect),
    )


def self_contained(body: bytes, dialect: str = "chat", content_type: str | None = "application/json") -> frame.Frame:
    """The whole body as a frame that takes nothing held."""
    parts = parts_of(body, dialect)
    return frame.Frame(
        content_type, parts.head, 0, parts.chain[0], [], parts.messages, parts.tail, result_of(body, dialect)
    )


def encoded(made: frame.Frame) -> bytes:
    return frame.encode(made)


def broken(made: frame.Frame, change: Callable[[dict[str, Any]], object]) -> bytes:
    """Its octets after ``change`` has been at the members of its line."""
    line, _, literals = frame.encode(made).partition(b"\n")
    members = json.loads(line)
    change(members)
    return json.dumps(members, separators=(",", ":")).encode("ascii") + b"\n" + literals


def message(text: str, role: str = "user") -> str:
    return json.dumps({"role": role, "content": text}, separators=(",", ":"))


def body_of(messages: Sequence[str], dialect: str = "chat", model: str = "m") -> bytes:
    """A body with these messages, as agents write them."""
    return f'{{"model":"{model}","{_KEYS[dialect]}":[{",".join(messages)}],"stream":true}}'.encode()


def conversation(count: int, salt: str = "", dialect: str = "chat") -> bytes:
    """A body with ``count`` messages; each longer one of the same salt begins with all shorter ones."""
    return body_of([message(f"message {salt} number {number}") for number in range(count)], dialect)
