"""Features of candidates for a program's own cost models: an array of numbers each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from compiler.runtime.core.ndarray import NDArray, array

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.record import MeasureCandidate
    from tuner.faces.meta_schedule.tune_context import TuneContext


class FeatureExtractor(ABC):
    """The contract: `extract_from` gives an array for each candidate, a row for each of its blocks."""

    @abstractmethod
    def extract_from(self, context: TuneContext, candidates: Sequence[MeasureCandidate]) -> list[NDArray]:
        """Return the features of each candidate."""


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
