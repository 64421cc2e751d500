# SPDX-License-Identifier: Apache-2.0
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from history_delta_conformance.cases.base import Case, CaseFailed, CaseResult, Check, NotRun
from history_delta_conformance.cases.runner import OpenTarget, Runner
from history_delta_conformance.cases.transcript import Transcript


class Ground:
    """Targets that note what happened to them."""

    def __init__(self) -> None:
        self.opened: list[str] = []
        self.closed: list[str] = []

    @asynccontextmanager
    async def open(self, case: Case, transcript: Transcript) -> AsyncIterator[str]:
        self.opened.append(case.number)
        transcript.note("here", "sent", case.number.encode())
        try:
            yield case.title
        finally:
            self.closed.append(case.number)


@pytest.fixture
def ground() -> Ground:
    return Ground()


def case(number: str, check: Check, **options) -> Case:
    return Case("server", number, f"title of {number}", ("S-1",), check, **options)


async def fine(target: str) -> None:
    assert target.startswith("title of")


async def fails(target: str) -> None:
    raise CaseFailed("this", "that")


async def is_none(target: str) -> None:
    raise NotRun("nothing to run it on")


async def breaks(target: str) -> None:
    raise KeyError("a fault of the case")


async def hangs(target: str) -> None:
    await asyncio.Event().wait()


async def run(open_target: OpenTarget, *cases: Case, **options) -> list[CaseResult]:
    return await Runner(open_target, **options).run(cases)


async def test_what_can_become_of_a_case(ground) -> None:
    checks = [fine, fails, is_none, breaks, hangs]
    cases = [case(f"1.{number}", check, timeout=0.05) for number, check in enumerate(checks, 1)]
    results = await run(ground.open, *cases)
    told = [(result.outcome, result.expected, result.got, result.reason) for result in results]
    assert told[:3] == [
        ("passed", "", "", ""),
        ("failed", "this", "that", ""),
        ("not-run", "", "", "nothing to run it on"),
    ]
    assert told[3][0] == "error"
    assert told[3][3].startswith("KeyError: 'a fault of the case' (test_cases_runner.py:")
    assert told[4] == ("failed", "the case to be over", "no end within 0.05 s", "")
    assert ground.opened == ground.closed == [each.number for each in cases]


async def test_only_what_went_wrong_shows_its_exchange(ground) -> None:
    results = await run(
        ground.open, *(case(f"1.{n}", check) for n, check in enumerate((fine, fails, is_none, breaks), 1))
    )
    assert [result.exchange for result in results] == [
        (),
        ("here: sent 3 octets: 1.2",),
        (),
        ("here: sent 3 octets: 1.4",),
    ]


async def test_a_target_that_cannot_be_opened_is_an_error(ground) -> None:
    def refuse(case: Case, transcript: Transcript):
        raise OSError("no target")

    [result] = await run(refuse, case("1.1", fine))
    assert (result.outcome, result.reason.partition(" (")[0]) == ("error", "OSError: no target")


async def test_a_slow_case_runs_where_asked_for_alone(ground) -> None:
    slow = case("1.1", fine, slow=True)
    [left_out] = await run(ground.open, slow)
    assert (left_out.outcome, left_out.reason) == ("not-run", "it takes long, and is run with --slow alone")
    assert ground.opened == []
    [result] = await run(ground.open, slow, slow=True)
    assert result.outcome == "passed"


async def test_so_many_run_at_once_and_no_more(ground) -> None:
    inside, most, all_in = 0, 0, asyncio.Event()

    async def meets(target: str) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 3:
            all_in.set()
        await all_in.wait()
        inside -= 1

    results = await run(ground.open, *(case(f"1.{n}", meets) for n in range(1, 10)), jobs=3)
    assert {result.outcome for result in results} == {"passed"}
    assert most == 3


async def test_one_that_must_be_alone_is(ground) -> None:
    running: set[str] = set()

    async def alone(target: str) -> None:
        assert not running

    async def other(target: str) -> None:
        running.add(target)
        await asyncio.sleep(0)
        running.discard(target)

    cases = [case("1.1", alone, alone=True), *(case(f"1.{n}", other) for n in range(2, 9))]
    results = await run(ground.open, *cases, jobs=8)
    assert {result.outcome for result in results} == {"passed"}
    assert [result.case.number for result in results] == [each.number for each in cases]
    assert ground.opened[-1] == "1.1"


async def test_each_result_is_told_at_once(ground) -> None:
    told: list[str] = []

    async def looks(target: str) -> None:
        assert told == ["1.1"]

    await run(
        ground.open, case("1.1", fine), case("1.2", looks), on_result=lambda result: told.append(result.case.number)
    )
    assert told == ["1.1", "1.2"]
