"""Operators on memory."""

from compiler.relax.op.memory import *  # noqa: F403
from compiler.relax.op.memory import __all__ as __all__
