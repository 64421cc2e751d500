# SPDX-License-Identifier: Apache-2.0
"""Cases: the published vectors on the wire. Each case puts one family of them, and says which of it failed first.

A receiver that holds nothing is a rollout of its own: every vector gets one.
"""

import re
import secrets
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from history_delta_protocol import wire as names

from ..base import Case, CaseFailed, Check, NotRun
from ..check import equal, error_of, expect, refused, resync, speaks, told
from ..registry import SERVER
from ..vectors import Vector, octets, read
from ..wire import Response
from .target import Target

_LINE, _BODY = names.MAX_FRAME_LINE_BYTES, names.MAX_BODY_BYTES
_FIELD = re.compile(r"content_type|head|base|edits|append|tail|result|line|literals|body")


class Family(NamedTuple):
    """Vectors that show the same thing. A vector belongs to the first family of its file that has a pattern for it."""

    number: str
    title: str
    requirements: str
    patterns: str


FAMILIES = {
    "split": (
        Family("3.1", "nesting up to 514 levels, in the tail without limit", "F-9 F-8", "depth-*"),
        Family("3.2", "histories of up to 100,000 messages", "F-10", "most-messages too-many-messages"),
        Family("3.3", "blanks are the four of JSON", "F-6", "blank-[0bfnuv]* spaced indented* blanks-everywhere"),
        Family("3.4", "byte order marks and wide encodings are not understood", "F-6 F-2", "byte-order-mark utf-*"),
        Family("3.5", "the tail is not looked at", "F-8", "tail-*"),
        Family("3.6", "octets in strings", "F-7", "*-in-strings lone-surrogates every-escape quotes-* key-surrogate"),
        Family("3.7", "escapes that are none", "F-7 F-2", "escape-*"),
        Family("3.8", "numbers of any size, converted by nobody", "F-7 F-11", "wide-* long-* number-one number-twelve"),
        Family("3.9", "numbers and words that are none", "F-7 F-2", "number-* word-*"),
        Family(
            "3.10",
            "which member is the history",
            "F-7 F-2",
            "key-* history-is-* history-[flm]*[!s] no-history only-history",
        ),
        Family("3.11", "histories that are not well-formed are not understood", "F-2", "history-* message-* object-*"),
        Family("3.12", "each dialect has its key and its chain", "S-6", "chat responses* messages*"),
        Family("3.13", "other bodies, understood and not", "F-2 S-6 F-7", "*"),
    ),
    "scenarios": (
        Family("4.1", "messages are appended, to any prefix that is held", "S-17 F-12", "append-* base-* number-*"),
        Family("4.2", "frames that take nothing held", "F-16 S-17", "self-contained*"),
        Family("4.3", "several conversations, dialects and rollouts", "S-17 S-28", "*-apart identical-* forks title-*"),
        Family("4.4", "heads and tails: held, literal, in pieces", "F-16 F-12", "*-tail* tail-* head-* compaction-*"),
        Family("4.5", "messages and items out of pieces", "F-12 F-19", "message-* 64-pieces pieces-*"),
        Family("4.6", "separators stay with their messages", "F-18", "odd-* first-removed inserted-first *-indented"),
        Family("4.7", "content types are put back as they were", "S-9 F-15", "content-type-*"),
        Family("4.8", "the line in other spellings, and of 64 KiB", "F-12 F-14", "line-*"),
        Family("4.9", "gzip-coded frames", "F-20", "gzip*"),
        Family("4.10", "edits, truncation, compaction, strange messages", "F-17 F-18 S-17 F-1", "*"),
    ),
    "resync": (
        Family("5.1", "unknown-base", "S-14 S-19", "nothing-held base-never-sent"),
        Family("5.2", "a base of another count, rollout or dialect is unknown", "S-16 S-28", "*base-*"),
        Family("5.3", "unknown-head, before unknown-tail", "S-14 S-19", "head-*"),
        Family("5.4", "unknown-tail", "S-14 S-19 S-28", "tail-*"),
        Family("5.5", "mismatch of the length, found before anything is copied", "S-14", "*-length-* *-amplified"),
        Family("5.6", "mismatch of count, chain value, head or tail", "S-15", "mismatch-*"),
        Family("5.7", "nothing of a refused frame is held", "S-15", "*"),
    ),
    "refused": (
        Family("6.1", "the frame that the others break is taken", "F-12 F-13 F-17 S-17", "rich"),
        Family(
            "6.14", "over the limits by default", "S-13 S-11", "line-too-long line-endless body-too-large gzip-bomb"
        ),
        Family("6.13", "what is not one gzip member", "F-20 S-12", "gzip-*"),
        Family("6.11", "literals too few or too many", "F-13 S-12", "literals-* not-a-frame frame-empty"),
        Family("6.10", "lines that are no JSON object", "F-13 S-12", "line-*"),
        Family("6.6", "hashes that encoding does not give", "F-4 S-12", "base[[]1[]]-* tail.of-* result[[][123]]-*"),
        Family("6.7", "content types that no request may have", "F-15 S-12", "content-type-*"),
        Family("6.12", "copies behind their source's end", "F-19 S-12", "copy-past* copy-far*"),
        Family("6.2", "members that are missing, unknown or there twice", "F-13 S-12", "missing-* unknown-* twice-*"),
        Family(
            "6.8",
            "edits out of order, or of nothing",
            "F-17 S-12",
            "edits-[dsb]* edits-ov* edit-[!sl]* edit-so*",
        ),
        Family("6.3", "arrays of a wrong length", "F-13 S-12", "*-short *-long"),
        Family("6.4", "booleans, fractions and negatives for integers", "F-14 S-12", "*-boolean *-fraction *-negative"),
        Family(
            "6.9",
            "integers out of their range",
            "F-14 S-12",
            "*ert-empty app*-empty copy-* piece*-empty 65-* *-many *-2-*",
        ),
        Family("6.5", "other spellings and types for integers", "F-14 S-12", "*[]]-* *.of-* number-*"),
        Family("6.15", "values of wrong types", "F-13 F-14 S-12", "*"),
    ),
}


