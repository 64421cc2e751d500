# SPDX-License-Identifier: Apache-2.0
"""The report as Markdown for GitHub: what is committed beside the code. Nothing that an agent wrote can mark it up."""

import re
from collections.abc import Iterable, Sequence

from .figures import (
    VERDICT_TEXT,
    compared,
    grid,
    label_of,
    not_applicable,
    of_row,
    ordered,
    rows,
    rule_totals,
    scenarios,
    verdict,
    volume,
    why,
)
from .results import Cell, Finding, Report, Verdict
from .text import duration, exact, one_line, visible

MARKS: dict[Verdict, str] = {"passed": "✅", "failed": "❌", "not-run": "⚠️", "not-applicable": "–"}
_UNSTABLE = "~"
_FITTING_HEADS = 90  # characters of column heads beside the first one that GitHub shows without scrolling
# What marks text up, wherever it stands: links and emoji of GitHub's own among it.
_MARKUP = re.compile(r"([\\`*_\[\]<>#|~&@$]|:(?=//|[a-z+][\w+-]*:)|(?<=www)\.)")
# What starts a list or a heading where a line starts.
_LINE_START = re.compile(r"^(\d*)([-+=.)])(?=\s|$)")


def to_markdown(report: Report) -> str:
    report = ordered(report)
    parts = [
        ["# Conformance report", f"**{escape(verdict(report))}**"],
        _circumstances(report),
        _matrix(report),
        _bytes(report),
        _findings(report),
        _not_run(report),
        _instability(report),
        _rules(report),
        _scenarios(report),
    ]
    return "\n\n".join(block for part in parts for block in part) + "\n"


def escape(text: str) -> str:
    """Text on one line that Markdown and HTML take for nothing but text."""
    return _LINE_START.sub(r"\1\\\2", _MARKUP.sub(r"\\\1", one_line(text)))


def code(text: str) -> str:
    """A code span, whatever the text holds. A pipe would end the cell of a table even there."""
    text = one_line(text)
    if "|" in text:
        return escape(text)
    fence = "`" * (_longest_run(text, "`") + 1)
    pad = " " if text.startswith("`") or text.endswith("`") or not text else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(text: str, language: str = "") -> str:
    """A code block that no line of the text can end."""
    fence = "`" * max(3, _longest_run(text, "`") + 1)
    return f"{fence}{language}\n{visible(text).rstrip(chr(10))}\n{fence}"


def _circumstances(report: Report) -> list[str]:
    lines = [
        f"- Started {escape(report.started)}, took {duration(report.seconds)}",
        f"- Command: {code(report.command)}",
        *(f"- {escape(name)} {escape(version)}" for name, version in sorted(report.versions.items())),
    ]
    head = ("agent", "version", "tested version", "")
    agents = [(agent.name, agent.version, agent.tested_version, agent.problem) for agent in report.agents]
    return ["\n".join(lines), _table(head, [[escape(text) for text in agent] for agent in agents])]


def _matrix(report: Report) -> list[str]:
    cells, names, heads = grid(report), scenarios(report), rows(report)
    if not cells:
        return []
    mark = {place: _mark(cell) for place, cell in cells.items()}
    if sum(map(len, names)) <= _FITTING_HEADS:
        table = [[escape(head), *(mark.get((name, head), "") for name in names)] for head in heads]
        columns = ["agent", *map(escape, names)]
    else:
        table = [[escape(name), *(mark.get((name, head), "") for head in heads)] for name in names]
        columns = ["scenario", *map(escape, heads)]
    legend = ", ".join(f"{MARKS[verdict]} {VERDICT_TEXT[verdict]}" for verdict in MARKS)
    return [
        "## Agents and scenarios",
        _table(columns, table, centred=True),
        f"{legend}; {_UNSTABLE} beside a mark: two runs with the transport off differ from each other as well.",
    ]


def _bytes(report: Report) -> list[str]:
    head = ("agent", "comparisons", "requests", "byte-equal", "bytes off", "bytes on", "ratio", "time off", "time on")
    lines = [_bytes_row(escape(row), compared(of_row(report, row))) for row in rows(report)]
    lines = [line for line in lines if line[1] != "0"]
    if not lines:
        return []
    return [
        "## Bytes",
        "Request bodies of all model calls: as the agent sent them with the transport off, and as they crossed the"
        " wire with it on. Byte-equal are the requests that reached the model with the SHA-256 that they had at the"
        " agent, with nothing normalised.",
        _table(head, [*lines, _bytes_row("**all**", compared(report.cells))], right_from=1),
    ]


