"""The module of a schedule, and where its statements stand."""

from compiler.faces.tir_schedule.state import BlockScope, ScheduleDebugMask, ScheduleState, StmtSRef
from tunefarm.compatibility import refuse_other_names

__all__ = ["BlockScope", "ScheduleDebugMask", "ScheduleState", "StmtSRef"]

refuse_other_names(__name__)