def vectors_of(file: str, family: Family) -> list[Vector]:
    return [vector for vector in read(file)["cases"] if _family(file, vector["id"]) is family]


def _family(file: str, name: str) -> Family:
    return next(
        family for family in FAMILIES[file] if any(fnmatchcase(name, pattern) for pattern in family.patterns.split())
    )


class _Steps:
    """Goes through the steps of one vector, on rollouts of its own."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._salt = secrets.token_hex(8)

    async def take(self, step: Vector) -> None:
        options = {"dialect": step["dialect"], "rollout": f"{step['rollout']}-{self._salt}"}
        self._target.model.calls.clear()
        if step["send"] == "full":
            body = octets(step["body"])
            await self._passed_on(await self._target.full(body, **options), step, body)
            return
        coding = step.get("content_encoding")
        extra = [("Content-Encoding", coding)] if coding else []
        response = await self._target.frame(octets(step["frame"]), extra=extra, **options)
        speaks(response)
        if "refused" in step:
            self._refused(response, step["refused"])
            return
        await self._passed_on(response, step, octets(step["body"]))
        self._as_the_agent_sent_it(step["content_type"])

    async def _passed_on(self, response: Response, step: Vector, body: bytes) -> None:
        await self._target.taken(body, response)
        wanted = [] if step["held"] is None else [" ".join(map(str, step["held"]))]
        equal(names.HELD_HEADER, response.values(names.HELD_HEADER), wanted)

    def _as_the_agent_sent_it(self, content_type: str | None) -> None:
        request = self._target.model.only().request
        equal(
            "Content-Type at the model", request.values("Content-Type"), [] if content_type is None else [content_type]
        )
        equal("Content-Encoding at the model", request.values("Content-Encoding"), [])

    def _refused(self, response: Response, how: dict[str, Any]) -> None:
        if "reason" in how:
            resync(response, how["reason"])
        else:
            refused(response, how["status"], how["code"])
        if how["code"] == names.MALFORMED_CODE:
            # Which one is not looked at: what is wrong can often be said of several.
            expect(_FIELD.search(str(error_of(response).get("message"))), "an error that names a field", told(response))
        seen = len(self._target.model.calls)
        expect(not seen, "no call at the model", f"{seen}")


async def _can_be_put(target: Target, vector: Vector) -> bool:
    """Vectors for a limit suit a server with that limit alone; the cases of group 7 look at the server's own."""
    steps = vector.get("steps", ())
    coded = any(step.get("content_encoding") for step in steps)
    if coded and "gzip" not in (await target.capabilities()).get("encodings", ()):
        return False
    for name, value in vector.get("limits", {}).items():
        if await target.limit(name, 0) != value:
            return False
    settings = {step["refused"].get("setting") for step in steps if "refused" in step}
    if "max_frame_line_bytes" in settings and await target.limit("frame_line_bytes", _LINE) != _LINE:
        return False
    return vector["id"] != "body-too-large" or await target.limit("body_bytes", _BODY) <= _BODY


async def put(target: Target, file: str, family: Family) -> None:
    """Every vector of the family; fails with the first that does not come out, and names the others."""
    failures: list[tuple[Vector, CaseFailed]] = []
    count = 0
    for vector in vectors_of(file, family):
        if not await _can_be_put(target, vector):
            continue
        count += 1
        target.transcript.restart()
        try:
            await _put_one(target, file, vector)
        except CaseFailed as failure:
            target.transcript.stop()
            failures.append((vector, failure))
    if failures:
        vector, first = failures[0]
        others = ", ".join(other["id"] for other, _ in failures[1:])
        rest = f"; {len(failures)} of {count} vectors failed, also {others}" if others else ""
        where = f"vector {vector['id']} of {file}.json ({vector['about']})"
        raise CaseFailed(f"in {where}: {first.expected}", first.got + rest)
    if not count:
        raise NotRun("the server has other limits or codings than these vectors are for")


async def _put_one(target: Target, file: str, vector: Vector) -> None:
    steps, document = _Steps(target), read(file)
    own = vector["steps"] if "steps" in vector else [_full_send(vector)]
    for step in (*document.get("before", ()), *own, *document.get("after", ())):
        await steps.take(step)


def _full_send(vector: Vector) -> Vector:
    split = vector["split"]
    held = None if split is None else split["held"]
    return {"send": "full", "rollout": "a", "dialect": vector["dialect"], "body": vector["body"], "held": held}


def _check(file: str, family: Family) -> Check:
    async def check(target: Target) -> None:
        await put(target, file, family)

    return check


for _file, _families in FAMILIES.items():
    for _family_of_file in _families:
        SERVER.add(
            Case(
                SERVER.kind,
                _family_of_file.number,
                _family_of_file.title,
                tuple(_family_of_file.requirements.split()),
                _check(_file, _family_of_file),
            )
        )
