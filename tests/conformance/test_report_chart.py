# SPDX-License-Identifier: Apache-2.0
import math
from itertools import pairwise

import pytest
from history_delta_conformance.report.chart import LEFT, PLOT, TOP, Chart, Scale, chart_of
from history_delta_conformance.report.figures import CallPair


def pairs_of(*figures: tuple[int | None, int | None]) -> list[CallPair]:
    return [CallPair(f"main {place}", off, on, "delta") for place, (off, on) in enumerate(figures, 1)]


def drawn(*figures: tuple[int | None, int | None]) -> Chart:
    chart = chart_of(pairs_of(*figures))
    assert chart is not None
    return chart


def scale(chart: Chart, name: str) -> Scale:
    return next(scale for scale in chart.scales if scale.name == name)


def test_linear_bars_are_as_tall_as_their_figures() -> None:
    bars = scale(drawn((1_000, 250), (2_000, 500)), "linear").bars
    assert [(which, height) for which, _, _, height in bars] == [
        ("off", PLOT / 2), ("on", PLOT / 8), ("off", PLOT), ("on", PLOT / 4)
    ]  # fmt: skip
    assert all(y + height == pytest.approx(TOP + PLOT) for _, _, y, height in bars)


def test_logarithmic_bars_grow_by_the_same_for_the_same_factor() -> None:
    off, on, more, most = (height for *_, height in scale(drawn((1_000, 100), (10_000, 100_000)), "logarithmic").bars)
    assert off - on == pytest.approx(more - off, abs=0.02) == pytest.approx(most - more, abs=0.02)
    assert on > 0
    assert most == PLOT


def test_ticks_stand_where_a_bar_of_their_figure_ends() -> None:
    for name in ("linear", "logarithmic"):
        drawing = scale(drawn((100_000, 10_000), (50_000, 1_000)), name)
        ends = {round(y, 1) for _, _, y, _ in drawing.bars}
        ticks = {tick.text: round(tick.at, 1) for tick in drawing.ticks}
        assert ticks["100 kB"] in ends


@pytest.mark.parametrize("top", [1, 2, 9, 10, 11, 99, 100, 1_234, 49_999, 50_000, 94_000, 10**6, 123_456_789])
@pytest.mark.parametrize("least", [1, 2, 150, 10**6])
def test_any_figures_can_be_drawn(top: int, least: int) -> None:
    chart = drawn((max(top, least), least))
    for drawing in chart.scales:
        assert all(0 < height <= PLOT for *_, height in drawing.bars)
        assert all(TOP <= tick.at <= TOP + PLOT for tick in drawing.ticks)
        assert len({tick.text for tick in drawing.ticks}) == len(drawing.ticks)
    if top >= least and top > 9:
        assert 2 <= len(scale(chart, "linear").ticks) <= 6


@pytest.mark.parametrize("number", [1, 2, 12, 60, 61, 500])
def test_bars_of_all_calls_stand_apart_and_inside(number: int) -> None:
    chart = drawn(*[(1_000, 500)] * number)
    bars = sorted((x, x + chart.bar) for _, x, _, _ in scale(chart, "linear").bars)
    assert len(bars) == 2 * number
    assert all(before[1] < after[0] for before, after in pairwise(bars))
    assert bars[0][0] >= LEFT
    assert bars[-1][1] <= chart.width
    assert chart.bar >= 3


def test_a_call_that_one_run_did_not_make_has_one_bar_and_says_so() -> None:
    chart = drawn((1_000, None), (None, 7))
    assert [which for which, *_ in scale(chart, "linear").bars] == ["off", "on"]
    assert [column.text for column in chart.columns] == [
        "call 1, main 1: off 1,000 B, on no such call (delta)",
        "call 2, main 2: off no such call, on 7 B (delta)",
    ]


def test_numbers_beneath_are_round_and_do_not_touch() -> None:
    chart = drawn(*[(1_000, 500)] * 60)
    assert [int(call.text) for call in chart.calls] == [1, *range(5, 61, 5)]
    assert math.isclose(chart.calls[0].at - LEFT, chart.step / 2)


def test_nothing_to_draw() -> None:
    assert chart_of([]) is None
    assert chart_of(pairs_of((0, 0), (None, 0))) is None
