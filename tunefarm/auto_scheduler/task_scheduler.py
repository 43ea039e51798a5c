"""Several tasks tuned together."""

from tuner.faces.auto_scheduler.task_scheduler import TaskScheduler, TaskSchedulerCallback

__all__ = [
    "TaskScheduler",
    "TaskSchedulerCallback",
]  # fmt: skip
