"""Integer analysis of expressions."""

from typing import TYPE_CHECKING

from compiler.faces.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet, detect_linear_equation
from tunefarm.arith import analyzer
from tunefarm.compatibility import refusing

__all__ = ["Analyzer", "ConstIntBound", "IntervalSet", "ModularSet", "analyzer", "detect_linear_equation"]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
