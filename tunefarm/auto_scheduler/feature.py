"""Features of states for a program's own cost models."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.auto_scheduler.store_rows import MOST_BUFFERS as DEFAULT_MAX_N_BUFS
from tuner.faces.auto_scheduler.store_rows import (
    features_from_primfunc,
    get_per_store_feature_names,
    get_per_store_features_from_file,
    get_per_store_features_from_measure_pairs,
    get_per_store_features_from_states,
    named_features_from_primfunc,
)

__all__ = [
    "DEFAULT_MAX_N_BUFS", "features_from_primfunc", "get_per_store_feature_names", "get_per_store_features_from_file",
    "get_per_store_features_from_measure_pairs", "get_per_store_features_from_states", "named_features_from_primfunc",
]  # fmt: skip

refuse_other_names(__name__)
