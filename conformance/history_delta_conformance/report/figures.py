# SPDX-License-Identifier: Apache-2.0
"""What all forms of the report say alike: the order of rows and scenarios, sums, and the verdict as a sentence."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from .results import Cell, Report, RuleCount, RuleUsed, Verdict
from .text import counted, exact, one_line, ratio, size

VERDICT_TEXT: dict[Verdict, str] = {
    "passed": "passed",
    "failed": "failed",
    "not-run": "not run",
    "not-applicable": "not applicable",
}


@dataclass(frozen=True)
class Volume:
    """Request-body bytes of comparisons: as sent with the transport off, and as they crossed the wire with it on."""

    off: int
    on: int

    @property
    def ratio(self) -> str:
        return ratio(self.off, self.on)


@dataclass(frozen=True)
class CallPair:
    """The same model call in both runs; None where one run did not make it."""

    label: str
    off: int | None
    on: int | None
    kind: str = ""


def ordered(report: Report) -> Report:
    """The report with its cells in the matrix's order, in whatever order they were run."""
    row, scenario = _places(rows(report)), _places(scenarios(report))
    cells = sorted(report.cells, key=lambda cell: (scenario[cell.scenario], row[cell.row]))
    return msgspec.structs.replace(report, cells=tuple(cells))


def rows(report: Report) -> list[str]:
    """The heads of the matrix's rows: by agent as the report lists them, then by dialect, the proxy's mode first."""
    agents = _places(agent.name for agent in report.agents)
    keys = {
        (agents.get(cell.agent, len(agents)), cell.agent, cell.dialect, cell.mode != "proxy", cell.mode, cell.row)
        for cell in report.cells
    }
    return [key[-1] for key in sorted(keys)]


def scenarios(report: Report) -> list[str]:
    """Scenarios that any cell names, as the report lists them; those that it does not list, last."""
    used = {cell.scenario for cell in report.cells}
    listed = dict.fromkeys(scenario.name for scenario in report.scenarios)
    return [name for name in listed if name in used] + sorted(used - set(listed))


def grid(report: Report) -> dict[tuple[str, str], Cell]:
    """Cells by scenario and row."""
    return {(cell.scenario, cell.row): cell for cell in report.cells}


def of_row(report: Report, row: str) -> list[Cell]:
    return [cell for cell in report.cells if cell.row == row]


def compared(cells: Iterable[Cell]) -> list[Cell]:
    return [cell for cell in cells if cell.verdict in ("passed", "failed")]


def volume(cells: Iterable[Cell]) -> Volume:
    """The bytes of those comparisons of which both runs made calls."""
    both = [cell for cell in compared(cells) if cell.off_calls and cell.calls]
    return Volume(
        off=sum(call.body_bytes for cell in both for call in cell.off_calls),
        on=sum(call.sent_bytes for cell in both for call in cell.calls),
    )


def call_pairs(cell: Cell) -> list[CallPair]:
    """The calls of both runs side by side: the nth call of a label with the nth of the same label, then what is left
    of the run with the transport off."""
    waiting: dict[str, list[int]] = defaultdict(list)
    for place in reversed(range(len(cell.off_calls))):
        waiting[cell.off_calls[place].label].append(place)
    pairs = []
    for call in cell.calls:
        off = cell.off_calls[waiting[call.label].pop()].body_bytes if waiting[call.label] else None
        pairs.append(CallPair(call.label, off, call.sent_bytes, call.kind))
    left = sorted(place for places in waiting.values() for place in places)
    return pairs + [CallPair(cell.off_calls[place].label, cell.off_calls[place].body_bytes, None) for place in left]


def rule_totals(report: Report) -> list[tuple[RuleUsed, RuleCount]]:
    """Every rule with the number of places that it changed, in all cells together."""
    off: dict[str, int] = defaultdict(int)
    on: dict[str, int] = defaultdict(int)
    for cell in report.cells:
        for name, count in cell.rules.items():
            off[name] += count.off
            on[name] += count.on
    listed = {rule.name for rule in report.rules}
    rules = [*report.rules, *(RuleUsed(name, "") for name in sorted(set(off) - listed))]
    return [(rule, RuleCount(off[rule.name], on[rule.name])) for rule in rules]


def label_of(cell: Cell) -> str:
    """The verdict in words. A pass counts for less where two runs with the transport off differ as well."""
    return VERDICT_TEXT[cell.verdict] + (", off against off differs" if cell.unstable else "")


def why(cell: Cell) -> str:
    """One line: the reason that the cell gives, or else its first finding."""
    first = cell.findings[0] if cell.findings else None
    return one_line(cell.reason or (f"{first.name}: {first.summary}" if first else ""))


def not_applicable(report: Report) -> list[tuple[str, str, list[str]]]:
    """Row, reason, and the scenarios that do not apply to it for that reason."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cell in report.cells:
        if cell.verdict == "not-applicable":
            found[cell.row, why(cell)].append(cell.scenario)
    return [(row, reason, names) for (row, reason), names in found.items()]


def verdict(report: Report) -> str:
    """What was proved, in one sentence."""
    cells = compared(report.cells)
    if not cells:
        return "Nothing was proved: no comparison was run."
    agents = counted(len({cell.agent for cell in cells}), "agent")
    if report.good:
        return (
            f"Proved: switching the transport on changed nothing but the traffic in all {exact(len(cells))} comparisons"
            f" with {agents}; {_bytes_equal(cells)}{_traffic(cells)}."
        )
    return (
        f"Not proved: of {counted(len(cells) + report.count('not-run'), 'comparison')}"
        f" with {agents}, {exact(report.count('failed'))} failed, {exact(report.count('not-run'))} not run;"
        f" {_bytes_equal(cells)}{_traffic(cells)}."
    )


def _bytes_equal(cells: list[Cell]) -> str:
    equal, requests = sum(cell.equal for cell in cells), sum(cell.requests for cell in cells)
    return f"{exact(equal)} of {counted(requests, 'request')} reached the model byte for byte"


def _traffic(cells: list[Cell]) -> str:
    sums = volume(cells)
    if not sums.off or not sums.on:
        return ""
    return f", and {size(sums.off)} of request bodies crossed the wire as {size(sums.on)} ({sums.ratio} fewer)"


def _places(names: Iterable[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}
