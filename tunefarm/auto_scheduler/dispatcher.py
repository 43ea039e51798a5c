"""Which state workloads are built with."""

from tuner.faces.auto_scheduler.dispatcher import ApplyHistoryBest, DispatchContext

__all__ = ["ApplyHistoryBest", "DispatchContext"]
