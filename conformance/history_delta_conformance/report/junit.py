# SPDX-License-Identifier: Apache-2.0
"""The report as JUnit XML, for the test tab of a CI: a suite per row of the matrix, a case per scenario."""

from xml.etree import ElementTree

from .figures import call_pairs, of_row, ordered, rows, volume, why
from .results import Cell, Report
from .text import exact, one_line, visible

_SUITE = "history-delta conformance"
# Which element tells a verdict, and the attribute of its suite that counts it.
_TOLD = {"failed": ("failure", "failures"), "not-run": ("error", "errors"), "not-applicable": ("skipped", "skipped")}


def to_junit(report: Report) -> bytes:
    report = ordered(report)
    root = _element("testsuites", name=_SUITE, time=_seconds(report.seconds), **_counts(report.cells))
    for row in rows(report):
        root.append(_suite(report, row))
    ElementTree.indent(root, " ")
    text: str = ElementTree.tostring(root, encoding="unicode")
    return ('<?xml version="1.0" encoding="UTF-8"?>\n' + text + "\n").encode()


def _suite(report: Report, row: str) -> ElementTree.Element:
    cells = of_row(report, row)
    suite = _element(
        "testsuite",
        name=one_line(row),
        timestamp=one_line(report.started).removesuffix("Z"),
        time=_seconds(sum(cell.off_seconds + cell.on_seconds for cell in cells)),
        **_counts(cells),
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(report, cells[0]).items():
        ElementTree.SubElement(properties, "property", name=one_line(name), value=one_line(value))
    suite.extend([_case(cell) for cell in cells])
    return suite


def _properties(report: Report, cell: Cell) -> dict[str, str]:
    here = {"agent": cell.agent, "agent version": cell.version, "dialect": cell.dialect, "mode": cell.mode}
    return {**here, "command": report.command, **dict(sorted(report.versions.items()))}


def _case(cell: Cell) -> ElementTree.Element:
    case = _element(
        "testcase",
        name=one_line(cell.scenario),
        classname=f"conformance.{one_line(cell.row)}",
        time=_seconds(cell.off_seconds + cell.on_seconds),
    )
    if cell.verdict in _TOLD:
        element = ElementTree.SubElement(case, _TOLD[cell.verdict][0], message=why(cell))
        if cell.verdict != "not-applicable":
            element.set("type", one_line(cell.findings[0].name) if cell.findings else cell.verdict)
            element.text = _findings(cell)
    if call_pairs(cell):
        sums = volume([cell])
        out = ElementTree.SubElement(case, "system-out")
        out.text = (
            f"{exact(cell.equal)} of {exact(cell.requests)} requests byte-equal; body bytes off {exact(sums.off)},"
            f" on {exact(sums.on)} ({sums.ratio})"
        )
    return case


def _findings(cell: Cell) -> str:
    told = [f"{finding.name} in {finding.aspect}: {finding.summary}\n{finding.diff}" for finding in cell.findings]
    return visible("\n".join([cell.reason, *told]).strip())


def _counts(cells: list[Cell] | tuple[Cell, ...]) -> dict[str, str]:
    counts = {count: str(sum(cell.verdict == verdict for cell in cells)) for verdict, (_, count) in _TOLD.items()}
    return {"tests": str(len(cells)), **counts}


def _element(tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(tag, attributes)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}"
