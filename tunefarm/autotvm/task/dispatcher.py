"""Which config templates are built with."""

from tuner.faces.autotvm.dispatch_context import ApplyConfig, DispatchContext, FallbackContext
from tuner.faces.autotvm.dispatcher import ApplyHistoryBest, apply_history_best

__all__ = ["ApplyConfig", "ApplyHistoryBest", "DispatchContext", "FallbackContext", "apply_history_best"]
