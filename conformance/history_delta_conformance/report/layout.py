# SPDX-License-Identifier: Apache-2.0
"""How the grid of agents and scenarios is laid out in a terminal of a given size. It only decides; nothing is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = 2
_NARROW = 2  # columns of a numbered scenario, its gap included
_BESIDE = 5  # lines that stand above and below the grid


@dataclass(frozen=True)
class Layout:
    """``heads`` are the columns' heads, each some lines; ``columns`` and ``lines`` name what stands there.
    ``legend`` spells out numbered heads. ``by_scenario``: scenarios are the lines, agents the columns."""

    heads: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    lines: tuple[str, ...]
    by_scenario: bool = False
    legend: tuple[str, ...] = ()


def layout_for(rows: Sequence[str], scenarios: Sequence[str], width: int, height: int) -> Layout | None:
    """Agents as lines if all scenarios can be spelt out beside each other, else scenarios as lines, else agents as
    lines with numbered scenarios; None if not even those fit, or there are none."""
    if not rows or not scenarios:
        return None
    rows, scenarios = tuple(rows), tuple(scenarios)
    room = width - max(map(len, rows))
    if sum(len(name) + _GAP for name in scenarios) <= room and len(rows) + 1 + _BESIDE <= height:
        return Layout(tuple((name,) for name in scenarios), scenarios, rows)
    heads = tuple(tuple(row.split()) for row in rows)
    tall = max(map(len, heads))
    wide = sum(max(map(len, head)) + _GAP for head in heads) + max(map(len, scenarios))
    if wide <= width and len(scenarios) + tall + _BESIDE <= height:
        return Layout(_bottom(heads, tall), rows, scenarios, by_scenario=True)
    numbers = [str(number) for number in range(1, len(scenarios) + 1)]
    tall = max(map(len, numbers))
    legend = _wrapped([f"{number} {name}" for number, name in zip(numbers, scenarios, strict=True)], width)
    if len(scenarios) * _NARROW > room or len(rows) + tall + _BESIDE > height:
        return None
    fits = len(rows) + tall + len(legend) + _BESIDE <= height
    upright = tuple(tuple(number) for number in numbers)
    return Layout(_bottom(upright, tall), scenarios, rows, legend=legend if fits else ())


def _bottom(heads: tuple[tuple[str, ...], ...], tall: int) -> tuple[tuple[str, ...], ...]:
    """The heads, filled up so that their last lines stand on the grid."""
    return tuple(("",) * (tall - len(head)) + head for head in heads)


def _wrapped(words: Sequence[str], width: int) -> tuple[str, ...]:
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + _GAP + len(word) <= width:
            lines[-1] += " " * _GAP + word
        else:
            lines.append(word)
    return tuple(lines)
