# SPDX-License-Identifier: Apache-2.0
"""Writes the vector files beside it: ``python3 generate.py [FOLDER]``.

Nothing here imports an implementation of the protocol: what is expected comes from slow_reference.py, from compose.py
and from the cases themselves. Running it again gives the same files.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import name_cases
import refusal_cases
import resync_cases
import scenario_cases
import split_cases

FORMAT = "history-delta-vectors/1"


def files() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "split", {"cases": list(split_cases.cases())}
    yield "scenarios", {"cases": list(scenario_cases.cases())}
    yield "resync", {"cases": list(resync_cases.cases())}
    around = {"before": refusal_cases.BEFORE, "after": refusal_cases.AFTER}
    yield "refused", {**around, "cases": list(refusal_cases.cases())}
    yield "names", name_cases.cases()


def texts() -> Iterator[tuple[str, str]]:
    """The name and the content of each file: one case a line, so that a change shows as the cases that it changes."""
    for name, content in files():
        lists = []
        for key, cases in content.items():
            lines = ",\n".join(json.dumps(case) for case in cases)
            lists.append(f"{json.dumps(key)}: [\n{lines}\n]")
        yield f"{name}.json", f'{{"format": "{FORMAT}",\n' + ",\n".join(lists) + "}\n"


def main(folder: Path) -> None:
    for name, text in texts():
        (folder / name).write_text(text, "ascii")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
