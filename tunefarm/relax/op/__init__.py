"""Operators of graphs."""

from compiler.relax.op import *  # noqa: F403
from compiler.relax.op import __all__ as _operators
from tunefarm.relax.op import grad, image, nn, vision

__all__ = [*_operators, "grad", "image", "nn", "vision"]
