"""Operators that passes look for."""

from compiler.relax.op.execution.memory import builtin_alloc_tensor as alloc_tensor
from compiler.relax.op.execution.memory import stop_lift_params

__all__ = ["alloc_tensor", "stop_lift_params"]
