"""Operators that gradients are made of."""

from compiler.relax.op.grad import *  # noqa: F403
from compiler.relax.op.grad import __all__ as __all__
