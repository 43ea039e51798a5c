"""Schedules of TensorIR functions."""

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule, apply_trace
from compiler.schedule.core.trace import Trace
from tunefarm.tir.schedule import schedule, trace

__all__ = ["BlockRV", "ExprRV", "LoopRV", "Schedule", "ScheduleError", "Trace", "apply_trace", "schedule", "trace"]
