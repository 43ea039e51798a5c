"""Functions that make patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compiler.errors import ArgumentError
from compiler.ir.base import Op, RelaxExpr
from compiler.relax.dpl.pattern import AttrPattern, CallPattern, DataTypePattern, DFPattern, NotPattern
from compiler.relax.dpl.value_patterns import (
    ConstantPattern,
    DataflowVarPattern,
    ExprPattern,
    ExternFuncPattern,
    GlobalVarPattern,
    PrimArrPattern,
    TupleGetItemPattern,
    TuplePattern,
    UnorderedTuplePattern,
    VarPattern,
    WildcardPattern,
)
from compiler.suggest import closest
from compiler.tir.nodes import PrimExpr

Args = Sequence[DFPattern] | TuplePattern | None


def wildcard() -> WildcardPattern:
    """A pattern of anything."""
    return WildcardPattern()


def is_const() -> ConstantPattern:
    """A pattern of constants."""
    return ConstantPattern()


def is_var(name: str = "") -> VarPattern:
    """A pattern of variables called `name`; any for "". Variables with a known value are looked through."""
    return VarPattern(name)


def is_dfv(name: str = "") -> DataflowVarPattern:
    """A pattern of dataflow variables called `name`; any for ""."""
    return DataflowVarPattern(name)


def is_gv(name: str = "") -> GlobalVarPattern:
    """A pattern of functions of the module called `name`; any for ""."""
    return GlobalVarPattern(name)


def is_expr(expr: RelaxExpr) -> ExprPattern:
    """A pattern of one expression."""
    return ExprPattern(expr)


def is_op(op_name: str) -> ExprPattern:
    """A pattern of an operator; called with patterns, one of its calls.
    Raises ArgumentError for an unknown name."""
    try:
        return ExprPattern(Op.get(op_name))
    except KeyError:
        known = [f"relax.{name}" for name in Op.names("relax.")]
        raise ArgumentError(f"there is no operator {op_name!r}", hint=closest(op_name, known)) from None


def is_shape(shape: Sequence[PrimExpr | int]) -> PrimArrPattern:
    """A pattern of shape expressions."""
    return PrimArrPattern(shape)


def is_tuple(fields: Sequence[DFPattern], unordered: bool = False) -> TuplePattern | UnorderedTuplePattern:
    """A pattern of tuples; with `unordered`, the fields may stand in any order."""
    return UnorderedTuplePattern(fields) if unordered else TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """A pattern of field `index` of a tuple; of any field for None."""
    return TupleGetItemPattern(tuple_value, index)


def is_call_tir(func_name: str, args: Args = None, tir_vars: DFPattern | None = None) -> CallPattern:
    """A pattern of `call_tir` of the kernel `func_name`; of any arguments where `args` is None."""
    parts = [GlobalVarPattern(func_name), _arguments(args), *([] if tir_vars is None else [tir_vars])]
    return is_op("relax.call_tir")(*parts, varg_default_wildcard=args is None, add_constraint=False)


def is_call_dps_packed(func_name: str, args: Args = None) -> CallPattern:
    """A pattern of `call_dps_packed` of `func_name`; of any arguments where `args` is None."""
    return is_op("relax.call_dps_packed")(ExternFuncPattern(func_name), _arguments(args), add_constraint=False)


def is_call_packed(func_name: str, args: Sequence[DFPattern] | None = None) -> CallPattern:
    """A pattern of calls of the runtime's function `func_name`; of any arguments where `args` is None."""
    return ExternFuncPattern(func_name)(*(args or ()), varg_default_wildcard=args is None)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """A pattern of tensors of `dtype`."""
    return (pattern or wildcard()).has_dtype(dtype)


def has_attr(attrs: Mapping[str, Any], pattern: DFPattern | None = None) -> AttrPattern:
    """A pattern of calls and functions that have these attributes."""
    return (pattern or wildcard()).has_attr(attrs)


def reject(pattern: DFPattern) -> NotPattern:
    """A pattern of what `pattern` does not match."""
    return ~pattern


def make_fused_bias_activation_pattern(
    op_name: str, with_bias: bool = False, activation: str | None = None, allow_reshape: bool = False
) -> CallPattern:
    """A pattern of an operator of two arguments, a bias added to its result, and an activation of that.

    With `allow_reshape`, the bias is reshaped first.
    """
    made = is_op(op_name)(wildcard(), wildcard())
    if with_bias:
        bias: DFPattern = wildcard()
        if allow_reshape:
            bias = is_op("relax.reshape")(bias, varg_default_wildcard=True)
        made = is_op("relax.add")(made, bias, varg_default_wildcard=True)
    return made if activation is None else is_op(activation)(made)


def _arguments(args: Args) -> DFPattern:
    if args is None:
        return wildcard()
    return args if isinstance(args, TuplePattern) else TuplePattern(args)
