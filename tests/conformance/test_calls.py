# SPDX-License-Identifier: Apache-2.0
"""Rows of calls, joined from relays, recordings and logs; equality rests on relays and recordings alone."""

import gzip
import hashlib
import json

from history_delta_conformance.calls import (
    calls_with_shim,
    calls_without_shim,
    plain_bytes,
    read_events,
    received_by_model,
    sent_by_agent,
)
from history_delta_conformance.observer import Exchange
from history_delta_conformance.scripted_model import Recorder

TARGET = "/ng-rollout/r/v1/responses"


def exchange(body, *headers, target=TARGET, **fields):
    return Exchange(0, "POST", target, list(headers), 0.0, body, len(body) + 100, True, 200, **fields)


def recordings(*bodies):
    recorder = Recorder()
    for body in bodies:
        recorder.record("POST", "/v1/responses", [], body)
    return recorder.recordings


def shim_event(body, delivery, **fields):
    sha256 = hashlib.sha256(body).hexdigest()
    event = {"event": "call", "delivery": delivery, "kind": "delta", "path": TARGET, "body_bytes": len(body)}
    return event | {"sha256": sha256, "prepare_ms": 1.5, "status": 200} | fields


def test_a_row_joins_all_that_was_sent_for_a_delivery():
    body, frame = b"the whole body", gzip.compress(b"frame")
    sent = [
        exchange(frame, ("History-Delta-Delivery", "d1"), ("Content-Encoding", "gzip")),
        exchange(body, ("history-delta-delivery", "d1")),
        exchange(b"other", ("History-Delta-Delivery", "d2")),
    ]
    served = [{"delivery": "d1", "rebuild_ms": 0.25}]
    [row] = calls_with_shim([exchange(body)], sent, recordings(body), [shim_event(body, "d1")], served)
    assert (row.sent_bytes, row.sent_plain_bytes) == (len(frame) + len(body), 5 + len(body))
    assert (row.body_bytes, row.header_bytes) == (len(body), 200)
    assert (row.shim_ms, row.server_ms, row.equal) == (1.5, 0.25, True)


def test_a_row_is_equal_only_if_both_the_relay_and_the_model_saw_the_body():
    body = b"the whole body"

    def row(at_agent, at_model):
        return calls_with_shim([exchange(at_agent)], [], recordings(at_model), [shim_event(body, "d1")], [])[0]

    assert row(body, body).equal
    assert not row(body, b"something else").equal
    assert not row(b"something else", body).equal


def test_pass_through_requests_have_no_row():
    assert calls_with_shim([], [], [], [shim_event(b"", None)], []) == []


def test_without_a_shim_every_model_call_is_a_row():
    sent = [exchange(b"a"), exchange(b"b"), exchange(b"", target="/v1/models")]
    rows = calls_without_shim(sent, recordings(b"a", b"x"))
    assert [(row.number, row.kind, row.sent_bytes, row.equal) for row in rows] == [
        (1, "off", 1, True),
        (2, "off", 1, False),
    ]


def test_fingerprints_leave_out_the_rollout_alone():
    assert sent_by_agent([exchange(b"a")]) == received_by_model(recordings(b"a"))
    assert sent_by_agent([exchange(b"a")]) != received_by_model(recordings(b"a", b"a"))
    assert sent_by_agent([exchange(b"a", target="/v1/responses?x")]) != received_by_model(recordings(b"a"))


def test_a_log_line_that_is_still_being_written_is_left_for_later(tmp_path):
    log = tmp_path / "log"
    assert read_events(log) == []
    whole = json.dumps({"event": "call", "n": 1})
    log.write_text(f'a line of a library\n{{"event": "ready"}}\n{whole}\n{whole[:9]}')
    assert read_events(log) == [{"event": "call", "n": 1}]


def test_plain_bytes():
    assert plain_bytes(exchange(b"abc")) == 3
    assert plain_bytes(exchange(gzip.compress(b"abcd" * 100), ("content-encoding", "gzip"))) == 400
