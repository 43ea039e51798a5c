"""Gradients of kernels that are no operator's."""

from compiler.relax.op.execution.te_gradients import register_te_gradient

__all__ = ["register_te_gradient"]
