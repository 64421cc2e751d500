# SPDX-License-Identifier: Apache-2.0
"""Makes the other forms of a report again from its JSON. Exit code 0 whatever the verdict, 2 without a report."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .document import ReportError, from_json
from .figures import verdict
from .write import write_report

_USAGE_ERROR = 2


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("history-delta conformance report", description="Render a report again")
    parser.add_argument("report", type=Path, metavar="FILE", help="a report.json, or the folder that holds one")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write; default: beside the report")
    options = parser.parse_args(argv)
    path: Path = options.report / "report.json" if options.report.is_dir() else options.report
    try:
        report = from_json(path.read_bytes())
        written = write_report(report, options.output or path.parent)
    except (OSError, ReportError) as error:
        print(f"history-delta conformance report: {path}: {error}", file=sys.stderr)
        return _USAGE_ERROR
    print(verdict(report))
    for file in written:
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
