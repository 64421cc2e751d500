# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run: progress while it goes on, then each case that did not pass, and the count."""

from collections import Counter
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .base import Case, CaseResult
from .requirements import REQUIREMENTS

_SHOWN_LINES = 12
_MARKS = {
    "passed": "[green]passed[/]",
    "failed": "[bold red]FAILED[/]",
    "not-run": "[yellow]not run[/]",
    "error": "[bold red]ERROR[/]",
}


def show_list(console: Console, cases: Sequence[Case]) -> None:
    """The cases, and nothing of a run."""
    table = Table(box=None, pad_edge=False)
    for column in ("case", "", "checks", "title"):
        table.add_column(column, overflow="fold")
    for case in cases:
        table.add_row(case.name, case.level, " ".join(case.requirements), escape(case.title))
    console.print(table)


class Show:
    """Use as a context manager while the cases run; ``result`` after each."""

    def __init__(self, console: Console, count: int, verbose: bool = False) -> None:
        self._console = console
        self._verbose = verbose
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._progress.add_task("cases", total=count)

    def __enter__(self) -> "Show":
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def result(self, result: CaseResult) -> None:
        self._progress.advance(self._task)
        self._progress.update(self._task, description=escape(result.case.name))
        if self._verbose or result.outcome in ("failed", "error"):
            self._progress.print(_line(result), highlight=False, soft_wrap=True)


def _line(result: CaseResult) -> str:
    case = result.case
    return f"{_MARKS[result.outcome]:<8} {case.name:<13} {escape(case.title)}  [dim]{result.seconds:.2f} s[/]"


def requirement_text(case: Case) -> str:
    """The requirements of a case with their places: ``S-21 (protocol/SPEC.md section 8)``."""
    return ", ".join(f"{name} ({REQUIREMENTS[name].place})" for name in case.requirements)


def show_summary(console: Console, results: Sequence[CaseResult]) -> None:
    def show(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    for result in results:
        if result.outcome in ("failed", "error"):
            _show_fault(show, result)
    not_run = [result for result in results if result.outcome == "not-run"]
    if not_run:
        show("\n[bold]Not run[/]")
    for result in not_run:
        show(f"  {result.case.name:<13} {escape(result.case.title)}: {escape(result.reason)}")
    counts = Counter(result.outcome for result in results)
    words = [f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "error", "not-run") if counts[outcome]]
    show(f"\n{len(results)} cases: {', '.join(words) or 'none'}")


def _show_fault(show: Callable[[str], None], result: CaseResult) -> None:
    case = result.case
    show(f"\n{_MARKS[result.outcome]} [bold]{case.name}[/] {escape(case.title)}")
    lines = [("checks", f"{case.level} {requirement_text(case)}")]
    if result.outcome == "failed":
        lines += [("expected", result.expected), ("got", result.got)]
    else:
        lines += [("reason", result.reason)]
    for name, text in lines:
        show(f"  {name + ':':<10}{escape(text)}")
    if result.exchange:
        show("  exchange:" if len(result.exchange) <= _SHOWN_LINES else "  the end of the exchange (--json has more):")
    for line in result.exchange[-_SHOWN_LINES:]:
        show(f"    {escape(line)}")
