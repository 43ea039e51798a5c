"""Rules that make spaces, a block at a time."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tuner.faces.meta_schedule.spaces.schedule_rule import (
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

create = ScheduleRule.create

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
    "create",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
