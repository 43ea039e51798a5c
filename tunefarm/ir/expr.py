"""Expressions of all dialects."""

from compiler.faces.ranges import Range
from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.tir.nodes import PrimExpr

__all__ = ["GlobalVar", "PrimExpr", "Range", "RelaxExpr"]
