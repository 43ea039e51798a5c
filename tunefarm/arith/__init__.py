"""Integer analysis of expressions."""

from compiler.faces.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet, detect_linear_equation
from tunefarm.arith import analyzer

__all__ = ["Analyzer", "ConstIntBound", "IntervalSet", "ModularSet", "analyzer", "detect_linear_equation"]
