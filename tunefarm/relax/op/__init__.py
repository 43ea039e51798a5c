"""Operators of graphs."""

from compiler.relax.op import *  # noqa: F403
from compiler.relax.op import __all__ as _operators
from tunefarm.relax.op import builtin, ccl, grad, image, memory, nn, vision

__all__ = [*_operators, "builtin", "ccl", "grad", "image", "memory", "nn", "vision"]
