"""Schedules, and what their steps are given."""

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import Schedule
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, apply_trace

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule", "ScheduleError", "apply_trace"]
