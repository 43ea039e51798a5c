"""Features of scheduled functions as rows of numbers: one for each buffer that a function stores to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.tir import nodes as n
from tuner.errors import TuningError
from tuner.faces.common.store_uses import BufferUse, StoreUse, extent_of, product, store_uses
from tuner.model.types import Floats

_ARITHMETIC = ("mad", "addsub", "mul", "divmod", "cmp", "math", "other")
_OPS = (*(f"{kind}_{what}" for kind in ("float", "int") for what in _ARITHMETIC), "bool", "select")
_THREADS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread")
_KINDS = (n.ForKind.VECTORIZED, n.ForKind.UNROLLED, n.ForKind.PARALLEL)
_PLACES = 8  # of annotated loops: the first says that there are none, the last that there are some
_BUFFER = 18  # numbers for a buffer
_REUSES = ("loop", "serial", "none")
_NO_REUSE = 0.5  # an element that is not used again counts as used half a time
_TOTALLED = (*(f"float_{what}" for what in _ARITHMETIC), "select")
TOTALS = len(_TOTALLED)
"""How many numbers `operation_totals` gives."""


@dataclass(frozen=True)
class FeatureRows:
    """Makes rows of features: `buffers` of each store, `samples` of its arithmetic intensity.

    First come operations by kind, annotated loops and threads. The buffers follow, each with its touched and reused
    parts. Then comes the arithmetic intensity at equal shares of the work, and last the result's allocation and the
    loops. Counts are logarithms to base 2 of one more.
    """

    buffers: int = 5
    samples: int = 10
    cache_line_bytes: int = 64

    def __post_init__(self) -> None:
        if min(self.buffers, self.samples, self.cache_line_bytes) < 1:
            raise TuningError("a row of features has at least one buffer, one sample and one byte a cache line")

    @property
    def length(self) -> int:
        """How many numbers a row has."""
        return 64 + _BUFFER * self.buffers + self.samples

    def rows(self, func: n.PrimFunc, tail: Sequence[float] = ()) -> Floats:
        """Return the rows of a scheduled function."""
        uses = store_uses(func, self.cache_line_bytes)
        on_gpu = any(_thread_of(loop) is not None for use in uses for loop in use.loops)
        made = [[*self._row(use, on_gpu), *tail] for use in uses]
        return np.array(made, np.float64).reshape(len(made), self.length + len(tail))

    def _row(self, use: StoreUse, on_gpu: bool) -> list[float]:
        row = [_log(use.ops.get(kind, 0) * use.iterations) for kind in _OPS]
        for kind in _KINDS:
            row += _annotated([loop for loop in use.loops if loop.kind is kind])
        row += [float(on_gpu), *(_log(_threads(use, name)) for name in _THREADS)]
        known = use.uses[: self.buffers]
        for each in known:
            row += _buffer(each)
        row += [0.0] * (_BUFFER * (self.buffers - len(known)))
        row += self._intensity(use)
        outside = use.outside_allocation
        row += [
            _log(use.stored_bytes),
            _log(use.elements * outside),
            _log(outside),
            _log(use.iterations / outside),
            _log(use.iterations),
            _log(len(use.loops)),
            _log(use.unroll_step),
        ]
        return row

    def _intensity(self, use: StoreUse) -> list[float]:
        samples = self.samples
        if not use.intensity or not use.intensity[-1][0]:
            return [0.0] * samples
        work, values = zip(*use.intensity)
        shares = np.arange(1, samples + 1) / samples * work[-1]
        return [_log(value) for value in np.interp(shares, work, values)]


def operation_totals(func: n.PrimFunc) -> list[float]:
    """Count the operations of a whole function by kind, as logarithms."""
    totals = dict.fromkeys(_TOTALLED, 0.0)
    for use in store_uses(func):
        for kind in totals:
            totals[kind] += use.ops.get(kind, 0) * use.iterations
    return [_log(total) for total in totals.values()]


def _log(value: float) -> float:
    return math.log2(value + 1)


def _annotated(loops: Sequence[n.For]) -> list[float]:
    """How many loops are annotated in one way, their product, the innermost's extent, and their place."""
    if not loops:
        return [0.0, 0.0, 0.0, 1.0, *[0.0] * (_PLACES - 1)]
    innermost = float(extent_of(loops[-1]))
    return [_log(len(loops)), _log(product(loops)), _log(innermost), *[0.0] * (_PLACES - 1), 1.0]


def _thread_of(loop: n.For) -> str | None:
    return None if loop.thread_binding is None else loop.thread_binding.thread_tag


def _threads(use: StoreUse, name: str) -> float:
    return math.prod(extent_of(loop) for loop in use.loops if (_thread_of(loop) or "").startswith(name))


def _buffer(use: BufferUse) -> list[float]:
    often = use.times or _NO_REUSE
    kind = (use.reads and not use.writes, use.writes and not use.reads, use.reads and use.writes)
    sizes = (use.bytes, use.unique_bytes, use.lines, use.unique_lines)
    return [
        *map(float, kind),
        *map(_log, sizes),
        *(float(use.reuse == name) for name in _REUSES),
        *map(_log, use.distance),
        _log(use.times),
        *(_log(size / often) for size in sizes),
        _log(use.stride),
    ]
