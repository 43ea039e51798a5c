"""The geometry of the SVG figures that the server draws: places of marks, in user units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import NamedTuple

from tuner.bench.series import CONFIRMED
from tuner.records.farm.model_farm import BenchResult
from tuner.records.model_store.facts import ModelTime
from webui.decisions import DecidedCandidate, DecisionChoice, Value
from webui.forecasts import Forecast
from webui.format import duration, stamp

# --- parallel coordinates ------------------------------------------------------------------------------------

_TOP, _FOOT, _SIDE = 56.0, 18.0, 70.0
_WIDTH, _LEAST_GAP, _MOST_GAP = 1060.0, 105.0, 460.0
_HEIGHT = 330.0
_MOST_TICKS = 8


@dataclass(frozen=True)
class PlotTick:
    at: float
    text: str


@dataclass(frozen=True)
class PlotFrame:
    """The size of a picture, where its axes are, and what stands along them."""

    width: float
    height: float
    left: float
    bottom: float
    x_ticks: tuple[PlotTick, ...]
    y_ticks: tuple[PlotTick, ...]


@dataclass(frozen=True)
class PlotAxis:
    """A vertical axis at `x`; `title` in lines."""

    x: float
    title: tuple[str, ...]
    ticks: tuple[PlotTick, ...]


@dataclass(frozen=True)
class ParallelLine:
    """One candidate's line. `rank`: "best", "good" (the fastest tenth) or "rest"."""

    points: str
    rank: str
    sequence: int


@dataclass(frozen=True)
class ParallelCoordinates:
    """Parallel coordinates (Inselberg 1985): an axis a choice, the last one the speed.
    The best are drawn last."""

    width: float
    height: float
    top: float
    bottom: float
    axes: tuple[PlotAxis, ...]
    lines: tuple[ParallelLine, ...]


