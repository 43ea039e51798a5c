"""Operators between workers. The library that connects them registers `runtime.disco.*` functions."""

from compiler.relax.op.execution.devices import allgather, allreduce, broadcast_from_worker0, scatter_from_worker0

__all__ = ["allgather", "allreduce", "broadcast_from_worker0", "scatter_from_worker0"]
