"""How long the parts of a run took."""

from tuner.faces.meta_schedule.profiler import Profiler

__all__ = ["Profiler"]
