"""Expressions of all dialects."""

from compiler.ir.base import GlobalVar, RelaxExpr
from compiler.tir.nodes import PrimExpr, Range

__all__ = ["GlobalVar", "PrimExpr", "Range", "RelaxExpr"]
