# SPDX-License-Identifier: Apache-2.0
"""SPEC.md sections 4, 5 and 6 written down once more, byte by byte and slowly, to test the real thing against.

It shares no code with the package under test and calls no JSON parser. It is not meant to be fast, nor to be used.
"""

import base64
import hashlib
from dataclasses import dataclass

MAX_LEVEL = 514
MAX_MESSAGES = 100_000
HISTORY_KEYS = {"chat": "messages", "responses": "input", "messages": "messages"}

BLANKS = b" \t\r\n"
DIGITS = b"0123456789"
HEX_DIGITS = b"0123456789abcdefABCDEF"
SHORT_ESCAPES = {
    ord(char): code for char, code in zip('"\\/bfnrt', [0x22, 0x5C, 0x2F, 0x08, 0x0C, 0x0A, 0x0D, 0x09], strict=True)
}
WORDS = [b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity"]


class NotUnderstood(Exception):
    """The body is outside the grammar or its limits."""


@dataclass
class Split:
    head: bytes
    messages: list[tuple[bytes, bytes]]
    tail: bytes

    @property
    def body(self) -> bytes:
        return self.head + b"".join(separator + message for separator, message in self.messages) + self.tail


def split(body: bytes, dialect: str) -> Split:
    """Section 4.2."""
    wanted = list(HISTORY_KEYS[dialect].encode())
    at = expect(body, blanks(body, 0), b"{")
    while True:
        key, at = string(body, blanks(body, at))
        at = blanks(body, expect(body, blanks(body, at), b":"))
        if key == wanted:
            return split_history(body, expect(body, at, b"["))
        at = expect(body, blanks(body, value(body, at, 1)), b",")


def split_history(body: bytes, head_end: int) -> Split:
    messages: list[tuple[bytes, bytes]] = []
    end = head_end
    while True:
        start = blanks(body, end)
        if body[start : start + 1] == b"]":
            return Split(body[:head_end], messages, body[end:])
        if messages:
            start = blanks(body, expect(body, start, b","))
        if len(messages) == MAX_MESSAGES:
            raise NotUnderstood("too many messages")
        stop = value(body, start, 2)
        messages.append((body[end:start], body[start:stop]))
        end = stop


def blanks(body: bytes, at: int) -> int:
    while at < len(body) and body[at] in BLANKS:
        at += 1
    return at


def expect(body: bytes, at: int, mark: bytes) -> int:
    if body[at : at + 1] != mark:
        raise NotUnderstood(f"expected {mark!r} at {at}")
    return at + 1


def value(body: bytes, at: int, level: int) -> int:
    """The end of the value that starts at ``at``, inside ``level`` open brackets. No recursion: depth is a number."""
    open_brackets: list[int] = []
    while True:
        mark = body[at : at + 1]
        if mark in (b"[", b"{"):
            open_brackets.append(body[at])
            if level + len(open_brackets) > MAX_LEVEL:
                raise NotUnderstood("too deep")
            at = blanks(body, at + 1)
            if body[at : at + 1] != closing(open_brackets[-1]):
                at = key_and_colon(body, at) if mark == b"{" else at
                continue
        elif mark == b'"':
            at = string(body, at)[1]
        else:
            at = scalar(body, at)
        # A value, or the inside of an open bracket, has ended here: close all that closes.
        while open_brackets:
            at = blanks(body, at)
            if body[at : at + 1] != closing(open_brackets[-1]):
                break
            open_brackets.pop()
            at += 1
        if not open_brackets:
            return at
        at = blanks(body, expect(body, at, b","))
        if open_brackets[-1] == ord("{"):
            at = key_and_colon(body, at)


def closing(bracket: int) -> bytes:
    return b"]" if bracket == ord("[") else b"}"


def key_and_colon(body: bytes, at: int) -> int:
    at = string(body, at)[1]
    return blanks(body, expect(body, blanks(body, at), b":"))


def string(body: bytes, at: int) -> tuple[list[int], int]:
    """A string's octets and \\u code units as numbers, and its end."""
    at = expect(body, at, b'"')
    content: list[int] = []
    while at < len(body) and body[at] != ord('"'):
        if body[at] != ord("\\"):
            content.append(body[at])
            at += 1
            continue
        escape = body[at + 1 : at + 2]
        if escape == b"u":
            digits = body[at + 2 : at + 6]
            if len(digits) != 4 or any(digit not in HEX_DIGITS for digit in digits):
                raise NotUnderstood(f"bad escape at {at}")
            content.append(int(digits, 16))
            at += 6
        elif escape and escape[0] in SHORT_ESCAPES:
            content.append(SHORT_ESCAPES[escape[0]])
            at += 2
        else:
            raise NotUnderstood(f"bad escape at {at}")
    return content, expect(body, at, b'"')


def scalar(body: bytes, at: int) -> int:
    for word in WORDS:
        if body[at : at + len(word)] == word:
            return at + len(word)
    return number(body, at)


def number(body: bytes, at: int) -> int:
    if body[at : at + 1] == b"-":
        at += 1
    end = digits(body, at)
    if end == at:
        raise NotUnderstood(f"no value at {at}")
    if body[at : at + 1] == b"0":
        end = at + 1
    if body[end : end + 1] == b"." and digits(body, end + 1) > end + 1:
        end = digits(body, end + 1)
    if body[end : end + 1] in (b"e", b"E"):
        sign = 1 if body[end + 1 : end + 2] in (b"+", b"-") else 0
        if digits(body, end + 1 + sign) > end + 1 + sign:
            end = digits(body, end + 1 + sign)
    return end


def digits(body: bytes, at: int) -> int:
    while at < len(body) and body[at] in DIGITS:
        at += 1
    return at


# Section 5.


def chain_values(dialect: str, messages: list[tuple[bytes, bytes]]) -> list[bytes]:
    """h0, h1, … : one more than there are messages."""
    values = [hashlib.sha256(b"history-delta/1\n" + dialect.encode()).digest()]
    for separator, message in messages:
        data = values[-1] + len(separator).to_bytes(8, "big") + separator + len(message).to_bytes(8, "big") + message
        values.append(hashlib.sha256(data).digest())
    return values


def text(digest: bytes) -> str:
    return base64.b64encode(digest, b"-_").decode().rstrip("=")


def item_text(item: bytes) -> str:
    return text(hashlib.sha256(item).digest())
