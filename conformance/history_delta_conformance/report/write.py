# SPDX-License-Identifier: Apache-2.0
"""Writes all forms of a report into a folder, each in one step: a reader sees a whole file or none."""

import os
from pathlib import Path

from .document import to_json
from .html import to_html
from .junit import to_junit
from .markdown import to_markdown
from .results import Report


def write_report(report: Report, folder: Path) -> list[Path]:
    """Write ``report.md``, ``report.json``, ``junit.xml`` and ``report.html``, over those there; their paths."""
    forms = {
        "report.md": to_markdown(report).encode(),
        "report.json": to_json(report),
        "junit.xml": to_junit(report),
        "report.html": to_html(report).encode(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in forms.items():
        _replace(folder / name, content)
    return [folder / name for name in forms]


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
