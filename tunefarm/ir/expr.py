"""Expressions of all dialects."""

from compiler.faces.ranges import Range
from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.tir.nodes import PrimExpr

__all__ = ["BaseExpr", "GlobalVar", "PrimExpr", "Range", "RelaxExpr", "RelayExpr"]

BaseExpr = PrimExpr | RelaxExpr
"""All expressions, for `isinstance`."""

RelayExpr = RelaxExpr
"""The name that Apache TVM had for it before relax."""
