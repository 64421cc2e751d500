# SPDX-License-Identifier: Apache-2.0
import io
import json
import logging
import os

from history_delta_server.call import Call
from history_delta_server.log import LibraryMessages, Log
from history_delta_server.report import FULL, PASS_THROUGH, Report


def test_an_event_is_one_line_of_json_without_what_is_none() -> None:
    out = io.StringIO()
    Log("json", out).event("thing", a=1, b=None, c='quote " and\nnewline', d="é\u2028")
    assert out.getvalue().count("\n") == 1
    assert "\u2028" not in out.getvalue()
    event = json.loads(out.getvalue())
    assert event.pop("time") > 0
    assert event == {"event": "thing", "a": 1, "c": 'quote " and\nnewline', "d": "é\u2028"}


def test_text_is_one_line_too_whatever_it_holds() -> None:
    out = io.StringIO()
    Log("text", out).event("thing", a=1, b="plain", c="two words", d="x\ny\x1b[31m", e='a="b"')
    line = out.getvalue()
    assert line.count("\n") == 1
    assert line.split(" ", 1)[1] == 'thing a=1 b=plain c="two words" d="x\\ny\\u001b[31m" e="a=\\"b\\""\n'


def test_a_full_send_gets_a_line_that_says_why() -> None:
    out = io.StringIO()
    report = Report("/v1/chat/completions", kind=FULL, reason="first-call", rollout="r", delivery="d", status=200)
    Log("json", out).request(report)
    full, call = (json.loads(line) for line in out.getvalue().splitlines())
    assert (full["event"], full["reason"], full["rollout"], full["delivery"]) == ("full-send", "first-call", "r", "d")
    assert (call["event"], call["kind"], call["status"], call["path"]) == ("call", "full", 200, "/v1/chat/completions")


def test_what_the_library_says_comes_without_what_it_quotes() -> None:
    out = io.StringIO()
    logger = logging.Logger("aiohttp.server")
    logger.addHandler(LibraryMessages(Log("json", out)))
    try:
        raise ValueError("Authorization: Bearer secret")
    except ValueError:
        logger.exception("Error handling request from %s", "peer")
    event = json.loads(out.getvalue())
    assert (event["event"], event["logger"], event["error"]) == ("library", "aiohttp.server", "ValueError")
    assert "secret" not in out.getvalue()


def test_a_log_that_cannot_be_written_fails_nothing() -> None:
    with open("/dev/full", "w") as full:
        log = Log("json", full)
        log.event("thing")
        log.event("thing")
    log.event("the stream is closed by now")


def test_a_pipe_that_nobody_reads_drops_lines_and_says_how_many() -> None:
    readable, writable = os.pipe()
    with open(readable, "rb", buffering=0) as reader, open(writable, "w") as writer:
        log = Log("json", writer)
        for number in range(2000):
            log.event("thing", number=number, padding="x" * 200)
        kept = [json.loads(line) for line in reader.read(1 << 20).splitlines()]
        log.event("next")
        log.event("last")
        following, last = [json.loads(line) for line in reader.read(1 << 20).splitlines()]
    assert [event["number"] for event in kept] == list(range(len(kept)))
    assert len(kept) < 2000
    assert (following["event"], following["lines_dropped"]) == ("next", 2000 - len(kept))
    assert "lines_dropped" not in last


def test_a_line_that_a_ready_pipe_may_not_take_whole_is_dropped() -> None:
    readable, writable = os.pipe()
    with open(readable, "rb", buffering=0) as reader, open(writable, "w") as writer:
        log = Log("json", writer)
        log.event("long", value="x" * 5000)
        log.event("short")
        (event,) = [json.loads(line) for line in reader.read(1 << 20).splitlines()]
    assert (event["event"], event["lines_dropped"]) == ("short", 1)


def test_a_pipe_without_a_reader_and_no_stderr_at_all_fail_nothing(monkeypatch) -> None:
    readable, writable = os.pipe()
    os.close(readable)
    with open(writable, "w") as writer:
        Log("json", writer).event("thing")
    monkeypatch.setattr("sys.stderr", None)
    Log("json").event("thing")


def test_only_the_start_of_a_long_path_or_failure_is_logged() -> None:
    """What an agent or a list of model servers can make long would drop the line."""
    out = io.StringIO()
    call = Call(lambda seconds, action: None)  # type: ignore[arg-type, return-value]
    call.failure = "x" * 60_000
    Log("json", out).request(Report("/" + "\U0001f600" * 60_000, kind=PASS_THROUGH, call=call))
    assert len(json.loads(out.getvalue())["path"]) == 200
    assert len(out.getvalue()) < 4096
