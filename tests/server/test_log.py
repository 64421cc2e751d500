# SPDX-License-Identifier: Apache-2.0
import io
import json
import logging

from history_delta_server.log import LibraryMessages, Log
from history_delta_server.report import FULL, Report


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
