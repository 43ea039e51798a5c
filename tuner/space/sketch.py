"""A sketch: a schedule trace with open decisions. A search space is a few sketches of one function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from compiler.schedule.core.trace import Trace

Values = Mapping[str, int]


@dataclass(frozen=True)
class Decision:
    """One open choice: a name, and the values it may take in a meaningful order (neighbours are similar)."""

    name: str
    values: tuple[int, ...]


def anything(values: Values) -> bool:
    """`allowed` of a sketch of which every combination is worth building."""
    return True


def level(values: Values) -> float:
    """`draft` of a sketch of which nothing is known before it is built."""
    return 0.0


@dataclass(frozen=True)
class Sketch:
    """A trace whose sampling steps are `decisions`, in trace order.

    `allowed` holds for the value combinations worth building (for example: the register tile fits the register
    file). `draft` scores a combination without building it; higher is better. It only biases where search looks
    first and never excludes a point.
    """

    name: str
    trace: Trace
    decisions: tuple[Decision, ...]
    allowed: Callable[[Values], bool]
    draft: Callable[[Values], float]

    @property
    def size(self) -> int:
        """Points before `allowed` is asked."""
        return math.prod(len(d.values) for d in self.decisions)

    def values(self, indices: Sequence[int]) -> dict[str, int]:
        return {d.name: d.values[i] for d, i in zip(self.decisions, indices, strict=True)}

    def shown(self, indices: Sequence[int]) -> str:
        """A point as people read it; "" where its values say all."""
        return ""

    def is_allowed(self, indices: Sequence[int]) -> bool:
        return self.allowed(self.values(indices))

    def score(self, indices: Sequence[int]) -> float:
        return self.draft(self.values(indices))

    def random(self, rng: np.random.Generator, attempts: int = 64) -> tuple[int, ...] | None:
        """A random allowed point, or None when `attempts` draws found none."""
        for _ in range(attempts):
            point = tuple(int(rng.integers(len(d.values))) for d in self.decisions)
            if self.is_allowed(point):
                return point
        return None

    def trace_json(self, indices: Sequence[int]) -> str:
        """The trace as text with the decisions filled in."""
        return self.trace.with_decisions(list(indices)).to_json()


def nearest(values: Sequence[int], wanted: int) -> int:
    """The position of the value nearest to `wanted`; of two equally near ones, the smaller value's."""
    scale = scale_of((*values, wanted))
    return min(range(len(values)), key=lambda at: (abs(scale[at] - scale[-1]), values[at]))


def scale_of(values: Sequence[int]) -> list[float]:
    """Where values are on a line: at their logarithms when all are positive."""
    if all(value > 0 for value in values):
        return [math.log2(value) for value in values]
    return [float(value) for value in values]
