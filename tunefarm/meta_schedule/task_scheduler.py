"""Which task of a run is next."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.task_scheduler import GradientBased, PyTaskScheduler, RoundRobin, TaskScheduler

create = TaskScheduler.create

__all__ = ["GradientBased", "PyTaskScheduler", "RoundRobin", "TaskScheduler", "create"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
