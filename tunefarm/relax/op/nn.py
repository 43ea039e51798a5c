"""Operators of neural networks."""

from compiler.relax.op.nn import *  # noqa: F403
from compiler.relax.op.nn import __all__ as __all__
