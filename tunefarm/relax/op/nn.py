"""Operators of neural networks."""

from compiler.relax.op.nn import relu, softmax

__all__ = ["relu", "softmax"]
