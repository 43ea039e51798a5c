"""Operators of neural networks."""

from compiler.topi.nn import *  # noqa: F403
from compiler.topi.nn import __all__ as __all__
