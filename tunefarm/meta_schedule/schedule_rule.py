"""Rules that make spaces, a block at a time."""

from tunefarm.compatibility import refuse_other_names
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
    "AddRFactor", "ApplyCustomRule", "AutoInline", "InlineConstantScalars", "MultiLevelTiling",
    "ParallelizeVectorizeUnroll", "PyScheduleRule", "RandomComputeLocation", "ReuseType", "ScheduleRule", "create",
]  # fmt: skip

refuse_other_names(__name__)
