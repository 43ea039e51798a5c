"""Constraint repair: the allowed point of a sketch that is nearest to a given point."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from tuner.space.sketch import Sketch, nearest, scale_of

_MOST_LOOKED_AT = 400


def repair(sketch: Sketch, point: Sequence[int], most: int = _MOST_LOOKED_AT) -> tuple[int, ...] | None:
    """Return `point` itself when it is allowed, else the nearest allowed one.

    It is found by moving one decision at a time. Near is by the logarithms of the decisions' values where those are
    positive, else by the values. None when none is among the `most` nearest points.
    """
    start = tuple(min(max(0, at), len(d.values) - 1) for at, d in zip(point, sketch.decisions, strict=True))
    if sketch.is_allowed(start):
        return start
    squares = []  # how far each value of a decision is from the one to begin with, squared
    for decision, at in zip(sketch.decisions, start):
        scale = scale_of(decision.values)
        squares.append([(place - scale[at]) ** 2 for place in scale])
    waiting = [(0.0, start)]
    found = {start}
    for _ in range(most):
        if not waiting:
            return None
        away, here = heapq.heappop(waiting)
        if here != start and sketch.is_allowed(here):
            return here
        for axis, square in enumerate(squares):
            own = here[axis]
            for at in (own - 1, own + 1):
                if 0 <= at < len(square):
                    there = (*here[:axis], at, *here[axis + 1 :])
                    if there not in found:
                        found.add(there)
                        heapq.heappush(waiting, (away - square[own] + square[at], there))
    return None


def nearest_point(sketch: Sketch, wanted: Mapping[str, int]) -> tuple[int, ...] | None:
    """Return the allowed point whose values are nearest to those `wanted` by name.
    A decision that is not among them keeps the middle of its values. None when `repair` finds none."""
    point = []
    for decision in sketch.decisions:
        if decision.name in wanted:
            point.append(nearest(decision.values, wanted[decision.name]))
        else:
            point.append(len(decision.values) // 2)
    return repair(sketch, point)
