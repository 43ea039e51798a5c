"""Default schedules of kernels without tuning: rules, and a pass that applies them."""

from tunefarm.compatibility import refuse_other_names
from tunefarm.dlight import cpu, gpu
from tuner.faces.dlight.rules import ApplyDefaultSchedule, ScheduleRule

__all__ = ["ApplyDefaultSchedule", "ScheduleRule", "cpu", "gpu"]

refuse_other_names(__name__)
