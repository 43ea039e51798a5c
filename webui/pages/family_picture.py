"""Time over size for a tuned family: the places of the picture's marks, in user units."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from tuner.families.record import FamilyRecord
from tuner.families.rule import GENERAL
from webui.format import duration
from webui.pages.figures import PlotFrame, PlotTick

_WIDTH, _HEIGHT = 1060.0, 360.0
_LEFT, _RIGHT, _TOP, _FOOT = 84.0, 20.0, 26.0, 62.0
_MOST_LABELS = 16


@dataclass(frozen=True)
class FamilyLine:
    """`kind` is "config0", "config1", ..., "portfolio", "best", "untuned" or "library"."""

    kind: str
    label: str
    points: str


@dataclass(frozen=True)
class Column:
    """A size's part of the picture, from `x1` to `x2`; `text` says what is picked there."""

    x: float
    x1: float
    x2: float
    y: float | None
    text: str


@dataclass(frozen=True)
class FamilyPicture(PlotFrame):
    """Place a size. Both axes are logarithmic with one size; with several, sizes are placed in order."""

    lines: tuple[FamilyLine, ...]
    columns: tuple[Column, ...]
    x_label: str


def family_picture(record: FamilyRecord) -> FamilyPicture | None:
    """The picture of a family; None without a time."""
    rows = {f"config{at}": row for at, row in enumerate(record.seconds)}
    rows |= dict(record.library)
    known = [time for row in (*rows.values(), record.best) for time in row if time]
    if not known:
        return None
    order = sorted(range(len(record.sizes.sizes)), key=lambda at: record.sizes.sizes[at])
    bottom = _HEIGHT - _FOOT
    across = _places([record.sizes.sizes[at] for at in order])
    x_of = {at: _LEFT + share * (_WIDTH - _LEFT - _RIGHT) for at, share in zip(order, across)}
    low, high = math.log10(min(known)) - 0.1, math.log10(max(known)) + 0.1

    def y_of(time: float) -> float:
        return bottom - (math.log10(time) - low) / (high - low) * (bottom - _TOP)

    picks = _picked(record)
    lines = [
        FamilyLine(f"config{at % 6}", str(config), _points(order, x_of, y_of, record.seconds[at]))
        for at, config in enumerate(record.configs)
    ]
    lines += [FamilyLine("library", name, _points(order, x_of, y_of, times)) for name, times in record.library.items()]
    lines.append(FamilyLine("best", "the best of all configs tried", _points(order, x_of, y_of, record.best)))
    lines.append(FamilyLine("portfolio", "the portfolio", _points(order, x_of, y_of, picks)))
    return FamilyPicture(
        _WIDTH, _HEIGHT, _LEFT, bottom, _x_ticks(record, order, x_of),
        tuple(PlotTick(y_of(10.0**n), duration(10.0**n)) for n in range(math.ceil(low), math.floor(high) + 1)),
        tuple(lines), _columns(record, order, x_of, [None if time is None else y_of(time) for time in picks]),
        ", ".join(record.sizes.symbols),
    )  # fmt: skip


def pick_text(record: FamilyRecord, at: int) -> str:
    """Return the pick at a size, its time, its distance from the best there, and others' times."""
    size = record.sizes.sizes[at]
    pick = record.rule.known.get(size, GENERAL)
    name = "the general kernel" if pick == GENERAL else str(record.configs[pick])
    time, best = _picked(record)[at], record.best[at]
    said = f"{record.sizes.text(size)}: {name}"
    if time is None:
        return said
    over = f", {100 * (time / best - 1):.1f} % over the best" if best else ""
    others = [
        f"{config}: {duration(row[at])}"
        for number, (config, row) in enumerate(zip(record.configs, record.seconds))
        if number != pick and row[at] is not None
    ]
    others += [f"{name}: {duration(own)}" for name, times in record.library.items() if (own := times[at]) is not None]
    return "\n".join([f"{said}, {duration(time)}{over}", *others])


def _picked(record: FamilyRecord) -> list[float | None]:
    picks = [record.rule.known.get(size, GENERAL) for size in record.sizes.sizes]
    return [None if pick == GENERAL else record.seconds[pick][at] for at, pick in enumerate(picks)]


def _places(sizes: Sequence[tuple[int, ...]]) -> list[float]:
    """Where sizes are across, from 0 to 1."""
    if len(sizes) == 1:
        return [0.5]
    if len(sizes[0]) > 1:
        return [at / (len(sizes) - 1) for at in range(len(sizes))]
    logarithms = [math.log2(size[0]) for size in sizes]
    low, high = min(logarithms), max(logarithms)
    return [(value - low) / (high - low) for value in logarithms]


def _points(
    order: Sequence[int], x_of: dict[int, float], y_of: Callable[[float], float], times: Sequence[float | None]
) -> str:
    found = ((x_of[at], time) for at in order if (time := times[at]) is not None)
    return " ".join(f"{x:.1f},{y_of(time):.1f}" for x, time in found)


def _x_ticks(record: FamilyRecord, order: Sequence[int], x_of: dict[int, float]) -> tuple[PlotTick, ...]:
    """The sizes, as many as can be read."""
    ticks: list[PlotTick] = []
    least = (_WIDTH - _LEFT - _RIGHT) / _MOST_LABELS * 0.6
    for at in order:
        text = "×".join(map(str, record.sizes.sizes[at]))
        if not ticks or x_of[at] - ticks[-1].at >= max(least, 6.5 * len(text)):
            ticks.append(PlotTick(x_of[at], text))
    return tuple(ticks)


def _columns(
    record: FamilyRecord, order: Sequence[int], x_of: dict[int, float], heights: Sequence[float | None]
) -> tuple[Column, ...]:
    places = [x_of[at] for at in order]
    edges = [_LEFT, *((a + b) / 2 for a, b in pairwise(places)), _WIDTH - _RIGHT]
    return tuple(
        Column(x_of[at], edges[place], edges[place + 1], heights[at], pick_text(record, at))
        for place, at in enumerate(order)
    )
