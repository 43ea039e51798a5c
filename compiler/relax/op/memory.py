"""Operators on memory, as passes write them."""

from compiler.relax.op.execution.memory import ensure_zero_offset, view
from compiler.relax.op.execution.memory import memory_alloc_storage as alloc_storage
from compiler.relax.op.execution.memory import memory_alloc_tensor as alloc_tensor
from compiler.relax.op.execution.memory import memory_kill_storage as kill_storage
from compiler.relax.op.execution.memory import memory_kill_tensor as kill_tensor

__all__ = ["alloc_storage", "alloc_tensor", "ensure_zero_offset", "kill_storage", "kill_tensor", "view"]
