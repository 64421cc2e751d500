# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: UP031, RUF005, B904, B905
"""Runs the vectors against the package, on any Python from 3.6 on and with nothing but the standard library:
``python -I -S run_vectors.py PROTOCOL_FOLDER VECTORS_FOLDER``. test_vectors.py runs the same checks under pytest.

The Receiver is what is left of a server when only rebuilding remains. It is for tests: it forgets nothing.
"""

import base64
import hashlib
import json
import os
import sys

if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])

from history_delta_protocol import chain, dialect, encoding, frame, pieces, scan, wire

DIALECTS = {known.name: known for known in dialect.DIALECTS}


def load(folder, name):
    with open(os.path.join(str(folder), name + ".json"), encoding="ascii") as file:
        content = json.load(file)
    assert content["format"] == "history-delta-vectors/1"
    return content


def expand(described):
    """The octets of a description, checked."""
    data = _expand(described["segments"])
    assert len(data) == described["length"]
    assert hashlib.sha256(data).hexdigest() == described["sha256"]
    return data


def _expand(segments):
    parts = []
    for segment in segments:
        if "repeat" in segment:
            parts.append(_expand(segment["repeat"]) * segment["times"])
        elif "base64" in segment:
            parts.append(base64.b64decode(segment["base64"]))
        else:
            parts.append(segment["text"].encode("utf-8"))
    return b"".join(parts)


class Resync(Exception):
    pass


class Receiver:
    """Takes full bodies and frames; gives (body, content type, held), or raises."""

    def __init__(self, body_bytes, line_bytes):
        self._limits = body_bytes, line_bytes
        self._histories = {}  # (rollout, chain value) -> [(separator, message)…]
        self._items = {}  # (rollout, hash) -> octets

    def receive_full(self, rollout, named, body):
        try:
            found = scan.split(body, named.history_key)
        except scan.NotUnderstood:
            return body, None, None
        ends = [found.head_end] + list(found.ends)
        messages = [(body[end:start], body[start:stop]) for end, start, stop in zip(ends, found.starts, found.ends)]
        return body, None, self._hold(rollout, named, body[: found.head_end], messages, body[found.tail_start :])

    def receive_frame(self, rollout, named, data):
        received = frame.decode(data, *self._limits)
        result = received.result
        base = [] if received.base_chain == chain.start(named.name) else None
        base = self._histories.get((rollout, received.base_chain), base)
        if base is None or len(base) != received.base_count:
            raise Resync(wire.RESYNC_UNKNOWN_BASE)
        head = self._source(rollout, received.head, result.head, wire.RESYNC_UNKNOWN_HEAD)
        tail = self._source(rollout, received.tail, result.tail, wire.RESYNC_UNKNOWN_TAIL)
        edits = [
            (edit.at, edit.remove, [(new, base[new[1].source][1] if _made(new[1]) else None) for new in edit.insert])
            for edit in received.edits
        ]
        length = _length(received.head, head) + _length(received.tail, tail) + _total(base)
        length += sum(_length(new[1], None) + len(new[0]) for _, _, insert in edits for new, _ in insert)
        length -= sum(_total(base[at : at + remove]) for at, remove, _ in edits)
        if length + _total(received.append) != result.length:
            raise Resync(wire.RESYNC_MISMATCH)
        messages, position = [], 0
        for place, (at, remove, insert) in enumerate(edits):
            messages += base[position:at]
            for index, ((separator, message), source) in enumerate(insert):
                messages.append((separator, _apply(message, source, "edits[%d][2][%d][1]" % (place, index))))
            position = at + remove
        messages += base[position:] + received.append
        head, tail = _apply(received.head, head, "head"), _apply(received.tail, tail, "tail")
        values = _chain(named, messages)
        if (len(messages), values[-1]) != (result.message_count, result.chain):
            raise Resync(wire.RESYNC_MISMATCH)
        if (chain.item_hash(head), chain.item_hash(tail)) != (result.head, result.tail):
            raise Resync(wire.RESYNC_MISMATCH)
        held = self._hold(rollout, named, head, messages, tail)
        return (
            head + b"".join(separator + message for separator, message in messages) + tail,
            received.content_type,
            held,
        )

    def _source(self, rollout, item, digest, unknown):
        if isinstance(item, bytes):
            return b""
        source = self._items.get((rollout, item.source if _made(item) else digest))
        if source is None:
            raise Resync(unknown)
        return source

    def _hold(self, rollout, named, head, messages, tail):
        values = _chain(named, messages)
        for count, value in enumerate(values[1:], 1):
            self._histories[rollout, value] = messages[:count]
        for item in (head, tail):
            self._items[rollout, chain.item_hash(item)] = item
        return [len(messages), chain.to_text(values[-1])]


def _chain(named, messages):
    values = [chain.start(named.name)]
    for separator, message in messages:
        values.append(chain.extend(values[-1], separator, message))
    return values


def _made(item):
    return isinstance(item, frame.Pieces)


def _total(messages):
    return sum(len(separator) + len(message) for separator, message in messages)


