# SPDX-License-Identifier: Apache-2.0
"""The report as one HTML page that needs nothing else: no network, no script.

The page is ``page.html.jinja``. Whatever it shows is escaped, and its content security policy allows its own style
sheet and nothing more.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from . import figures, text
from .chart import Chart, chart_of
from .results import Cell, Report, Verdict

MARKS: dict[Verdict, str] = {"passed": "✓", "failed": "✗", "not-run": "!", "not-applicable": "–"}
_HERE = Path(__file__).parent
_NOT_IN_ID = re.compile(r"[^A-Za-z0-9.]+")
_DIFF_KINDS = {"+": "ins", "-": "del", "@": "hunk"}


@dataclass(frozen=True)
class CellView:
    """A cell as the page shows it."""

    cell: Cell
    id: str
    mark: str
    word: str
    why: str
    volume: figures.Volume
    pairs: list[figures.CallPair]
    chart: Chart | None


def to_html(report: Report) -> str:
    report = figures.ordered(report)
    views = _views(report)
    style = (_HERE / "page.css.jinja").read_text(encoding="utf-8")
    page = _environment().get_template("page.html.jinja")
    return page.render(
        report=report,
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        verdict=figures.verdict(report),
        compared=figures.compared(report.cells),
        volume=figures.volume(report.cells),
        names=figures.scenarios(report),
        heads=_heads(report),
        descriptions={scenario.name: scenario.description for scenario in report.scenarios},
        views={(view.cell.scenario, view.cell.row): view for view in views},
        by_verdict={verdict: [view for view in views if view.cell.verdict == verdict] for verdict in MARKS},
        twice=[view for view in views if view.cell.unstable is not None],
        marks=MARKS,
        words=figures.VERDICT_TEXT,
        rules=figures.rule_totals(report),
        no_use=figures.not_applicable(report),
    )


def diff_lines(diff: str) -> Iterator[tuple[str, str]]:
    """The kind of each line, and the line: ``ins``, ``del``, ``hunk``, ``file`` or ``same``."""
    in_hunks = False
    for line in diff.removesuffix("\n").split("\n"):
        in_hunks = in_hunks or line.startswith("@@")
        head = not in_hunks and line.startswith(("+++ ", "--- "))
        yield "file" if head else _DIFF_KINDS.get(line[:1], "same"), line


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters.update(exact=text.exact, size=text.size, duration=text.duration, diff_lines=diff_lines)
    environment.globals.update(compared_of=figures.compared, of_row=figures.of_row, volume_of=figures.volume,
                               ratio=text.ratio, counted=text.counted)  # fmt: skip
    return environment


def _shown(value: Any) -> Any:
    """Every value on its way into the page: no character of it may hide or mislead."""
    return text.visible(value) if type(value) is str else value


def _views(report: Report) -> list[CellView]:
    ids: set[str] = set()
    return [_view(cell, _unique_id(cell, ids)) for cell in report.cells]


def _view(cell: Cell, at: str) -> CellView:
    pairs = figures.call_pairs(cell)
    return CellView(
        cell=cell,
        id=at,
        mark=MARKS[cell.verdict],
        word=figures.label_of(cell),
        why=figures.why(cell),
        volume=figures.volume([cell]),
        pairs=pairs,
        chart=chart_of(pairs),
    )


def _unique_id(cell: Cell, taken: set[str]) -> str:
    plain = "cell-" + _NOT_IN_ID.sub("-", cell.name)[:80].strip("-")
    name, number = plain, 1
    while name in taken:
        number += 1
        name = f"{plain}-{number}"
    taken.add(name)
    return name


def _heads(report: Report) -> list[tuple[str, str, str]]:
    """Each row's head, its agent, and the rest of it."""
    agents = {cell.row: cell.agent for cell in report.cells}
    return [(row, agents[row], row.removeprefix(agents[row]).strip()) for row in figures.rows(report)]
