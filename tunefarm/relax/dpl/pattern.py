"""Patterns of expressions, and functions that make them."""

from compiler.relax.dpl.constraints import PatternSeq
from compiler.relax.dpl.make import (
    has_attr,
    has_dtype,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_dfv,
    is_expr,
    is_gv,
    is_op,
    is_shape,
    is_tuple,
    is_tuple_get_item,
    is_var,
    make_fused_bias_activation_pattern,
    reject,
    wildcard,
)
from compiler.relax.dpl.pattern import (
    AndPattern,
    AttrPattern,
    CallPattern,
    DataTypePattern,
    DFPattern,
    NotPattern,
    OrPattern,
    SameShapeConstraint,
    ShapePattern,
    StructInfoPattern,
)
from compiler.relax.dpl.value_patterns import (
    ConstantPattern,
    DataflowVarPattern,
    ExprPattern,
    ExternFuncPattern,
    FunctionPattern,
    GlobalVarPattern,
    PrimArrPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
)

__all__ = [
    "AndPattern", "AttrPattern", "CallPattern", "ConstantPattern", "DFPattern", "DataTypePattern", "DataflowVarPattern",
    "ExprPattern", "ExternFuncPattern", "FunctionPattern", "GlobalVarPattern", "NotPattern", "OrPattern", "PatternSeq",
    "PrimArrPattern", "SameShapeConstraint", "ShapePattern", "StructInfoPattern", "TupleGetItemPattern", "TuplePattern",
    "UnorderedTuplePattern", "VarPattern", "WildcardPattern", "has_attr", "has_dtype", "is_call_dps_packed",
    "is_call_packed", "is_call_tir", "is_const", "is_dfv", "is_expr", "is_gv", "is_op", "is_shape", "is_tuple",
    "is_tuple_get_item", "is_var", "make_fused_bias_activation_pattern", "reject", "wildcard",
]  # fmt: skip
