# SPDX-License-Identifier: Apache-2.0
"""The geometry of a chart of bytes per model call, off beside on. It only computes; the page's template draws."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .figures import CallPair
from .text import exact, size

LEFT, TOP, PLOT, BOTTOM, RIGHT = 62, 22, 150, 38, 8  # around and in the plot, in pixels
_NARROWEST = 300
_TICKS = 4
_GAP = 1
_THINNEST = 0.5  # something is drawn for every figure but none and zero
_LABELS_APART = 24

Place = Callable[[int], float]  # bytes -> height of a bar


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Scale:
    """One way to draw the same figures: ``bars`` are (which, x, y, height) with ``which`` off or on."""

    name: str
    ticks: tuple[Tick, ...]
    bars: tuple[tuple[str, float, float, float], ...]


@dataclass(frozen=True)
class Chart:
    width: int
    height: int
    step: int
    bar: float
    columns: tuple[Tick, ...]
    """Where each call's column starts, and what it says when pointed at."""
    calls: tuple[Tick, ...]
    """The numbers beneath the columns."""
    scales: tuple[Scale, ...]


def chart_of(pairs: Sequence[CallPair]) -> Chart | None:
    """The chart, linear and logarithmic; None without a figure to draw."""
    figures = [figure for pair in pairs for figure in (pair.off, pair.on) if figure]
    if not figures:
        return None
    step = _step(len(pairs))
    bar = (step - 3) / 2
    top, least = max(figures), min(figures)
    every = next((n for n in (1, 2, 5, 10) if n * step >= _LABELS_APART), 10)
    return Chart(
        width=max(_NARROWEST, LEFT + step * len(pairs) + RIGHT),
        height=TOP + PLOT + BOTTOM,
        step=step,
        bar=bar,
        columns=tuple(Tick(LEFT + step * place, _told(place + 1, pair)) for place, pair in enumerate(pairs)),
        calls=tuple(
            Tick(LEFT + step * (place + 0.5), str(place + 1))
            for place in range(len(pairs))
            if place == 0 or (place + 1) % every == 0
        ),
        scales=(
            _scale("linear", pairs, _linear(top), _even_ticks(top), step, bar),
            _scale("logarithmic", pairs, _logarithmic(top, least), _powers(top, least), step, bar),
        ),
    )


def _scale(name: str, pairs: Sequence[CallPair], height: Place, ticks: Sequence[int], step: int, bar: float) -> Scale:
    bars = []
    for place, pair in enumerate(pairs):
        left = LEFT + step * place + 1
        for which, figure, x in (("off", pair.off, left), ("on", pair.on, left + bar + _GAP)):
            if figure:
                tall = max(_THINNEST, round(height(figure), 2))
                bars.append((which, round(x, 2), round(TOP + PLOT - tall, 2), tall))
    places = [Tick(round(TOP + PLOT - height(tick), 2), size(tick).replace(".0 ", " ")) for tick in ticks]
    return Scale(name, tuple(places), tuple(bars))


def _step(calls: int) -> int:
    """Pixels from call to call: wide for a few, narrow for many."""
    return max(11, min(28, 640 // calls))


def _linear(top: int) -> Place:
    return lambda figure: PLOT * figure / top


def _even_ticks(top: int) -> list[int]:
    rough = top / _TICKS
    power = 10 ** math.floor(math.log10(rough)) if rough >= 1 else 1
    step = next(int(factor * power) for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return list(range(0, top + 1, step))


def _logarithmic(top: int, least: int) -> Place:
    base = _base(least)
    whole = math.log(max(top, base * 10) / base)
    return lambda figure: PLOT * max(0.0, math.log(figure / base)) / whole


def _powers(top: int, least: int) -> list[int]:
    first = round(math.log10(_base(least)))
    return [10**power for power in range(first, math.floor(math.log10(max(top, 1))) + 1)]


def _base(least: int) -> int:
    """A power of ten that leaves the smallest bar some height."""
    return int(10 ** math.floor(math.log10(max(least / 2, 1))))


def _told(number: int, pair: CallPair) -> str:
    off, on = ("no such call" if figure is None else f"{exact(figure)} B" for figure in (pair.off, pair.on))
    kind = f" ({pair.kind})" if pair.kind else ""
    return f"call {number}, {pair.label}: off {off}, on {on}{kind}"
