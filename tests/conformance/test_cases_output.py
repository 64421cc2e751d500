# SPDX-License-Identifier: Apache-2.0
"""What is shown and written of results: for people, as JSON and as JUnit XML."""

import io
import json
import xml.etree.ElementTree as ElementTree

import pytest
from history_delta_conformance.cases.base import Case, CaseResult
from history_delta_conformance.cases.options import exit_code
from history_delta_conformance.cases.output import as_json, as_junit
from history_delta_conformance.cases.show import Show, show_summary
from history_delta_conformance.cases.transcript import Transcript
from rich.console import Console


async def check(target: object) -> None:
    return None


def case(number: str, title: str = "a <title> [of] it", level="MUST") -> Case:
    return Case("server", number, title, ("S-21", "F-1"), check, level)


PASSED = CaseResult(case("1.1"), "passed", 0.25)
FAILED = CaseResult(
    case("1.2"), "failed", 0.5, "status 200", "409 [bold]&\x00", exchange=("one: sent \\x00", "two <&>")
)
NOT_RUN = CaseResult(case("1.3", level="SHOULD"), "not-run", reason="no [such] thing")
ERROR = CaseResult(case("1.4"), "error", reason="OSError: gone")
RESULTS = [PASSED, FAILED, NOT_RUN, ERROR]


def shown(*results: CaseResult, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=80)
    with Show(console, len(results), verbose) as show:
        for result in results:
            show.result(result)
    show_summary(console, results)
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_a_failure_says_what_was_checked_where_it_stands_and_what_came() -> None:
    text = shown(*RESULTS)
    lines = [line.strip() for line in text.splitlines()]
    start = lines.index("FAILED server 1.2 a <title> [of] it")
    assert lines[start + 1 : start + 7] == [
        "checks:   MUST S-21 (protocol/SPEC.md section 8), F-1 (protocol/SPEC.md section 1)",
        "expected: status 200",
        "got:      409 [bold]&\x00",
        "exchange:",
        "one: sent \\x00",
        "two <&>",
    ]
    assert "ERROR server 1.4 a <title> [of] it" in lines
    assert "reason:   OSError: gone" in lines
    assert "server 1.3    a <title> [of] it: no [such] thing" in lines
    assert lines[-1] == "4 cases: 1 passed, 1 failed, 1 error, 1 not-run"


def test_what_passed_is_shown_where_asked_for() -> None:
    assert "server 1.1" not in shown(PASSED)
    assert "passed server 1.1    a <title> [of] it" in shown(PASSED, verbose=True)


def test_json_has_everything() -> None:
    document = json.loads(as_json("server", "http://x", RESULTS))
    assert (document["format"], document["kind"], document["target"]) == ("history-delta-cases/1", "server", "http://x")
    assert document["counts"] == {"passed": 1, "failed": 1, "error": 1, "not-run": 1}
    assert document["cases"][1] == {
        "number": "1.2",
        "title": "a <title> [of] it",
        "level": "MUST",
        "requirements": ["S-21", "F-1"],
        "outcome": "failed",
        "seconds": 0.5,
        "expected": "status 200",
        "got": "409 [bold]&\x00",
        "exchange": ["one: sent \\x00", "two <&>"],
    }
    assert document["cases"][2]["reason"] == "no [such] thing"


def test_junit_is_xml_whatever_came() -> None:
    suite = ElementTree.fromstring(as_junit("server", RESULTS))
    counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    assert counts == {"tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "0.750"}
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.get("message", "").startswith("expected status 200; got 409 [bold]&\N{REPLACEMENT CHARACTER} [S-21")
    assert failure.text == "one: sent \\x00\ntwo <&>"
    assert [each.get("message") for each in suite.iter("skipped")] == ["no [such] thing"]
    assert [each.get("message") for each in suite.iter("error")] == ["OSError: gone"]


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([PASSED], 0),
        ([PASSED, NOT_RUN], 0),
        ([NOT_RUN], 1),
        ([], 1),
        ([PASSED, FAILED], 1),
        ([PASSED, ERROR], 1),
        ([PASSED, CaseResult(case("1.5"), "not-run")], 1),
    ],
)
def test_the_exit_code_is_0_only_where_something_passed_and_the_rest_is_explained(results, code: int) -> None:
    assert exit_code(results) == code


def test_a_transcript_is_bounded_and_says_what_it_leaves_out() -> None:
    transcript = Transcript()
    for number in range(100):
        transcript.note("one", "sent", b"%d" % number)
    transcript.note("two", "received", b"\x00\xff\r\n'\"" + b"x" * 2000)
    transcript.note("two", "reset")
    lines = transcript.lines()
    assert lines[0] == "(42 earlier ones are left out)"
    assert lines[1] == "one: sent 2 octets: 42"
    assert lines[-2].startswith("two: received 2006 octets: \\x00\\xff\\r\\n")
    assert lines[-2].endswith(" … and 506 octets more")
    assert lines[-1] == "two: reset"


def test_a_transcript_that_was_stopped_keeps_what_it_has() -> None:
    transcript = Transcript()
    transcript.note("one", "sent", b"before")
    transcript.restart()
    transcript.note("one", "sent", b"a")
    transcript.stop()
    transcript.note("one", "sent", b"b")
    transcript.restart()
    assert transcript.lines() == ("one: sent 1 octets: a",)
