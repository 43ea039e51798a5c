"""Schedules of TensorIR functions."""

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import Schedule
from compiler.faces.tir_schedule.state import (
    BlockDependenceInfo,
    BlockScope,
    Dependency,
    DepKind,
    ScheduleDebugMask,
    ScheduleState,
    StmtSRef,
)
from compiler.faces.tir_schedule.trace import Trace
from compiler.schedule.core.field_steps import Instruction, InstructionKind
from compiler.schedule.core.schedule import BlockRV, ExprRV, LoopRV, apply_trace
from compiler.schedule.core.schedule import BlockRV as SBlockRV
from tunefarm.compatibility import refuse_other_names
from tunefarm.tir.schedule import instruction, schedule, state, trace

__all__ = [
    "BlockDependenceInfo", "BlockRV", "BlockScope", "DepKind", "Dependency", "ExprRV", "Instruction", "InstructionKind",
    "LoopRV", "SBlockRV", "Schedule", "ScheduleDebugMask", "ScheduleError", "ScheduleState", "StmtSRef", "Trace",
    "apply_trace", "instruction", "schedule", "state", "trace",
]  # fmt: skip

refuse_other_names(__name__)
