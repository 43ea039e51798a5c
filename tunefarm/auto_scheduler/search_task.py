"""Tasks."""

from tuner.faces.auto_scheduler.hardware import HardwareParams
from tuner.faces.auto_scheduler.search_task import SearchTask
from tuner.faces.auto_scheduler.tuning_options import TuningOptions

__all__ = ["HardwareParams", "SearchTask", "TuningOptions"]
