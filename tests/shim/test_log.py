# SPDX-License-Identifier: Apache-2.0
import json
import os
import select

import pytest
from history_delta_shim.log import Log, describe


def test_an_event_is_one_line_of_json(tmp_path):
    with (tmp_path / "log").open("w+b") as file:
        log = Log(file.fileno())
        log.event("call", path="/é\n", status=None)
        log.event("stopped")
        file.seek(0)
        first, second = map(json.loads, file.read().splitlines())
    assert (first["event"], first["path"], first["status"]) == ("call", "/é\n", None)
    assert second["event"] == "stopped"
    assert first["ts"] <= second["ts"]


def test_a_log_that_cannot_be_written_to_fails_nothing():
    reader, writer = os.pipe()
    os.close(reader)
    Log(writer).event("call")
    os.close(writer)
    Log(writer).event("call")
    Log(None).event("call")


def test_a_log_that_nobody_reads_holds_nothing_up_and_counts_what_it_drops():
    reader, writer = os.pipe()
    log = Log(writer)
    filled = 0
    while select.select([], [writer], [], 0)[1]:
        log.event("call", number=filled)
        filled += 1
    for _ in range(3):
        log.event("lost")
    lines = b""
    while lines.count(b"\n") < filled:
        lines += os.read(reader, 65536)
    log.event("seen", text="x" * 4096)  # no pipe takes it for sure
    log.event("seen")
    log.event("seen")
    os.close(writer)
    with open(reader, "rb") as file:
        lines += file.read()
    events = [json.loads(line) for line in lines.splitlines()]
    assert [event["number"] for event in events[:filled]] == list(range(filled))
    assert [(event["event"], event.get("dropped")) for event in events[filled:]] == [("seen", 4), ("seen", None)]


def test_an_error_is_described_without_its_text():
    with pytest.raises(ValueError, match="secret") as error:
        int("secret")
    described = describe(error.value)
    assert described.startswith("ValueError at test_log.py:")
    assert "secret" not in described
