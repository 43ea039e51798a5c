"""Points of sketches: one drawn at random, and the function that one stands for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.tir.nodes import PrimFunc
from tuner.space.sketch import Sketch


def random_point(sketch: Sketch, rng: np.random.Generator, attempts: int = 64) -> tuple[int, ...]:
    """A random point, which there must be."""
    point = sketch.random(rng, attempts)
    assert point is not None
    return point


def at_point(func: PrimFunc, sketch: Sketch, point: Sequence[int]) -> PrimFunc:
    """`func` scheduled as `point` says."""
    return apply_trace(func, Trace.from_json(sketch.trace_json(point))).func
