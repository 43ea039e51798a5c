"""Schedules of tensor expressions."""

from compiler.faces.te_schedule import (
    AutoInlineBroadcast,
    AutoInlineElemWise,
    AutoInlineInjective,
    InferBound,
    ScheduleOps,
)
from compiler.te.schedule.relations import Fuse, Singleton, Split
from compiler.te.schedule.schedule import Schedule, Stage, create_schedule

__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "Fuse",
    "InferBound",
    "Schedule",
    "ScheduleOps",
    "Singleton",
    "Split",
    "Stage",
    "create_schedule",
]
