"""The steps of a trace as instructions."""

from compiler.schedule.core.field_steps import Instruction, InstructionKind

__all__ = ["Instruction", "InstructionKind"]
