# SPDX-License-Identifier: Apache-2.0
from history_delta_conformance.report.layout import layout_for
from support.sample_report import SCENARIOS

ROWS = ["opencode chat", "opencode messages", "codex responses", "pi chat", "hermes chat", "hermes chat in-process",
        "kilo chat"]  # fmt: skip


def test_a_wide_terminal_spells_out_the_scenarios() -> None:
    layout = layout_for(ROWS, list(SCENARIOS), 400, 20)
    assert layout is not None
    assert layout.heads == tuple((name,) for name in SCENARIOS)
    assert layout.lines == tuple(ROWS)
    assert not layout.by_scenario


def test_a_few_scenarios_fit_into_80_columns() -> None:
    layout = layout_for(ROWS, ["hello", "tool-use", "sub-agents"], 80, 24)
    assert layout is not None
    assert layout.lines == tuple(ROWS)


def test_a_tall_terminal_turns_the_table() -> None:
    layout = layout_for(ROWS, list(SCENARIOS), 110, 40)
    assert layout is not None
    assert layout.by_scenario
    assert layout.lines == tuple(SCENARIOS)
    assert layout.heads[5] == ("hermes", "chat", "in-process")
    assert layout.heads[6] == ("", "kilo", "chat")


def test_80_columns_and_24_lines_number_the_scenarios_and_say_which_is_which() -> None:
    layout = layout_for(ROWS, list(SCENARIOS), 80, 24)
    assert layout is not None
    assert ["".join(head) for head in layout.heads] == [str(number) for number in range(1, 26)]
    assert all(len(line) <= 80 for line in layout.legend)
    assert "  ".join(layout.legend).split("  ") == [f"{n} {name}" for n, name in enumerate(SCENARIOS, 1)]
    assert 2 + len(ROWS) + len(layout.legend) <= 24 - 5


def test_a_low_terminal_leaves_the_legend_out_and_a_tiny_one_the_grid() -> None:
    low = layout_for(ROWS, list(SCENARIOS), 80, 16)
    assert low is not None
    assert low.legend == ()
    assert layout_for(ROWS, list(SCENARIOS), 60, 24) is None
    assert layout_for(ROWS, list(SCENARIOS), 80, 10) is None


def test_without_a_plan_there_is_no_grid() -> None:
    assert layout_for([], [], 80, 24) is None
    assert layout_for(ROWS, [], 80, 24) is None
