"""The facts of a value that still hold where its dimensions have no names."""

from __future__ import annotations

from collections.abc import Callable

from compiler.relax import nodes as r
from compiler.relax.nodes.dims import simplified, variables
from compiler.tir import nodes as n
from compiler.tir.nodes import IntImm, PrimExpr
from compiler.tir.visit import substitute

DimOf = Callable[[n.Var], PrimExpr | None]
"""What stands outside for a dimension's variable; None where nothing does."""
ExprOf = Callable[[r.Var], r.Expr | None]
"""What stands outside for a variable that is used as a shape."""


def erase(info: r.StructInfo, dim_of: DimOf, expr_of: ExprOf = lambda var: None) -> r.StructInfo:
    """Express `info` in terms of what is known outside.
    A shape for which that is impossible keeps only its number of dimensions."""
    match info:
        case r.TensorStructInfo(shape=r.ShapeExpr() as shape):
            dims = _dims(shape.values, dim_of)
            if dims is shape.values:
                return info
            if dims is None:
                return r.TensorStructInfo(None, info.dtype, info.vdevice, info.ndim, info.span)
            return r.TensorStructInfo(r.ShapeExpr(dims), info.dtype, info.vdevice, -1, info.span)
        case r.TensorStructInfo(shape=r.Var() as held):
            kept = expr_of(held)
            if kept is held:
                return info
            return r.TensorStructInfo(kept, info.dtype, info.vdevice, info.ndim if kept is None else -1, info.span)
        case r.ShapeStructInfo() if info.values is not None:
            dims = _dims(info.values, dim_of)
            if dims is info.values:
                return info
            return r.ShapeStructInfo(dims, info.ndim if dims is None else -1, info.span)
        case r.PrimStructInfo() if info.value is not None:
            found = _dims((info.value,), dim_of)
            if found is not None and found[0] is info.value:
                return info
            return r.PrimStructInfo(info.dtype, None if found is None else found[0], info.span)
        case r.TupleStructInfo():
            fields = tuple([erase(item, dim_of, expr_of) for item in info.fields])
            return info if all(a is b for a, b in zip(fields, info.fields)) else r.TupleStructInfo(fields, info.span)
        case r.FuncStructInfo():
            return info  # its dimensions are its own
    return info


def _dims(values: tuple[PrimExpr, ...], dim_of: DimOf) -> tuple[PrimExpr, ...] | None:
    """The dimensions outside; the same object where they are the same, None where one has no value there."""
    found: list[PrimExpr] = []
    for value in values:
        if isinstance(value, IntImm):
            found.append(value)
            continue
        known = {var: dim_of(var) for var in variables(value)}
        if None in known.values():
            return None
        changed = {var: new for var, new in known.items() if new is not None and new is not var}
        found.append(simplified(substitute(value, changed)) if changed else value)
    return values if all(a is b for a, b in zip(found, values)) else tuple(found)
