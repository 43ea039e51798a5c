"""Features of candidates for a program's own cost models."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.cost_models.feature_extractor import (
    FeatureExtractor,
    PerStoreFeature,
    PyFeatureExtractor,
    RandomFeatureExtractor,
)

__all__ = ["FeatureExtractor", "PerStoreFeature", "PyFeatureExtractor", "RandomFeatureExtractor"]

refuse_other_names(__name__)