def _bytes_row(head: str, cells: list[Cell]) -> list[str]:
    sums = volume(cells)
    return [
        head,
        exact(len(cells)),
        exact(sum(cell.requests for cell in cells)),
        exact(sum(cell.equal for cell in cells)),
        exact(sums.off),
        exact(sums.on),
        sums.ratio,
        duration(sum(cell.off_seconds for cell in cells)),
        duration(sum(cell.on_seconds for cell in cells)),
    ]


def _findings(report: Report) -> list[str]:
    failed = [cell for cell in report.cells if cell.verdict == "failed"]
    blocks = ["## Differences", *([] if failed else ["None."])]
    for cell in failed:
        blocks.append(f"### {escape(cell.name)}")
        facts = [escape(cell.reason)] if cell.reason else []
        facts.append(f"{exact(cell.equal)} of {exact(cell.requests)} requests byte-equal")
        if cell.folder:
            facts.append(f"artefacts: {code(cell.folder)}")
        blocks.append("; ".join(facts) + ".")
        blocks += _told(cell.findings)
    return blocks


def _told(findings: Iterable[Finding]) -> list[str]:
    blocks = []
    for finding in findings:
        blocks.append(f"**{escape(finding.name)}** in {escape(finding.aspect)}: {escape(finding.summary)}")
        if finding.diff:
            blocks.append(fenced(finding.diff, "diff"))
    return blocks


def _not_run(report: Report) -> list[str]:
    left_out = [cell for cell in report.cells if cell.verdict == "not-run"]
    blocks = ["## Not run", *([] if left_out else ["Nothing that applies was left out."])]
    if left_out:
        blocks.append("\n".join(f"- {escape(cell.name)}: {escape(why(cell))}" for cell in left_out))
    no_use = [
        f"- {escape(row)}: {escape(reason)} ({', '.join(map(escape, names))})"
        for row, reason, names in not_applicable(report)
    ]
    return [*blocks, "Not applicable:", "\n".join(no_use)] if no_use else blocks


def _instability(report: Report) -> list[str]:
    twice = [cell for cell in report.cells if cell.unstable is not None]
    if not twice:
        return []
    differing = [cell for cell in twice if cell.unstable]
    blocks = [
        "## Off against off",
        f"{len(twice)} cells were run twice with the transport off; in {len(differing)} of them the two runs differ"
        " from each other after normalisation, without any part of the transport.",
    ]
    for cell in differing:
        blocks += [f"### {escape(cell.name)} (off, off), {label_of(cell)}", *_told(cell.unstable or ())]
    return blocks


def _rules(report: Report) -> list[str]:
    lines = [
        [code(rule.name), escape(", ".join(rule.agents) or "all"), escape(rule.reason), exact(n.off), exact(n.on)]
        for rule, n in rule_totals(report)
    ]
    if not lines:
        return []
    return [
        "## Normalisation",
        "What may differ between two runs of the same agent, why, and how many places each rule changed in the runs"
        " with the transport off and on.",
        _table(("rule", "agents", "reason", "off", "on"), lines, right_from=3),
    ]


def _scenarios(report: Report) -> list[str]:
    if not report.scenarios:
        return []
    lines = [f"- **{escape(scenario.name)}**: {escape(scenario.description)}" for scenario in report.scenarios]
    return ["## Scenarios", "\n".join(lines)]


def _mark(cell: Cell) -> str:
    return MARKS[cell.verdict] + (_UNSTABLE if cell.unstable else "")


def _table(
    head: Sequence[str], lines: Sequence[Sequence[str]], right_from: int | None = None, centred: bool = False
) -> str:
    right = len(head) if right_from is None else right_from
    rule = ["---:" if place >= right else ":---:" if centred and place else "---" for place in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def _longest_run(text: str, character: str) -> int:
    return max((len(run) for run in re.findall(re.escape(character) + "+", text)), default=0)
