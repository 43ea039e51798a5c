"""Which config templates are built with."""

from tuner.faces.autotvm.dispatcher import (
    ApplyConfig,
    ApplyHistoryBest,
    DispatchContext,
    FallbackContext,
    apply_history_best,
)

__all__ = ["ApplyConfig", "ApplyHistoryBest", "DispatchContext", "FallbackContext", "apply_history_best"]
