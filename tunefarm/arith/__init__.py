"""Integer analysis of expressions."""

from compiler.faces.arith import Analyzer, ConstIntBound, IntervalSet, ModularSet
from compiler.faces.int_sets import (
    IntSet,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
)
from compiler.faces.iter_map import (
    IterMapLevel,
    IterMapResult,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    detect_iter_map,
    iter_map_simplify,
    iter_map_to_expr,
    normalize_iter_map_to_expr,
)
from compiler.faces.linear_bounds import deduce_bound, detect_clip_bound, detect_linear_equation
from tunefarm.arith import analyzer
from tunefarm.compatibility import refuse_other_names

__all__ = [
    "Analyzer", "ConstIntBound", "IntSet", "IntervalSet", "IterMapLevel", "IterMapResult", "IterMark", "IterSplitExpr",
    "IterSumExpr", "ModularSet", "analyzer", "deduce_bound", "detect_clip_bound", "detect_iter_map",
    "detect_linear_equation", "estimate_region_lower_bound", "estimate_region_strict_bound",
    "estimate_region_upper_bound", "iter_map_simplify", "iter_map_to_expr", "normalize_iter_map_to_expr",
]  # fmt: skip

refuse_other_names(__name__)
