"""Tasks."""

from tuner.auto_scheduler.hardware import HardwareParams
from tuner.auto_scheduler.search_task import SearchTask
from tuner.auto_scheduler.tuning_options import TuningOptions

__all__ = [
    "HardwareParams",
    "SearchTask",
    "TuningOptions",
]  # fmt: skip
