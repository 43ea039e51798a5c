"""The schedule that looks best before anything is measured: no trial, milliseconds a kernel."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from compiler.errors import ScheduleError
from compiler.schedule.core.effects import remembered
from compiler.schedule.core.schedule import Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.errors import TuningError
from tuner.model.guide import Guide
from tuner.model.library import Found, newest
from tuner.search.base import Candidate
from tuner.search.population import Point, is_costly, mutated, sample
from tuner.space.backend import tuning_backend_of
from tuner.space.generate import generate
from tuner.space.sketch import Sketch

_DRAWN = 192
_PARENTS = 12
_CHILDREN = 4
_ROUNDS = 3
_TRIED = 4

Scored = tuple[float, int, Point]
"""A score, the place of a sketch, a point of it."""


def drafted(func: n.PrimFunc, target: Target, seed: int = 0, with_model: bool = True) -> Schedule | None:
    """Return the schedule of `func` that the draft and the shipped model rank first.

    None where there is none to pick. Random points of every sketch are ranked, then neighbours of the best. The same
    arguments give the same schedule. Without the model the analytic draft ranks alone.
    """
    with remembered():
        try:
            sketches = generate(func, target)
        except (TuningError, ScheduleError):
            return None
        found = _first(func, target, sketches, seed, with_model)
    return None if found is None else found[1]


def drafted_candidate(
    func: n.PrimFunc, target: Target, sketches: Sequence[Sketch], seed: int = 0, guide: Guide | None = None
) -> Candidate | None:
    """The point of `sketches`, the space that `generate` makes, by which `drafted` schedules.

    `guide` is one to these sketches, if there is one already.
    """
    found = _first(func, target, sketches, seed, like=guide)
    return None if found is None else found[0]


def _first(
    func: n.PrimFunc, target: Target, sketches: Sequence[Sketch], seed: int, with_model: bool = True,
    like: Guide | None = None,
) -> tuple[Candidate, Schedule] | None:  # fmt: skip
    """The best point that can be applied, and its schedule."""
    known = [sketch for sketch in sketches if not is_costly(sketch)]
    if not known:
        return None
    family = tuning_backend_of(target).model_family(target)
    guide = Guide.of(known, func, target, lambda: _model(family) if with_model else None, like)
    for _, place, point in _best(known, guide, np.random.default_rng(seed)):
        candidate = Candidate(known[place], point)
        try:
            return candidate, apply_trace(func, Trace.from_json(candidate.trace_json))
        except ScheduleError:
            continue
    return None


_models: dict[str, Found | None] = {}


def _model(family: str) -> Found | None:
    """The shipped model of a family, read once. Raises ModelError when it cannot be used."""
    if family not in _models:
        _models[family] = newest(None, family)
    return _models[family]


def _best(sketches: list[Sketch], guide: Guide, rng: np.random.Generator) -> list[Scored]:
    """The points that rank first, best first, and then the best of each sketch without one.
    Points of a sketch may all fail to apply."""
    seen: set[tuple[int, Point]] = set()
    found: list[Scored] = []
    for place, sketch in enumerate(sketches):
        drawn = sample(sketch, min(_DRAWN, sketch.size), rng) or []
        found += _scored(place, sketch, drawn, guide, seen)
    for _ in range(_ROUNDS):
        parents = heapq.nlargest(_PARENTS, found)
        for place, sketch in enumerate(sketches):
            own = [point for _, at, point in parents if at == place]
            children = [mutated(sketch, point, rng) for point in own for _ in range(_CHILDREN)]
            found += _scored(place, sketch, [c for c in children if sketch.is_allowed(c)], guide, seen)
    first = heapq.nlargest(_TRIED, found)
    missing = set(range(len(sketches))) - {place for _, place, _ in first}
    others = [[scored for scored in found if scored[1] == place] for place in missing]
    return [*first, *sorted((max(scored) for scored in others if scored), reverse=True)]


def _scored(
    place: int, sketch: Sketch, points: list[Point], guide: Guide, seen: set[tuple[int, Point]]
) -> list[Scored]:
    new = [point for point in dict.fromkeys(points) if (place, point) not in seen]
    seen.update((place, point) for point in new)
    if not new:
        return []
    _, prior = guide.describe(sketch, new)
    return [(float(score), place, point) for score, point in zip(prior, new)]
