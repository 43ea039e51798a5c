"""Operators between workers."""

from compiler.relax.op.ccl import *  # noqa: F403
from compiler.relax.op.ccl import __all__ as __all__
