"""Default schedules of kernels without tuning: rules, and a pass that applies them."""

from tunefarm.dlight import cpu, gpu
from tuner.faces.dlight.rules import ApplyDefaultSchedule, ScheduleRule

__all__ = ["ApplyDefaultSchedule", "ScheduleRule", "cpu", "gpu"]
