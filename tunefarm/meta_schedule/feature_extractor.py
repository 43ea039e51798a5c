"""Features of candidates for a program's own cost models."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.cost_models.feature_extractor import (
    FeatureExtractor,
    PerStoreFeature,
    PyFeatureExtractor,
    RandomFeatureExtractor,
)

__all__ = ["FeatureExtractor", "PerStoreFeature", "PyFeatureExtractor", "RandomFeatureExtractor"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
