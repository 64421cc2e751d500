# SPDX-License-Identifier: Apache-2.0
"""What the documentation says of the comparison is what the code does."""

import re
from pathlib import Path

import history_delta_conformance.comparison
from history_delta_conformance.comparison.rules import RULES
from history_delta_conformance.matrix.proof import CHECKS
from history_delta_conformance.mutants import MUTANTS

DOC = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text()
SOURCES = Path(history_delta_conformance.comparison.__file__).parent.glob("*.py")
# As the code makes them up, from an aspect's or a thing's name.
MADE_UP = {f"{what}-{how}" for what in ("record", "file") for how in ("missing", "added", "changed")}
MADE_UP |= {f"{aspect}-changed" for aspect in ("final-text", "usage", "git-diff")}
ENDINGS = "missing|added|changed|reordered|rewritten|re-serialised|repeated|swapped|ended|cut|equal"


def rows(heading):
    section = ("\n" + DOC).partition(f"\n{heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \| (.*) \| (.*) \|$", section, re.MULTILINE)


def test_every_rule_is_listed_with_its_reason():
    assert rows("## Rules") == [(rule.name, ", ".join(rule.agents) or "all", rule.reason) for rule in RULES]


def test_every_mutant_is_listed_with_its_finding():
    assert rows("## Showing that it can fail") == [
        (mutant.name, mutant.description, f"`{mutant.finding}`") for mutant in MUTANTS.values() if mutant.finding
    ]


def test_every_check_of_a_run_is_listed():
    section = DOC.partition("\n## What a run must show by itself\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section, re.MULTILINE)
    assert listed[: len(CHECKS)] == [(check.name, check.summary) for check in CHECKS]


def test_every_kind_of_finding_is_listed_and_no_other():
    listed = {
        name
        for _, _, names in rows("# What is compared, and what is put aside first")
        for name in re.findall("`(.+?)`", names)
    }
    in_code = {
        name for source in SOURCES for name in re.findall(rf'"([a-z]+(?:-[a-z]+)*-(?:{ENDINGS}))"', source.read_text())
    }
    assert listed == in_code | MADE_UP
