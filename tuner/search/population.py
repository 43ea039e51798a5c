"""Moves in a search space: random points, neighbours, mixtures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tuner.space.sketch import Sketch
from tuner.space.traced import TracedSketch

Point = tuple[int, ...]


def is_costly(sketch: Sketch) -> bool:
    """Whether asking if a point is allowed takes milliseconds: it schedules the function."""
    return isinstance(sketch, TracedSketch)


def sample(sketch: Sketch, count: int, rng: np.random.Generator) -> list[Point]:
    """About `count` random points, allowed ones where that is cheap to ask."""
    sizes = [len(d.values) for d in sketch.decisions]
    if is_costly(sketch):
        return _drawn(sizes, count, rng)
    found: list[Point] = []
    for _ in range(4):  # a space that allows less than a quarter of its points gives fewer
        found += [point for point in _drawn(sizes, count, rng) if sketch.is_allowed(point)]
        if len(found) >= count:
            break
    return found[:count]


def _drawn(sizes: Sequence[int], count: int, rng: np.random.Generator) -> list[Point]:
    return [tuple(point) for point in rng.integers(0, sizes, size=(count, len(sizes))).tolist()]


def crossed(mother: Sequence[int], father: Sequence[int], rng: np.random.Generator) -> Point:
    """Each decision from one of two parents."""
    return tuple(f if m else p for p, f, m in zip(mother, father, rng.random(len(mother)) < 0.5))


def mutated(sketch: Sketch, point: Sequence[int], rng: np.random.Generator) -> Point:
    """One to three decisions moved: mostly to a neighbouring value, sometimes anywhere."""
    result = list(point)
    movable = [i for i, d in enumerate(sketch.decisions) if len(d.values) > 1]
    if not movable:
        return tuple(result)
    moves = min(len(movable), 1 + int(rng.geometric(0.6)) % 3)
    for i in rng.permutation(movable)[:moves].tolist():
        last = len(sketch.decisions[i].values) - 1
        if rng.random() < 0.7:
            result[i] = min(last, max(0, result[i] + (1 if rng.random() < 0.5 else -1)))
        else:
            result[i] = int(rng.integers(last + 1))
    return tuple(result)