def parallel_coordinates(
    candidates: Sequence[DecidedCandidate], choices: Sequence[DecisionChoice]
) -> ParallelCoordinates:
    """A picture of the choices that `candidates` made, which go from left to right as given."""
    bottom = _HEIGHT - _FOOT
    ordered = sorted(candidates, key=lambda c: -c.cost)
    places = [_evenly(choice.values, bottom) for choice in choices]
    gap = min(_MOST_GAP, max(_LEAST_GAP, (_WIDTH - 2 * _SIDE) / max(1, len(choices))))
    slow, fast = (math.log(ordered[0].cost), math.log(ordered[-1].cost)) if ordered else (0.0, 0.0)

    def speed_at(cost: float) -> float:
        return bottom - (slow - math.log(cost)) / ((slow - fast) or 1.0) * (bottom - _TOP)

    axes = [
        PlotAxis(_SIDE + at * gap, _lines(choice.label), _some([PlotTick(y, _short(v)) for v, y in place.items()]))
        for at, (choice, place) in enumerate(zip(choices, places, strict=True))
    ]
    end = _SIDE + len(choices) * gap
    few = [PlotTick(bottom, "slowest"), PlotTick(_TOP, "fastest")] if ordered else []
    axes.append(PlotAxis(end, ("speed",), tuple(few)))
    drawn = []
    good = max(1, len(ordered) // 10)
    for at, candidate in enumerate(ordered):
        marks = [
            (axis.x, place[candidate.choices[choice.label]])
            for axis, choice, place in zip(axes, choices, places)
            if choice.label in candidate.choices
        ]
        marks.append((end, speed_at(candidate.cost)))
        left = len(ordered) - at
        rank = "best" if left == 1 else "good" if left <= good else "rest"
        drawn.append(ParallelLine(" ".join(f"{x:.0f},{y:.1f}" for x, y in marks), rank, candidate.sequence))
    return ParallelCoordinates(end + _SIDE, _HEIGHT, _TOP, bottom, tuple(axes), tuple(drawn))


def _evenly(values: Sequence[Value], bottom: float) -> dict[Value, float]:
    step = (bottom - _TOP) / max(1, len(values) - 1)
    return {value: bottom - at * step for at, value in enumerate(values)}


def _some(ticks: Sequence[PlotTick]) -> tuple[PlotTick, ...]:
    every = math.ceil(len(ticks) / _MOST_TICKS)
    return tuple(ticks[::every])


def _short(value: Value) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 10 else text[:9] + "…"


def _lines(label: str) -> tuple[str, ...]:
    """A label over at most three lines of about 16 characters."""
    lines: list[str] = []
    for word in label.split():
        if lines and len(lines[-1]) + len(word) < 16:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return tuple(line if len(line) <= 18 else line[:17] + "…" for line in lines[:3])


# --- roofline ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ceiling:
    """The peaks of a device class: operations and bytes a second."""

    name: str
    flops: float
    bandwidth: float

    def at(self, intensity: float) -> float:
        return min(self.flops, intensity * self.bandwidth)


@dataclass(frozen=True)
class Achieved:
    """A kernel on a device class: operations a second."""

    name: str
    label: str
    flops: float


@dataclass(frozen=True)
class Roof:
    points: str
    label: str
    label_at: tuple[float, float]


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Roofline(PlotFrame):
    """The roofline model (Williams, Waterman, Patterson 2009), both axes logarithmic."""

    roofs: tuple[Roof, ...]
    dots: tuple[Dot, ...]
    intensity_at: float


_ROOF_WIDTH, _ROOF_HEIGHT = 1060.0, 340.0
_MARGIN_LEFT, _MARGIN_RIGHT, _MARGIN_TOP, _MARGIN_BOTTOM = 84.0, 20.0, 26.0, 46.0


def roofline(intensity: float, ceilings: Sequence[Ceiling], achieved: Sequence[Achieved]) -> Roofline:
    """Kernels of one workload, of `intensity` operations a byte, under what their devices can do."""
    rates = [c.at(intensity) for c in ceilings] + [c.flops for c in ceilings] + [a.flops for a in achieved]
    ridges = [c.flops / c.bandwidth for c in ceilings]
    left, right = _decades([intensity / 4, intensity * 4, *(r / 4 for r in ridges), *(r * 4 for r in ridges)])
    low, high = _decades([min(rates) / 4, max(rates) * 1.5])
    bottom = _ROOF_HEIGHT - _MARGIN_BOTTOM

    def px(value: float) -> float:
        share = (math.log10(value) - left) / (right - left)
        return _MARGIN_LEFT + share * (_ROOF_WIDTH - _MARGIN_LEFT - _MARGIN_RIGHT)

    def py(value: float) -> float:
        return bottom - (math.log10(value) - low) / (high - low) * (bottom - _MARGIN_TOP)

    roofs = []
    for ceiling in ceilings:
        start = max(10.0**left, 10.0**low / ceiling.bandwidth)
        bends = [start, ceiling.flops / ceiling.bandwidth, 10.0**right]
        points = " ".join(f"{px(x):.1f},{py(ceiling.at(x)):.1f}" for x in bends)
        roofs.append(Roof(points, ceiling.name, (px(10.0**right), py(ceiling.flops) - 6)))
    return Roofline(
        _ROOF_WIDTH,
        _ROOF_HEIGHT,
        _MARGIN_LEFT,
        bottom,
        tuple(PlotTick(px(10.0**n), _power(n)) for n in range(left, right + 1)),
        tuple(PlotTick(py(10.0**n), _rate(n)) for n in range(low, high + 1)),
        tuple(roofs),
        tuple(Dot(px(intensity), py(a.flops), f"{a.name}: {a.label}") for a in achieved),
        px(intensity),
    )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around `values`, at least one apart."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _power(n: int) -> str:
    return f"{10.0**n:g}"


def _rate(n: int) -> str:
    for scale, unit in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if n >= scale:
            return f"{10 ** (n - scale)} {unit}FLOP/s"
    return f"{10.0**n:g} FLOP/s"


# --- a series of times ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mark:
    """One result: its place, the ends of its interval, and its label."""

    x: float
    y: float
    low: float
    high: float
    text: str
    confirmed: bool


@dataclass(frozen=True)
class PlotLevel:
    """A steady stretch, at the median of its results."""

    x1: float
    x2: float
    y: float


@dataclass(frozen=True)
class Series(PlotFrame):
    marks: tuple[Mark, ...]
    levels: tuple[PlotLevel, ...]


class _Timed(NamedTuple):
    """A time to be drawn, with its interval, what to say of it, and whether it stands out."""

    moment: datetime
    cost: float
    low: float
    high: float
    text: str
    confirmed: bool


def series(results: Sequence[BenchResult], steps: Sequence[int]) -> Series:
    """Results with a time, oldest first, evenly spaced; `steps` are where another level begins."""
    times = []
    for result in results:
        cost = result.cost or 0.0
        text = f"run {result.run_id}, {stamp(result.measured_at)}: {duration(cost)}"
        ends = result.low or cost, result.high or cost
        times.append(_Timed(result.measured_at, cost, *ends, text, CONFIRMED in result.noise))
    return _drawn(times, [0, *steps])


def time_series(times: Sequence[ModelTime], versions: Mapping[int, str]) -> Series:
    """Draw end-to-end times of a model on a device class, oldest first.
    There is a stretch for each version, by its name."""
    drawn = []
    for time in times:
        release = f", release {time.release}" if time.release else ""
        name = versions.get(time.version_id, "an older one")
        text = f"{stamp(time.measured_at)}: {duration(time.cost)}, version {name}{release}"
        drawn.append(_Timed(time.measured_at, time.cost, time.low, time.high, text, bool(time.release)))
    newer = (at for at in range(1, len(times)) if times[at].version_id != times[at - 1].version_id)
    return _drawn(drawn, [0, *newer])


def _drawn(times: Sequence[_Timed], starts: Sequence[int]) -> Series:
    """At least one time, evenly spaced; a level begins at each of `starts`."""
    low, high = min(time.low for time in times), max(time.high for time in times)
    ticks = _nice(0.0 if low < 0.4 * high else low, high)
    bottom, top = _ROOF_HEIGHT - _MARGIN_BOTTOM, _MARGIN_TOP
    gap = (_ROOF_WIDTH - _MARGIN_LEFT - _MARGIN_RIGHT) / len(times)

    def px(at: float) -> float:
        return _MARGIN_LEFT + (at + 0.5) * gap

    def py(value: float) -> float:
        return bottom - (value - ticks[0]) / (ticks[-1] - ticks[0]) * (bottom - top)

    marks = [Mark(px(at), py(t.cost), py(t.low), py(t.high), t.text, t.confirmed) for at, t in enumerate(times)]
    levels = []
    for start, end in zip(starts, [*starts[1:], len(times)], strict=True):
        middle = median(time.cost for time in times[start:end])
        levels.append(PlotLevel(px(start) - gap / 2, px(end - 1) + gap / 2, py(middle)))
    dates = tuple(PlotTick(px(at), text) for at, text in _dates([time.moment for time in times]))
    numbers = tuple(PlotTick(py(value), duration(value)) for value in ticks)
    return Series(_ROOF_WIDTH, _ROOF_HEIGHT, _MARGIN_LEFT, bottom, dates, numbers, tuple(marks), tuple(levels))


def _dates(moments: Sequence[datetime]) -> list[tuple[int, str]]:
    """The labels of some eight of these, by index.
    A label is the day, or the time where all are of one day."""
    form = "%m-%d" if len({moment.date() for moment in moments}) > 1 else "%H:%M"
    return [(at, f"{moments[at]:{form}}") for at in range(0, len(moments), max(1, len(moments) // 8))]


def _nice(low: float, high: float) -> list[float]:
    """Four or so round numbers from at most `low` to at least `high`."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(f * power for f in (1, 2, 2.5, 5, 10) if f * power >= span / 4)
    first = math.floor(low / step)
    return [step * number for number in range(first, math.ceil(high / step) + 1)]


# --- expected and measured -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scatter(PlotFrame):
    """Predicted times from left to right, measured times upwards, both logarithmic and of the same range.
    `diagonal` is the line of equal times: x and y of its ends."""

    dots: tuple[Dot, ...]
    diagonal: tuple[float, float, float, float]


_SCATTER_WIDTH, _SCATTER_HEIGHT = 1060.0, 420.0


def scatter(forecasts: Sequence[Forecast]) -> Scatter:
    """Draw at least one candidate."""
    times = [f.cost for f in forecasts] + [f.expected for f in forecasts]
    low, high = math.log10(min(times)) - 0.05, math.log10(max(times)) + 0.05
    right, bottom = _SCATTER_WIDTH - _MARGIN_RIGHT, _SCATTER_HEIGHT - _MARGIN_BOTTOM

    def at(value: float) -> float:
        return (math.log10(value) - low) / (high - low)

    def px(value: float) -> float:
        return _MARGIN_LEFT + at(value) * (right - _MARGIN_LEFT)

    def py(value: float) -> float:
        return bottom - at(value) * (bottom - _MARGIN_TOP)

    ticks = _log_ticks(10.0**low, 10.0**high)
    return Scatter(
        _SCATTER_WIDTH,
        _SCATTER_HEIGHT,
        _MARGIN_LEFT,
        bottom,
        tuple(PlotTick(px(t), duration(t)) for t in ticks),
        tuple(PlotTick(py(t), duration(t)) for t in ticks),
        tuple(Dot(px(f.expected), py(f.cost), _forecast_text(f)) for f in forecasts),
        (_MARGIN_LEFT, bottom, right, _MARGIN_TOP),
    )


def _forecast_text(forecast: Forecast) -> str:
    return f"trial {forecast.sequence}: expected {duration(forecast.expected)}, took {duration(forecast.cost)}"


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers between two: the one, two and five times of each power of ten; fewer over many powers."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0, 2.0, 5.0) if last - first <= 3 else (1.0,)
    return [step * 10.0**n for n in range(first, last + 1) for step in steps if low <= step * 10.0**n <= high]
