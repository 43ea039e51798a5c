"""Analyzers of integer expressions, and what they answer."""

from compiler.faces.arith import Analyzer, ConstIntBound, ModularSet

__all__ = ["Analyzer", "ConstIntBound", "ModularSet"]
