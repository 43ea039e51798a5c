"""Facts that hold for both of two values, when only one of them will be used."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.analyzer import Analyzer
from compiler.relax import nodes as r
from compiler.relax.nodes.dims import proven_equal
from compiler.tir.nodes import PrimExpr


def common(a: r.StructInfo, b: r.StructInfo, analyzer: Analyzer | None = None) -> r.StructInfo:
    """Return the strongest facts that hold both for values of `a` and for values of `b`."""
    if a is b:
        return a
    match a, b:
        case r.TensorStructInfo(), r.TensorStructInfo():
            return _tensors(a, b, analyzer)
        case r.ShapeStructInfo(), r.ShapeStructInfo():
            if a.ndim != b.ndim or a.ndim == -1:
                return r.ShapeStructInfo()
            return a if _same(a.values, b.values, analyzer) else r.ShapeStructInfo(None, a.ndim)
        case r.PrimStructInfo(), r.PrimStructInfo():
            if a.dtype != b.dtype:
                return r.ObjectStructInfo()
            same = a.value is not None and b.value is not None and proven_equal(a.value, b.value, analyzer)
            return a if same else r.PrimStructInfo(a.dtype)
        case r.TupleStructInfo(), r.TupleStructInfo() if len(a.fields) == len(b.fields):
            return r.TupleStructInfo(tuple([common(x, y, analyzer) for x, y in zip(a.fields, b.fields)]))
        case r.FuncStructInfo(), r.FuncStructInfo():
            return _functions(a, b, analyzer)
    return r.ObjectStructInfo()


def _same(a: Sequence[PrimExpr] | None, b: Sequence[PrimExpr] | None, analyzer: Analyzer | None) -> bool:
    if a is None or b is None or len(a) != len(b):
        return False
    return all(proven_equal(x, y, analyzer) for x, y in zip(a, b))


def _tensors(a: r.TensorStructInfo, b: r.TensorStructInfo, analyzer: Analyzer | None) -> r.StructInfo:
    dtype = a.dtype if a.dtype == b.dtype else ""
    device = a.vdevice if a.vdevice == b.vdevice else None
    if a.shape is not None and (a.shape is b.shape or _same(a.dims, b.dims, analyzer)):
        same = dtype == a.dtype and device == a.vdevice
        return a if same else r.TensorStructInfo(a.shape, dtype, device)
    return r.TensorStructInfo(None, dtype, device, a.ndim if a.ndim == b.ndim else -1)


def _functions(a: r.FuncStructInfo, b: r.FuncStructInfo, analyzer: Analyzer | None) -> r.StructInfo:
    if a == b:
        return a
    purity = a.purity and b.purity
    if a.params is None or b.params is None:
        if a.derive_func is not None and a.derive_func == b.derive_func:
            return r.FuncStructInfo.opaque_func(derive_func=a.derive_func, purity=purity)
        return r.FuncStructInfo.opaque_func(ret=common(a.ret, b.ret, analyzer), purity=purity)
    if len(a.params) != len(b.params):
        return r.FuncStructInfo.opaque_func(ret=common(a.ret, b.ret, analyzer), purity=purity)
    params = [_narrower(x, y) for x, y in zip(a.params, b.params)]
    if None in params:
        return r.FuncStructInfo.opaque_func(ret=common(a.ret, b.ret, analyzer), purity=purity)
    return r.FuncStructInfo(params, common(a.ret, b.ret, analyzer), purity)  # type: ignore[arg-type]


def _narrower(a: r.StructInfo, b: r.StructInfo) -> r.StructInfo | None:
    """Return what both functions take; None where neither covers the other."""
    return b if a.is_base_of(b) else a if b.is_base_of(a) else None
