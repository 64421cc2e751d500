# SPDX-License-Identifier: Apache-2.0
"""The published list: docs/cases.md is what the registry gives."""

import subprocess
import sys
from pathlib import Path

from history_delta_conformance.cases import listing, load
from history_delta_conformance.cases.registry import SERVER, SHIM, UNOBSERVABLE
from history_delta_conformance.cases.server.ground import EXAMPLE as SERVER_EXAMPLE
from history_delta_conformance.cases.shim.process import EXAMPLE as SHIM_EXAMPLE

PUBLISHED = Path(__file__).parents[2] / "docs" / "cases.md"
COMMAND = [sys.executable, "-m", "history_delta_conformance.cases.listing"]


def test_the_published_list_is_up_to_date() -> None:
    made = subprocess.run(COMMAND, capture_output=True, text=True, check=True).stdout
    assert PUBLISHED.read_text(encoding="utf-8") == made, f"write it anew: {' '.join(COMMAND[1:])} > docs/cases.md"


def test_it_has_every_case_and_what_has_none() -> None:
    load()
    text = listing.document()
    for case in (*SERVER, *SHIM):
        assert f"| {case.number} | {case.title.replace('|', chr(92) + '|')} | {' '.join(case.requirements)}" in text
    for (name, level), reason in UNOBSERVABLE.items():
        assert f"- {name} ({level}): {reason}" in text
    assert "| – |" not in text


def test_its_examples_are_those_that_the_tests_of_the_cases_run() -> None:
    text = listing.document()
    for example in (SERVER_EXAMPLE, SHIM_EXAMPLE):
        assert f'--command "{example}"' in text
