"""Traces: the steps of a schedule, to take them again."""

from compiler.faces.tir_schedule.trace import Trace
from compiler.schedule.core.field_steps import Instruction, InstructionKind

__all__ = ["Instruction", "InstructionKind", "Trace"]
