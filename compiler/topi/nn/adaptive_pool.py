"""Pooling to a given output size."""

from __future__ import annotations

from typing import Any

from compiler.dtype import is_float
from compiler.te.operation import compute, reduce_axis
from compiler.te.operation import max as te_max
from compiler.te.operation import sum as te_sum
from compiler.te.tensor import Tensor
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import refusal
from compiler.topi.nn.pool import global_pool, spatial_dims


def adaptive_pool(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pool to `output_size` (height, width).

    Output i reads from floor(i * in / out) to ceil((i + 1) * in / out). `pool_type` is "max" or "avg". Raises IRError
    when the layout does not fit.
    """
    return _adaptive("adaptive_pool", data, output_size, pool_type, layout)


def adaptive_pool1d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCW") -> Tensor:
    """`adaptive_pool` along one dimension."""
    return _adaptive("adaptive_pool1d", data, output_size, pool_type, layout)


def adaptive_pool3d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """`adaptive_pool` along three dimensions."""
    return _adaptive("adaptive_pool3d", data, output_size, pool_type, layout)


def _adaptive(op: str, data: Tensor, output_size: Any, pool_type: str, layout: str) -> Tensor:
    dims = spatial_dims(op, data, pool_type, layout)
    given = list(output_size) if isinstance(output_size, tuple | list) else [output_size] * len(dims)
    if len(given) != len(dims) or any((ops.as_int(size) or 1) < 1 or isinstance(size, bool) for size in given):
        raise refusal(op, f"output_size {output_size!r} is not one or {len(dims)} positive integers")
    outs = {d: ops.as_expr(size) for d, size in zip(dims, given)}
    if all(ops.is_const(size, 1) for size in outs.values()):
        return global_pool(data, pool_type, layout)  # one window: rows along memory
    ins = {d: data.shape[d] for d in dims}
    shape = [outs.get(d, size) for d, size in enumerate(data.shape)]

    def first(d: int, i: PrimExpr) -> PrimExpr:
        return ops.floordiv(ops.mul(i, ins[d]), outs[d])

    def count(d: int, i: PrimExpr) -> PrimExpr:
        return ops.sub(ops.ceildiv(ops.mul(ops.add(i, 1), ins[d]), outs[d]), first(d, i))

    def widest(d: int) -> PrimExpr:
        size, out = ops.as_int(ins[d]), ops.as_int(outs[d])
        if size is None or out is None:
            return ops.add(ops.ceildiv(ins[d], outs[d]), 1)
        return ops.const(max(-(-(i + 1) * size // out) - i * size // out for i in range(out)))

    def even(d: int) -> bool:
        size, out = ops.as_int(ins[d]), ops.as_int(outs[d])
        return size is not None and out is not None and size % out == 0

    axes = {d: reduce_axis((0, widest(d)), name=f"rv{n}") for n, d in enumerate(dims)}

    def value(*indices: Var) -> PrimExpr:
        point = [ops.add(first(d, i), axes[d].var) if d in axes else i for d, i in enumerate(indices)]
        inside = [axes[d].var < count(d, indices[d]) for d in dims if not even(d)]
        where = ops.logical_and(*inside) if inside else None
        reducer = te_max if pool_type == "max" else te_sum
        result: PrimExpr = reducer(data(*point), axis=list(axes.values()), where=where)
        return result

    name = f"adaptive_pool_{'max' if pool_type == 'max' else 'sum'}"
    pooled: Tensor = compute(shape, value, name=name, tag=name)
    if pool_type == "max":
        return pooled

    def divide(*indices: Var) -> PrimExpr:
        area: PrimExpr = ops.const(1)
        for d in dims:
            area = ops.mul(area, count(d, indices[d]))
        divisor = ops.cast(data.dtype, area)
        return pooled(*indices) / divisor if is_float(data.dtype) else ops.truncdiv(pooled(*indices), divisor)

    result: Tensor = compute(shape, divide, name="adaptive_pool_avg", tag="elemwise")
    return result
