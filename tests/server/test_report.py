# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import AsyncIterator

import pytest
from history_delta_server.call import Call, Framing, Head
from history_delta_server.report import AGENT_LEFT, ANSWERED, FULL, Report

HEAD = Head(200, b"OK", [], Framing.CHUNKED)


@pytest.fixture
async def call() -> Call:
    return Call(asyncio.get_running_loop().call_later)


def accounts(report: Report) -> list[str]:
    """The outcome at each time that the report is accounted for."""
    told: list[str] = []
    report.when_over(lambda closed: told.append(closed.outcome))
    return told


def test_without_a_call_a_report_is_over_at_once() -> None:
    report = Report("/x")
    assert accounts(report) == [ANSWERED]
    assert report.seconds >= 0


async def test_with_one_it_is_over_when_the_call_is(call: Call) -> None:
    report = Report("/x", kind=FULL, call=call)
    told = accounts(report)
    call.start(HEAD)
    assert told == []
    call.fail("broke off")
    assert told == ["broken"]
    call.finish()
    assert told == ["broken"]


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        (lambda call: call.finish(), "complete"),
        (lambda call: call.fail("x"), "broken"),
        (lambda call: call.fail_unsent("x"), "unreachable"),
    ],
)
async def test_a_call_that_has_ended_already_says_how(call: Call, end, outcome: str) -> None:
    end(call)
    assert accounts(Report("/x", kind=FULL, call=call)) == [outcome]


async def test_two_reports_of_one_call_are_each_accounted_for(call: Call) -> None:
    first, repeat = accounts(Report("/x", call=call)), accounts(Report("/x", call=call, repeated=True))
    call.finish()
    assert (first, repeat) == (["complete"], ["complete"])


def test_the_seconds_are_counted_from_the_start() -> None:
    report = Report("/x")
    report.started -= 5.0
    accounts(report)
    assert 5.0 <= report.seconds < 60.0


def test_what_we_answer_is_of_no_kind() -> None:
    report = Report("/x", kind=FULL, reason="first-call")
    report.answered(413, "too-large")
    assert (report.kind, report.status, report.reason, report.outcome) == (None, 413, "too-large", ANSWERED)


async def test_an_agent_that_left_says_something_only_where_nothing_else_is_known(call: Call) -> None:
    left = Report("/x")
    answered = Report("/x", status=400)
    called = Report("/x", call=call)
    other = Report("/x", outcome="repeat-not-kept")
    for report in (left, answered, called, other):
        report.agent_left()
    assert [report.outcome for report in (left, answered, called, other)] == [
        AGENT_LEFT,
        ANSWERED,
        ANSWERED,
        "repeat-not-kept",
    ]


async def test_a_stream_is_counted_as_it_passes_and_is_not_changed() -> None:
    async def source() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"three"):
            yield piece

    report = Report("/x")
    seen = []
    async for piece in report.counting(source()):
        seen.append((piece, report.received_bytes, report.body_bytes))
    assert seen == [(b"one", 3, 3), (b"", 3, 3), (b"three", 8, 8)]
