"""Schedules of tensor expressions."""

from compiler.faces.te_schedule import (
    AutoInlineBroadcast,
    AutoInlineElemWise,
    AutoInlineInjective,
    CreateAttachPath,
    CreateReadGraph,
    InferBound,
    PostDFSOrder,
    ScheduleOps,
    SchedulePostProcToPrimFunc,
)
from compiler.te.schedule.relations import Fuse, Singleton, Split
from compiler.te.schedule.schedule import Schedule, Stage, create_schedule
from compiler.tir.nodes import Buffer, IterVar

__all__ = [
    "AutoInlineBroadcast", "AutoInlineElemWise", "AutoInlineInjective", "Buffer", "CreateAttachPath", "CreateReadGraph",
    "Fuse", "InferBound", "IterVar", "PostDFSOrder", "Schedule", "ScheduleOps", "SchedulePostProcToPrimFunc",
    "Singleton", "Split", "Stage", "create_schedule",
]  # fmt: skip
