"""Questions about StructInfo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.relax import nodes as r
from compiler.relax.nodes.symbols import dims_of, symbols_in, symbols_set_by
from compiler.relax.struct_info.derive import call_result
from compiler.relax.struct_info.erase import erase
from compiler.relax.struct_info.lca import common
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr


def get_static_type(sinfo: r.StructInfo) -> r.Type:
    """Return the type of a value described by `sinfo`: the same facts without shapes."""
    match sinfo:
        case r.TensorStructInfo():
            return r.TensorType(sinfo.ndim, sinfo.dtype)
        case r.ShapeStructInfo():
            return r.ShapeType(sinfo.ndim)
        case r.PrimStructInfo():
            return r.PrimType(sinfo.dtype)
        case r.TupleStructInfo():
            return r.TupleType(tuple(map(get_static_type, sinfo.fields)))
        case r.FuncStructInfo():
            if sinfo.params is None:
                return r.PackedFuncType()
            return r.FuncType(tuple(map(get_static_type, sinfo.params)), get_static_type(sinfo.ret))
    return r.ObjectType()


def erase_to_well_defined(
    sinfo: r.StructInfo,
    shape_var_map: Mapping[n.Var, PrimExpr] | None = None,
    var_map: Mapping[r.Var, r.Expr] | None = None,
) -> r.StructInfo:
    """Express `sinfo` in terms of the given values.
    Shapes that need other dimensions or variables become unknown."""
    dims, exprs = shape_var_map or {}, var_map or {}
    return erase(sinfo, dims.get, exprs.get)


def struct_info_base_check(base: r.StructInfo, derived: r.StructInfo) -> r.BaseCheckResult:
    """How far `base` covers the values of `derived`."""
    return base.check(derived)


def derive_call_ret_struct_info(func_sinfo: r.FuncStructInfo, call: r.Call, ctx: Any) -> r.StructInfo:
    """Return what `call` of a function described by `func_sinfo` returns; `ctx` is a `BlockBuilder`."""
    return call_result(call, func_sinfo, ctx)


def struct_info_lca(lhs: r.StructInfo, rhs: r.StructInfo) -> r.StructInfo:
    """Return the strongest facts that hold both for values of `lhs` and for values of `rhs`."""
    return common(lhs, rhs)


def tir_vars_in_struct_info(sinfo: r.StructInfo) -> list[n.Var]:
    """The variables that the dimensions of `sinfo` mention."""
    return symbols_in(sinfo)


def definable_tir_vars_in_struct_info(sinfo: r.StructInfo) -> list[n.Var]:
    """Return the variables that get a value from a value described by `sinfo`.
    They are those that are a whole dimension of it."""
    return symbols_set_by(sinfo)


def collect_non_negative_expressions(sinfo: r.StructInfo) -> list[PrimExpr]:
    """The dimensions of tensors and shapes in `sinfo` that are no constants: none of them is negative."""
    return [value for value in _sizes(sinfo) if not isinstance(value, n.IntImm)]


def _sizes(sinfo: r.StructInfo) -> list[PrimExpr]:
    if isinstance(sinfo, r.TupleStructInfo):
        return [value for item in sinfo.fields for value in _sizes(item)]
    return [] if isinstance(sinfo, r.PrimStructInfo) else list(dims_of(sinfo))
