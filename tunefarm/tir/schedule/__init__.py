"""Schedules of TensorIR functions."""

from typing import TYPE_CHECKING

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, Schedule, apply_trace
from compiler.schedule.core.schedule import BlockRV as SBlockRV
from compiler.schedule.core.trace import Trace
from tunefarm.compatibility import refusing
from tunefarm.tir.schedule import schedule, trace

__all__ = [
    "BlockRV",
    "ExprRV",
    "LoopRV",
    "SBlockRV",
    "Schedule",
    "ScheduleError",
    "Trace",
    "apply_trace",
    "schedule",
    "trace",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
