# SPDX-License-Identifier: Apache-2.0
"""Faults in a request's body, of the kinds that have befallen software of this class in public."""

import json
import re
from typing import Any

from .history import spans
from .mutant import BodyMutant

_LETTER = re.compile(rb"(?<=[a-z]{3})[a-z]")
_ARGUMENTS = re.compile(rb'("arguments"\s*:\s*)("[^"\\]*(?:\\.[^"\\]*)*")', re.DOTALL)
_INPUT = re.compile(r'"type"\s*:\s*"tool_use".*?"input"\s*:\s*(?=\{)', re.DOTALL)


class DropMessage(BodyMutant):
    name, finding = "drop-message", "message-missing"
    description = "a message in the midst of the history is left out"

    def changed(self, body: bytes) -> bytes | None:
        found = spans(body)
        return body[: found[2][0]] + body[found[3][0] :] if found else None


class RepeatMessage(BodyMutant):
    name, finding = "repeat-message", "message-added"
    description = "an old message is put into the history once more"

    def changed(self, body: bytes) -> bytes | None:
        found = spans(body)
        return body[: found[3][0]] + body[found[2][0] :] if found else None


class ReorderMessages(BodyMutant):
    name, finding = "reorder-messages", "messages-reordered"
    description = "two messages change places"

    def changed(self, body: bytes) -> bytes | None:
        found = spans(body)
        if not found:
            return None
        (start, end), (other_start, other_end) = found[2], found[3]
        moved = body[other_start:other_end] + body[end:other_start] + body[start:end]
        return body[:start] + moved + body[other_end:]


class ChangeByte(BodyMutant):
    name, finding = "change-byte", "message-changed"
    description = "one letter of the newest message becomes a capital"

    def changed(self, body: bytes) -> bytes | None:
        found = spans(body)
        letters = list(_LETTER.finditer(body, *found[-1])) if found else []
        if not letters:
            return None
        place = letters[-1].start()
        return body[:place] + body[place : place + 1].upper() + body[place + 1 :]


class RewriteArguments(BodyMutant):
    name, finding = "rewrite-arguments", "arguments-rewritten"
    description = "a tool call's arguments are parsed and written anew: the same JSON, other blanks and order of keys"

    def changed(self, body: bytes) -> bytes | None:
        if found := _ARGUMENTS.search(body):
            arguments = _rewritten(json.loads(found[2]))
            return body[: found.start(2)] + json.dumps(arguments).encode() + body[found.end(2) :]
        text = body.decode()
        if found_input := _INPUT.search(text):
            _, end = json.JSONDecoder().raw_decode(text, found_input.end())
            return (text[: found_input.end()] + _rewritten(text[found_input.end() : end]) + text[end:]).encode()
        return None


def _rewritten(arguments: str) -> str:
    value: dict[str, Any] = json.loads(arguments)
    turned = dict(reversed(value.items()))
    compact = json.dumps(turned, ensure_ascii=False, separators=(",", ":"))
    return compact if compact != arguments else json.dumps(turned, ensure_ascii=False, separators=(" , ", " : "))


class ReserialiseBody(BodyMutant):
    name, finding = "re-serialise-body", "body-re-serialised"
    description = "the whole body is parsed and written anew"

    def changed(self, body: bytes) -> bytes | None:
        return json.dumps(json.loads(body), indent=1).encode() if spans(body) else None


class ChangeEnvelope(BodyMutant):
    name, finding = "change-envelope", "envelope-changed"
    description = "a sampling parameter is added"

    def changed(self, body: bytes) -> bytes | None:
        return b'{"temperature":0,' + body[1:] if spans(body) else None