def _length(item, held):
    return pieces.size_of(item.pieces) if _made(item) else len(item if isinstance(item, bytes) else held)


def _apply(item, source, field):
    try:
        return pieces.apply(source, item.pieces) if _made(item) else item if isinstance(item, bytes) else source
    except ValueError as error:
        raise frame.Malformed(field + ".pieces", str(error))


def check_split(case):
    body = expand(case["body"])
    named = DIALECTS[case["dialect"]]
    expected = case["split"]
    try:
        found = scan.split(body, named.history_key)
    except scan.NotUnderstood:
        assert expected is None, "not understood"
        return
    assert expected is not None, "understood"
    starts, ends = list(found.starts), list(found.ends)
    values = chain.extend_over(chain.start(named.name), body, found.head_end, starts, ends)
    values.insert(0, chain.start(named.name))
    told = [[start - end, stop - start] for end, start, stop in zip([found.head_end] + ends, starts, ends)]
    assert expected["messages"] in (told, None)
    assert expected["chain"] in ([chain.to_text(value) for value in values], None)
    assert expected["held"] == [len(ends), chain.to_text(values[-1])]
    assert expected["head_length"] == found.head_end
    assert expected["tail_length"] == len(body) - found.tail_start
    assert expected["head_hash"] == chain.to_text(chain.item_hash(body[: found.head_end]))
    assert expected["tail_hash"] == chain.to_text(chain.item_hash(body[found.tail_start :]))


def check_scenario(case, before=(), after=(), make_receiver=Receiver, refusals=(Resync,)):
    limits = case.get("limits", {})
    body_bytes = limits.get("body_bytes", wire.MAX_BODY_BYTES)
    receiver = make_receiver(body_bytes, limits.get("frame_line_bytes", wire.MAX_FRAME_LINE_BYTES))
    for number, step in enumerate(list(before) + case["steps"] + list(after)):
        outcome = _outcome(receiver, step, body_bytes, refusals)
        assert outcome == _expected(step), "step %d: %.300r" % (number, outcome)


def _expected(step):
    if "refused" in step:
        return step["refused"]
    return {"body": expand(step["body"]), "content_type": step.get("content_type"), "held": step["held"]}


def _outcome(receiver, step, body_bytes, refusals):
    named = DIALECTS[step["dialect"]]
    try:
        if step["send"] == "full":
            body, content_type, held = receiver.receive_full(step["rollout"], named, expand(step["body"]))
        else:
            data = expand(step["frame"])
            if step.get("content_encoding"):
                data = encoding.gunzip(data, body_bytes)
            body, content_type, held = receiver.receive_frame(step["rollout"], named, data)
    except frame.Malformed as error:
        return {"status": 400, "code": wire.MALFORMED_CODE, "field": error.field}
    except frame.TooLarge as error:
        return {"status": 413, "code": wire.TOO_LARGE_CODE, "setting": error.setting}
    except refusals as error:
        return {"status": wire.RESYNC_STATUS, "code": wire.RESYNC_CODE, "reason": str(error)}
    return {"body": body, "content_type": content_type, "held": held}


def check_target(case):
    named = dialect.dialect_of(case["target"])
    rollout, split = dialect.rollout_of(case["target"], case["rollout_header"])
    asked = dialect.capabilities_path(case["target"]) if named else None
    assert (named and named.name) == case["dialect"]
    assert (rollout, split.prefix, asked) == (case["rollout"], case["prefix"], case["capabilities"])


def check_refused_target(case):
    try:
        dialect.rollout_of(case["target"], case["rollout_header"])
    except dialect.InvalidRolloutId:
        assert case["refused"] == {"status": 400, "code": wire.ROLLOUT_CODE}
    else:
        raise AssertionError("not refused")


def check_delivery_id(case):
    assert bool(dialect.DELIVERY_ID.match(case["text"])) is case["valid"]


def check_hash(case):
    try:
        digest = chain.from_text(case["text"]).hex()
    except ValueError:
        digest = None
    assert digest == case["hex"]


NAMES = [
    ("targets", check_target),
    ("refused_targets", check_refused_target),
    ("delivery_ids", check_delivery_id),
    ("hashes", check_hash),
]
SCENARIOS = ["scenarios", "resync", "refused"]


def all_checks(folder):
    """(name, function, arguments) of every case there is."""
    for case in load(folder, "split")["cases"]:
        yield "split/" + case["id"], check_split, (case,)
    for name in SCENARIOS:
        content = load(folder, name)
        for case in content["cases"]:
            around = content.get("before", ()), content.get("after", ())
            yield name + "/" + case["id"], check_scenario, (case,) + around
    names = load(folder, "names")
    for key, check in NAMES:
        for number, case in enumerate(names[key]):
            yield "%s/%d" % (key, number), check, (case,)


def main(folder):
    failed = total = 0
    for name, check, arguments in all_checks(folder):
        total += 1
        try:
            check(*arguments)
        except Exception as error:
            failed += 1
            print("%s: %s %.500s" % (name, type(error).__name__, error))
    print("%d of %d cases failed" % (failed, total))
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[2]))
