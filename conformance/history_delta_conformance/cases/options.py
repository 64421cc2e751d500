# SPDX-License-Identifier: Apache-2.0
"""The options that the commands for both kinds have in common, and what is the same in both once they are read."""

import argparse
import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from rich.console import Console

from .base import Case, CaseResult
from .output import as_json, as_junit
from .registry import Registry
from .runner import DEFAULT_TIMEOUT, OpenTarget, Runner
from .show import Show, show_list, show_summary

PASSED, FAILED, USAGE = 0, 1, 2

# Makes the ground on which the cases of one run stand, and gives what opens a case's target.
OpenGround = Callable[[], AbstractAsyncContextManager[OpenTarget]]


class CannotRun(Exception):
    """Nothing can be run: one line says what to do about it."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--case", metavar="N", action="append", default=[], help="run these alone: 3.1, '4.*' (repeatable)"
    )
    parser.add_argument("--level", choices=("must", "should"), default="should", help="must: leave out what is advice")
    parser.add_argument("--list", action="store_true", help="show the cases and exit")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results as JSON")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write the results as JUnit XML")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=_seconds,
        default=DEFAULT_TIMEOUT,
        help="of one case (default: %(default)g)",
    )
    parser.add_argument("--jobs", metavar="N", type=_count, default=1, help="cases at once (default: %(default)s)")
    parser.add_argument("--slow", action="store_true", help="run the cases that take long as well")
    parser.add_argument("--verbose", "-v", action="store_true", help="show the cases that pass as well")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"expected seconds, more than 0, got {text!r}")
    return seconds


def _count(text: str) -> int:
    count = int(text) if text.isdigit() else 0
    if not 1 <= count <= 64:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 64, got {text!r}")
    return count


def chosen(options: argparse.Namespace, registry: Registry) -> list[Case]:
    """Raises CannotRun where a number is none."""
    try:
        cases = registry.select(options.case)
    except ValueError as error:
        raise CannotRun(f"--case: {error}") from None
    return [case for case in cases if options.level == "should" or case.level == "MUST"]


def run_command(
    options: argparse.Namespace,
    registry: Registry,
    target: str,
    open_ground: OpenGround,
    console: Console | None = None,
) -> int:
    """Run what was chosen, show it, write it; the exit code."""
    console = console or Console()
    try:
        cases = chosen(options, registry)
        if options.list:
            show_list(console, cases)
            return PASSED
        results = asyncio.run(_run(options, cases, open_ground, console))
        show_summary(console, results)
        _write(options, registry.kind, target, results)
    except CannotRun as error:
        print(f"history-delta conformance {registry.kind}: {error}", file=sys.stderr)
        return USAGE
    return exit_code(results)


async def _run(
    options: argparse.Namespace, cases: list[Case], open_ground: OpenGround, console: Console
) -> list[CaseResult]:
    async with open_ground() as open_target:
        with Show(console, len(cases), options.verbose) as show:
            runner = Runner(
                open_target, jobs=options.jobs, timeout=options.timeout, slow=options.slow, on_result=show.result
            )
            return await runner.run(cases)


def exit_code(results: list[CaseResult]) -> int:
    """0 only where something passed, and what did not was not run for a reason."""
    outcomes = {result.outcome for result in results}
    explained = all(result.reason for result in results if result.outcome == "not-run")
    return PASSED if "passed" in outcomes and outcomes <= {"passed", "not-run"} and explained else FAILED


def _write(options: argparse.Namespace, kind: str, target: str, results: list[CaseResult]) -> None:
    texts = {options.json: as_json(kind, target, results), options.junit: as_junit(kind, results)}
    for path, text in texts.items():
        if path is None:
            continue
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise CannotRun(f"cannot write {path}: {error.strerror}") from error
