"""Facts that hold for both of two values, when only one of them will be used."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.analyzer import Analyzer
from compiler.relax.nodes import (
    FuncStructInfo,
    ObjectStructInfo,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from compiler.relax.nodes.dims import proven_equal
from compiler.tir.nodes import PrimExpr


def common(a: StructInfo, b: StructInfo, analyzer: Analyzer | None = None) -> StructInfo:
    """Return the strongest facts that hold both for values of `a` and for values of `b`."""
    if a is b:
        return a
    match a, b:
        case TensorStructInfo(), TensorStructInfo():
            return _tensors(a, b, analyzer)
        case ShapeStructInfo(), ShapeStructInfo():
            if a.ndim != b.ndim or a.ndim == -1:
                return ShapeStructInfo()
            return a if _same(a.values, b.values, analyzer) else ShapeStructInfo(None, a.ndim)
        case PrimStructInfo(), PrimStructInfo():
            if a.dtype != b.dtype:
                return ObjectStructInfo()
            same = a.value is not None and b.value is not None and proven_equal(a.value, b.value, analyzer)
            return a if same else PrimStructInfo(a.dtype)
        case TupleStructInfo(), TupleStructInfo() if len(a.fields) == len(b.fields):
            return TupleStructInfo(tuple([common(x, y, analyzer) for x, y in zip(a.fields, b.fields)]))
        case FuncStructInfo(), FuncStructInfo():
            return _functions(a, b, analyzer)
    return ObjectStructInfo()


def _same(a: Sequence[PrimExpr] | None, b: Sequence[PrimExpr] | None, analyzer: Analyzer | None) -> bool:
    if a is None or b is None or len(a) != len(b):
        return False
    return all(proven_equal(x, y, analyzer) for x, y in zip(a, b))


def _tensors(a: TensorStructInfo, b: TensorStructInfo, analyzer: Analyzer | None) -> StructInfo:
    dtype = a.dtype if a.dtype == b.dtype else ""
    device = a.vdevice if a.vdevice == b.vdevice else None
    if a.shape is not None and (a.shape is b.shape or _same(a.dims, b.dims, analyzer)):
        same = dtype == a.dtype and device == a.vdevice
        return a if same else TensorStructInfo(a.shape, dtype, device)
    return TensorStructInfo(None, dtype, device, a.ndim if a.ndim == b.ndim else -1)


def _functions(a: FuncStructInfo, b: FuncStructInfo, analyzer: Analyzer | None) -> StructInfo:
    if a == b:
        return a
    purity = a.purity and b.purity
    if a.params is None or b.params is None:
        if a.derive_func is not None and a.derive_func == b.derive_func:
            return FuncStructInfo.opaque_func(derive_func=a.derive_func, purity=purity)
        return FuncStructInfo.opaque_func(ret=common(a.ret, b.ret, analyzer), purity=purity)
    if len(a.params) != len(b.params):
        return FuncStructInfo.opaque_func(ret=common(a.ret, b.ret, analyzer), purity=purity)
    params = [_narrower(x, y) for x, y in zip(a.params, b.params)]
    if None in params:
        return FuncStructInfo.opaque_func(ret=common(a.ret, b.ret, analyzer), purity=purity)
    return FuncStructInfo(params, common(a.ret, b.ret, analyzer), purity)  # type: ignore[arg-type]


def _narrower(a: StructInfo, b: StructInfo) -> StructInfo | None:
    """Return what both functions take; None where neither covers the other."""
    return b if a.is_base_of(b) else a if b.is_base_of(a) else None
