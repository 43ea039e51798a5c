"""Which task of a run is next."""

from tunefarm.compatibility import refuse_other_names
from tuner.faces.meta_schedule.task_scheduler import GradientBased, PyTaskScheduler, RoundRobin, TaskScheduler

create = TaskScheduler.create

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskScheduler", "create"]

refuse_other_names(__name__)
