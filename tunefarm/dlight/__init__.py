"""Default schedules of kernels without tuning: rules, and a pass that applies them."""

from typing import TYPE_CHECKING

from tunefarm.compatibility import refusing
from tunefarm.dlight import cpu, gpu
from tuner.faces.dlight.rules import ApplyDefaultSchedule, ScheduleRule

__all__ = ["ApplyDefaultSchedule", "ScheduleRule", "cpu", "gpu"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
