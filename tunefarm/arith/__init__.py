"""Integer analysis of expressions."""

from typing import TYPE_CHECKING

from compiler.faces.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet, detect_linear_equation
from compiler.faces.int_sets import (
    IntSet,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from tunefarm.arith import analyzer
from tunefarm.compatibility import refusing

__all__ = [
    "Analyzer",
    "ConstIntBound",
    "IntSet",
    "IntervalSet",
    "ModularSet",
    "analyzer",
    "detect_linear_equation",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
]

if not TYPE_CHECKING:  # a type checker would take every name to be there
    __getattr__ = refusing(__name__)
