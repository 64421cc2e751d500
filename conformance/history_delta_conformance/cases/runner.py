# SPDX-License-Identifier: Apache-2.0
"""Runs cases, one after the other or a few at once, each with a target and a transcript of its own.

How a target is made is the caller's business; what came of the cases is shown by others.
"""

import asyncio
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from .base import Case, CaseFailed, CaseResult, NotRun, Outcome
from .transcript import Transcript

DEFAULT_TIMEOUT = 60.0

# Gives a case its target, and takes down afterwards what was made for it.
OpenTarget = Callable[[Case, Transcript], AbstractAsyncContextManager[Any]]


class Runner:
    """``jobs`` cases at once; those that must be alone come last, one after the other."""

    def __init__(
        self,
        open_target: OpenTarget,
        *,
        jobs: int = 1,
        timeout: float = DEFAULT_TIMEOUT,
        slow: bool = False,
        on_result: Callable[[CaseResult], None] = lambda result: None,
    ) -> None:
        self._open_target = open_target
        self._jobs, self._timeout, self._slow = jobs, timeout, slow
        self._on_result = on_result

    async def run(self, cases: Sequence[Case]) -> list[CaseResult]:
        """The results in the order of the cases' numbers."""
        free = asyncio.Semaphore(self._jobs)

        async def one(case: Case) -> CaseResult:
            async with free:
                result = await self._run(case)
            self._on_result(result)
            return result

        results = list(await asyncio.gather(*(one(case) for case in cases if not case.alone)))
        results += [await one(case) for case in cases if case.alone]
        return sorted(results, key=lambda result: result.case.order)

    async def _run(self, case: Case) -> CaseResult:
        if case.slow and not self._slow:
            return CaseResult(case, "not-run", reason="it takes long, and is run with --slow alone")
        transcript = Transcript()
        begun = time.monotonic()

        def result(outcome: Outcome, **words: str) -> CaseResult:
            lines = transcript.lines() if outcome in ("failed", "error") else ()
            return CaseResult(case, outcome, time.monotonic() - begun, exchange=lines, **words)

        seconds = case.timeout or self._timeout
        try:
            async with asyncio.timeout(seconds), self._open_target(case, transcript) as target:
                await case.check(target)
        except CaseFailed as failure:
            return result("failed", expected=failure.expected, got=failure.got)
        except NotRun as reason:
            return result("not-run", reason=str(reason))
        except TimeoutError:
            return result("failed", expected="the case to be over", got=f"no end within {seconds:g} s")
        except Exception as error:
            return result("error", reason=_said(error))
        return result("passed")


def _said(error: Exception) -> str:
    """In one line, with the place: an error is a fault of the case or of what it runs on, never of the target."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({place.filename.rpartition('/')[2]}:{place.lineno})"
