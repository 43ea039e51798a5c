"""Operators of models written by hand."""

from compiler.frontend.nn import wrap_nested
from compiler.frontend.nn.op import *  # noqa: F403
from compiler.frontend.nn.op import __all__ as _operators

__all__ = [*_operators, "wrap_nested"]
