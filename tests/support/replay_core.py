# SPDX-License-Identifier: Apache-2.0
"""Plays calls through the shim's core on any Python from 3.6, in front of a server that takes everything at its word.

    python -I -S replay_core.py CALLS FOLDER...

Prints a line for each call: kind, reason, and the SHA-256 of what was sent, unpacked.
"""

import hashlib
import sys

sys.path[:0] = sys.argv[2:]

from history_delta_protocol import chain, encoding, wire  # noqa: E402
from history_delta_shim import core  # noqa: E402
from history_delta_shim.headers import header_value  # noqa: E402


def calls(path):
    with open(path, "rb") as source:
        while True:
            line = source.readline()
            if not line:
                return
            target, size = line.split()
            yield target.decode("ascii"), source.read(int(size))


def answer(exchange):
    taken = exchange.taken
    if taken is None:
        return 200, [(wire.VERSION_HEADER, "1")]
    new = taken.conversation
    return 200, [
        (wire.VERSION_HEADER, "1"),
        (wire.HELD_HEADER, f"{new.count} {chain.to_text(new.chain[-1])}"),
    ]


def unpacked(exchange):
    if header_value(exchange.headers, "Content-Encoding") == "gzip":
        return encoding.gunzip(exchange.body, wire.MAX_BODY_BYTES)
    return exchange.body


def main():
    shim = core.Core(rollout="r1", clock=lambda: 0.0)
    shim.capabilities_answered(200, [], b'{"version": 1, "encodings": ["gzip"]}')
    for number, (target, body) in enumerate(calls(sys.argv[1])):
        exchange = shim.start("POST", target, [("Content-Type", "application/json")], body)
        data = unpacked(exchange)
        line = " ".join([exchange.kind, str(exchange.reason), hashlib.sha256(data).hexdigest()])
        if number % 17 == 16 and exchange.kind in (core.DELTA, core.SELF_CONTAINED):
            resync = [(wire.VERSION_HEADER, "1"), (wire.RESYNC_HEADER, "unknown-base")]
            line += " " + exchange.answered(409, resync)
            assert exchange.body == body
        sys.stdout.write(line + " " + exchange.answered(*answer(exchange)) + "\n")


main()
