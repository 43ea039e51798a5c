"""Features of candidates for a program's own cost models: an array of numbers each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from compiler.runtime.core.ndarray import NDArray, array
from tuner.errors import UnknownKindError
from tuner.faces.common.feature_rows import TOTALS, FeatureRows, operation_totals
from tuner.faces.meta_schedule.record import entry

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.record import MeasureCandidate
    from tuner.faces.meta_schedule.tune_context import TuneContext


class FeatureExtractor(ABC):
    """The contract: `extract_from` gives an array for each candidate, a row for each of its blocks."""

    FeatureExtractorType: ClassVar[Any] = Any
    """What parameters that take one are annotated with, in programs for TVM."""

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
    """An array for each candidate with a row for each buffer it stores to.

    A row has `feature_vector_length` numbers. First come operations by kind, annotated loops and threads. Up to
    `buffers_per_store` buffers follow, each with its touched and reused parts. Then comes the arithmetic intensity
    at `arith_intensity_curve_num_samples` shares of the work, and last the result's allocation and the loops.
    `extract_workload` adds the operations of the whole unscheduled function. Counts are logarithms to base 2 of one
    more.
    """

    def __init__(
        self,
        buffers_per_store: int = 5,
        arith_intensity_curve_num_samples: int = 10,
        cache_line_bytes: int = 64,
        extract_workload: bool = False,
    ) -> None:
        self._rows = FeatureRows(buffers_per_store, arith_intensity_curve_num_samples, cache_line_bytes)
        self.buffers_per_store = buffers_per_store
        self.arith_intensity_curve_num_samples = arith_intensity_curve_num_samples
        self.cache_line_bytes = cache_line_bytes
        self.extract_workload = extract_workload
        self.feature_vector_length = self._rows.length + (TOTALS if extract_workload else 0)

    def extract_from(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[NDArray]:
        """Return the rows of each candidate, float64."""
        tail = operation_totals(context.func) if self.extract_workload else []
        return [array(self._rows.rows(entry(candidate.sch.mod), tail)) for candidate in candidates]
