"""One task of a run."""

from tuner.meta_schedule.tune_context import TuneContext

__all__ = ["TuneContext"]
