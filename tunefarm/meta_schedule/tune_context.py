"""One task of a run."""

from tuner.faces.meta_schedule.tune_context import TuneContext

__all__ = ["TuneContext"]
