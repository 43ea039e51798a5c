"""Quantisation: numbers as small integers, with a scale and a zero point."""

from __future__ import annotations

from compiler.dtype import is_float, is_int
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, check_dtype
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import need_floats, need_shape, refusal
from compiler.topi.reduction import normal_axes


def quantize(
    data: Tensor, output_scale: Tensor, output_zero_point: Tensor, axis: int = -1, out_dtype: str = "int8"
) -> Tensor:
    """round(data / scale) + zero point, kept within `out_dtype`; halves are rounded to the even.

    Scale and zero point are one number, or one a slice along `axis`. Raises IRError when shapes or dtypes do not fit.
    """
    op = "quantize"
    check_dtype(out_dtype, op)
    if not is_int(out_dtype):
        raise refusal(op, f"out_dtype {out_dtype} is no integer")
    need_floats(op, data, output_scale)
    dim = _fits(op, data, axis, output_scale, output_zero_point)
    least, most = (ops.as_int(bound(out_dtype)) for bound in (ops.min_value, ops.max_value))

    def value(*i: Var) -> PrimExpr:
        x = data(*i).astype("float32") / _at(output_scale, i, dim).astype("float32")
        moved = intrin.nearbyint(x) + _at(output_zero_point, i, dim).astype("float32")
        kept = ops.maximum(ops.minimum(moved, ops.const(float(most or 0), "float32")), float(least or 0))
        return ops.cast(out_dtype, kept)

    result: Tensor = compute(data.shape, value, name="T_quantize", tag="broadcast")
    return result


def dequantize(
    data: Tensor, input_scale: Tensor, input_zero_point: Tensor, axis: int = -1, out_dtype: str = "float32"
) -> Tensor:
    """(data - zero point) * scale as `out_dtype`.
    Scale and zero point are one number, or one a slice along `axis`."""
    op = "dequantize"
    check_dtype(out_dtype, op)
    if not is_float(out_dtype):
        raise refusal(op, f"out_dtype {out_dtype} is no float")
    dim = _fits(op, data, axis, input_scale, input_zero_point)

    def value(*i: Var) -> PrimExpr:
        x, zero = data(*i), _at(input_zero_point, i, dim)
        if is_float(x.dtype) or is_float(zero.dtype):
            moved = x.astype("float32") - zero.astype("float32")
        else:
            moved = (x.astype("int32") - zero.astype("int32")).astype("float32")
        return ops.cast(out_dtype, moved * _at(input_scale, i, dim).astype("float32"))

    result: Tensor = compute(data.shape, value, name="T_dequantize", tag="broadcast")
    return result


def _at(vector: Tensor, i: tuple[Var, ...], dim: int) -> PrimExpr:
    """The number for a point: one for all, or its slice's."""
    if vector.ndim == 0:
        return vector()
    return vector(ops.const(0) if ops.as_int(vector.shape[0]) == 1 else i[dim])


def _fits(op: str, data: Tensor, axis: int, *vectors: Tensor) -> int:
    dim = normal_axes(op, axis, data.ndim)[0] if data.ndim else 0
    for vector in vectors:
        if vector.ndim == 0 or (vector.ndim == 1 and ops.as_int(vector.shape[0]) == 1):
            continue
        need_shape(op, vector, [data.shape[dim]] if data.ndim else [])
    return dim
