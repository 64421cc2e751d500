# SPDX-License-Identifier: Apache-2.0
import random

from history_delta_conformance.report import figures
from history_delta_conformance.report.results import CallBytes, RuleCount, RuleUsed
from msgspec.structs import replace
from support.sample_report import (
    FAILED,
    FINDING,
    NOT_RUN,
    ROWS,
    SCENARIOS,
    cell,
    good_report,
    report,
    sample_report,
)


def test_rows_and_scenarios_stand_in_the_reports_order_however_the_cells_were_run() -> None:
    whole = sample_report()
    cells = list(whole.cells)
    random.Random(7).shuffle(cells)
    shuffled = replace(whole, cells=tuple(cells))
    heads = [f"{agent} {dialect}" + (" in-process" if mode == "in-process" else "") for agent, dialect, mode in ROWS]
    assert figures.rows(shuffled) == heads
    assert figures.scenarios(shuffled) == list(SCENARIOS)
    assert figures.ordered(shuffled) == figures.ordered(whole)
    assert [c.name for c in figures.ordered(shuffled).cells] == [
        f"{name}/{head}" for name in SCENARIOS for head in heads
    ]


def test_what_the_report_does_not_list_comes_last() -> None:
    made = report(cell(scenario="zz"), cell(scenario="aa"), cell(), cell(agent="aider"))
    assert figures.scenarios(made) == ["tool-use", "aa", "zz"]
    assert figures.rows(made) == ["codex responses", "aider responses"]


def test_bytes_are_those_of_comparisons_of_which_both_runs_made_calls() -> None:
    one = (CallBytes("a", "off", 1_000, 7),)
    two = (CallBytes("a", "delta", 1_000, 100),)
    cells = [
        cell(off_calls=one, calls=two),
        cell(off_calls=one, calls=two, verdict="failed"),
        cell(off_calls=(), calls=two),
        cell(off_calls=one, calls=()),
        cell(off_calls=one, calls=two, verdict="not-run"),
    ]
    assert figures.volume(cells) == figures.Volume(2_000, 200)
    assert figures.volume(cells).ratio == "10.0x"


def test_calls_are_paired_by_label_in_their_order() -> None:
    def call(label: str, number: int) -> CallBytes:
        return CallBytes(label, "delta", number, number + 1)

    off = (call("main 1", 10), call("child 1", 20), call("child 1", 30), call("main 2", 40), call("title", 50))
    on = (call("main 1", 11), call("child 1", 21), call("main 2", 41), call("child 1", 31), call("extra", 61))
    pairs = figures.call_pairs(cell(off_calls=off, calls=on))
    assert [(pair.label, pair.off, pair.on) for pair in pairs] == [
        ("main 1", 10, 12),
        ("child 1", 20, 22),
        ("main 2", 40, 42),
        ("child 1", 30, 32),
        ("extra", None, 62),
        ("title", 50, None),
    ]


def test_equal_calls_that_one_run_did_not_make_are_all_told() -> None:
    same = CallBytes("main 1", "off", 10, 10)
    pairs = figures.call_pairs(cell(off_calls=(same, same, same), calls=(same,)))
    assert [(pair.off, pair.on) for pair in pairs] == [(10, 10), (10, None), (10, None)]


def test_rules_are_summed_and_one_that_is_not_listed_is_told_too() -> None:
    made = report(cell(rules={"date": RuleCount(1, 2)}), cell(rules={"date": RuleCount(3, 4), "new": RuleCount(5, 6)}))
    totals = {rule.name: (count.off, count.on) for rule, count in figures.rule_totals(made)}
    assert totals == {"tool-call-id": (0, 0), "date": (4, 6), "port": (0, 0), "tool-order": (0, 0), "new": (5, 6)}
    assert figures.rule_totals(made)[-1][0] == RuleUsed("new", "")


def test_what_does_not_apply_is_told_once_for_each_row_and_reason() -> None:
    assert ("pi chat", "pi has no sub-agents", ["sub-agents"]) in figures.not_applicable(sample_report())
    assert [len(names) for row, _, names in figures.not_applicable(sample_report()) if row == "opencode messages"] == [
        23
    ]


def test_why_is_the_reason_or_else_the_first_finding() -> None:
    assert figures.why(FAILED) == "message-changed"
    assert figures.why(cell(findings=(FINDING,))) == "message-changed: request 7 (tool-use 7): message 14 differs"
    assert figures.why(cell()) == ""


def test_the_verdict_says_what_was_proved_with_figures() -> None:
    proved = figures.verdict(good_report())
    assert proved.startswith(
        "Proved: switching the transport on changed nothing but the traffic in all 147 comparisons"
    )
    assert "with 5 agents; 2,308 of 2,308 requests reached the model byte for byte" in proved
    assert proved.endswith("of request bodies crossed the wire as 5.2 MB (36.3x fewer).")


def test_the_verdict_never_says_proved_of_what_failed_or_was_not_run() -> None:
    assert figures.verdict(report(cell(), FAILED, NOT_RUN)).startswith(
        "Not proved: of 3 comparisons with 1 agent, 1 failed, 1 not run; 25 of 26 requests"
    )
    assert figures.verdict(report(cell(), NOT_RUN)).startswith("Not proved: of 2 comparisons")
    for nothing in (report(), report(NOT_RUN), report(replace(NOT_RUN, verdict="not-applicable"))):
        assert figures.verdict(nothing) == "Nothing was proved: no comparison was run."


def test_a_pass_that_off_against_off_weakens_says_so() -> None:
    assert figures.label_of(cell(unstable=(FINDING,))) == "passed, off against off differs"
    assert figures.label_of(cell(unstable=())) == "passed"
