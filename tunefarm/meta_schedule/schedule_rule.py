"""Rules that make spaces, a block at a time."""

from tuner.faces.meta_schedule.schedule_rule import (
    AddRFactor,
    ApplyCustomRule,
    AutoInline,
    InlineConstantScalars,
    MultiLevelTiling,
    ParallelizeVectorizeUnroll,
    PyScheduleRule,
    RandomComputeLocation,
    ReuseType,
    ScheduleRule,
)

__all__ = [
    "AddRFactor",
    "ApplyCustomRule",
    "AutoInline",
    "InlineConstantScalars",
    "MultiLevelTiling",
    "ParallelizeVectorizeUnroll",
    "PyScheduleRule",
    "RandomComputeLocation",
    "ReuseType",
    "ScheduleRule",
]
