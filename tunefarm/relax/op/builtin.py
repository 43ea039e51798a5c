"""Operators that passes look for."""

from compiler.relax.op.builtin import *  # noqa: F403
from compiler.relax.op.builtin import __all__ as __all__
