"""The module of a schedule, and where its statements stand."""

from typing import TYPE_CHECKING

from compiler.faces.tir_schedule.state import BlockScope, ScheduleDebugMask, ScheduleState, StmtSRef
from tunefarm.compatibility import refusing

__all__ = ["BlockScope", "ScheduleDebugMask", "ScheduleState", "StmtSRef"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
