"""Features of candidates for a program's own cost models: an array of numbers each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.runtime.core.ndarray import NDArray, array
from compiler.tir import nodes as n
from tuner.errors import TuningError, UnknownKindError
from tuner.faces.meta_schedule.record import entry
from tuner.faces.meta_schedule.store_features import BufferUse, StoreUse, extent_of, product, store_uses
from tuner.model.types import Floats

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.record import MeasureCandidate
    from tuner.faces.meta_schedule.tune_context import TuneContext

_ARITHMETIC = ("mad", "addsub", "mul", "divmod", "cmp", "math", "other")
_OPS = (*(f"{kind}_{what}" for kind in ("float", "int") for what in _ARITHMETIC), "bool", "select")
_THREADS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread")
_KINDS = (n.ForKind.VECTORIZED, n.ForKind.UNROLLED, n.ForKind.PARALLEL)
_PLACES = 8  # of annotated loops: the first says that there are none, the last that there are some
_BUFFER = 18  # numbers for a buffer
_REUSES = ("loop", "serial", "none")
_NO_REUSE = 0.5  # an element that is not used again counts as used half a time
_TOTALS = (*(f"float_{what}" for what in _ARITHMETIC), "select")  # of a whole function


class FeatureExtractor(ABC):
    """The contract: `extract_from` gives an array for each candidate, a row for each of its blocks."""

    @abstractmethod
    def extract_from(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[NDArray]:
        """Return the features of each candidate."""

    @staticmethod
    def create(kind: str = "per-store-feature", *args: Any, **kwargs: Any) -> FeatureExtractor:
        """Make the extractor called "per-store-feature". Raises TuningError for another name."""
        if kind == "per-store-feature":
            return PerStoreFeature(*args, **kwargs)
        raise UnknownKindError(f"no feature extractor {kind!r}", hint='there is "per-store-feature"')


PyFeatureExtractor = FeatureExtractor


class RandomFeatureExtractor(FeatureExtractor):
    """Draws `feature_size` numbers for each of up to `max_block_num` blocks: for tests of cost models."""

    def __init__(self, *, feature_size: int = 30, max_block_num: int = 5, seed: int = 0) -> None:
        self.feature_size = feature_size
        self.max_block_num = max_block_num
        self.random_state = np.random.default_rng(seed)

    def extract_from(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[NDArray]:
        draw = self.random_state
        sizes = [(int(draw.integers(1, self.max_block_num + 1)), self.feature_size) for _ in candidates]
        return [array(draw.random(size)) for size in sizes]


class PerStoreFeature(FeatureExtractor):
    """An array for each candidate with a row for each buffer it stores to: `feature_vector_length` numbers.

    First come operations by kind, annotated loops and threads. Up to `buffers_per_store` buffers follow, each with what
    of it is touched and used again. Then comes the arithmetic intensity at `arith_intensity_curve_num_samples` shares
    of the work, and last the result's allocation and the loops. `extract_workload` adds the operations of the whole
    unscheduled function. Counts are logarithms to base 2 of one more.
    """

    def __init__(
        self,
        buffers_per_store: int = 5,
        arith_intensity_curve_num_samples: int = 10,
        cache_line_bytes: int = 64,
        extract_workload: bool = False,
    ) -> None:
        if min(buffers_per_store, arith_intensity_curve_num_samples, cache_line_bytes) < 1:
            raise TuningError("a row of features has at least one buffer, one sample and one byte a cache line")
        self.buffers_per_store = buffers_per_store
        self.arith_intensity_curve_num_samples = arith_intensity_curve_num_samples
        self.cache_line_bytes = cache_line_bytes
        self.extract_workload = extract_workload
        self.feature_vector_length = 64 + _BUFFER * buffers_per_store + arith_intensity_curve_num_samples
        if extract_workload:
            self.feature_vector_length += 8

    def extract_from(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[NDArray]:
        """Return the rows of each candidate, float64."""
        tail = _workload(context) if self.extract_workload else []
        return [array(self.rows(entry(candidate.sch.mod), tail)) for candidate in candidates]

    def rows(self, func: n.PrimFunc, tail: Sequence[float] = ()) -> Floats:
        """Return the rows of a scheduled function."""
        uses = store_uses(func, self.cache_line_bytes)
        on_gpu = any(_thread_of(loop) is not None for use in uses for loop in use.loops)
        made = [[*self._row(use, on_gpu), *tail] for use in uses]
        return np.array(made, np.float64).reshape(len(made), self.feature_vector_length)

    def _row(self, use: StoreUse, on_gpu: bool) -> list[float]:
        row = [_log(use.ops.get(kind, 0) * use.iterations) for kind in _OPS]
        for kind in _KINDS:
            row += _annotated([loop for loop in use.loops if loop.kind is kind])
        row += [float(on_gpu), *(_log(_threads(use, name)) for name in _THREADS)]
        known = use.uses[: self.buffers_per_store]
        for each in known:
            row += _buffer(each)
        row += [0.0] * (_BUFFER * (self.buffers_per_store - len(known)))
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
        samples = self.arith_intensity_curve_num_samples
        if not use.intensity or not use.intensity[-1][0]:
            return [0.0] * samples
        work, values = zip(*use.intensity)
        shares = np.arange(1, samples + 1) / samples * work[-1]
        return [_log(value) for value in np.interp(shares, work, values)]


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


def _workload(context: TuneContext) -> list[float]:
    """Count the operations of the whole function before it is scheduled, by kind."""
    totals = dict.fromkeys(_TOTALS, 0.0)
    for use in store_uses(context.func):
        for kind in totals:
            totals[kind] += use.ops.get(kind, 0) * use.iterations
    return [_log(total) for total in totals.values()]
