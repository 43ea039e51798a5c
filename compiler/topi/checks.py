"""Checks of operators' arguments, and the index arithmetic that operators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.arith.analyzer import Analyzer
from compiler.dtype import is_float, is_int, parse_dtype
from compiler.errors import IRError
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr


def refusal(op: str, why: str, hint: str | None = None) -> IRError:
    """The error of operator `op`, with the user's line."""
    return IRError(f"{op}: {why}" + here(), hint=hint)


def described(*tensors: Tensor) -> str:
    """The tensors' names, dtypes and shapes, for messages."""
    return ", ".join(f"{t.name!r} {t.dtype} {shape_text(t.shape)}" for t in tensors)


def need_integers(op: str, *tensors: Tensor) -> None:
    """Raise IRError unless all are of an integer dtype."""
    for tensor in tensors:
        if not is_int(tensor.dtype):
            raise refusal(op, f"{tensor.name!r} is {tensor.dtype}, not an integer")


def need_floats(op: str, *tensors: Tensor) -> None:
    """Raise IRError unless all are of a float dtype."""
    for tensor in tensors:
        if not is_float(tensor.dtype):
            raise refusal(op, f"{tensor.name!r} is {tensor.dtype}, not a float")


def need_rank(op: str, tensor: Tensor, *ranks: int) -> None:
    """Raise IRError unless the tensor has one of these numbers of dimensions."""
    if tensor.ndim not in ranks:
        wanted = " or ".join(map(str, ranks))
        raise refusal(op, f"{tensor.name!r} {shape_text(tensor.shape)} must have {wanted} dimensions")


def need_dtype(op: str, dtype: str, *tensors: Tensor) -> None:
    """Raise IRError unless all are of `dtype`."""
    for tensor in tensors:
        if tensor.dtype != dtype:
            raise refusal(op, f"{tensor.name!r} is {tensor.dtype}, not {dtype}")


def need_shape(op: str, tensor: Tensor, shape: Sequence[Any]) -> None:
    """Raise IRError when the tensor certainly has another shape; symbolic sizes are taken to fit."""
    dims = [ops.as_expr(d) for d in shape]
    if tensor.ndim != len(dims) or any(differ(x, y) for x, y in zip(tensor.shape, dims)):
        raise refusal(op, f"{tensor.name!r} is {shape_text(tensor.shape)}, it must be {shape_text(dims)}")


def need_one_of(op: str, what: str, value: Any, known: Sequence[Any]) -> None:
    """Raise IRError unless `value` is among `known`."""
    if value not in known:
        raise refusal(op, f"{what} {value!r} is none of {', '.join(map(repr, known))}")


def differ(a: Any, b: Any) -> bool:
    """Whether two sizes are certainly different: both are constants and not equal."""
    left, right = ops.as_int(a), ops.as_int(b)
    return left is not None and right is not None and left != right


def simplified(expr: Any) -> PrimExpr:
    """`expr` in its simplest form."""
    value = ops.as_expr(expr)
    return value if ops.as_int(value) is not None else Analyzer().simplify(value)


def product(sizes: Sequence[Any]) -> PrimExpr:
    """The product of sizes, 1 for none."""
    result: PrimExpr = ops.const(1)
    for size in sizes:
        result = ops.mul(result, size)
    return result


def ravel(point: Sequence[Any], shape: Sequence[Any]) -> PrimExpr:
    """The position of `point` in row-major order."""
    flat: PrimExpr = ops.const(0)
    for index, size in zip(point, shape):
        flat = ops.add(ops.mul(flat, size), index)
    return flat


def unravel(flat: Any, shape: Sequence[Any]) -> list[PrimExpr]:
    """The point at position `flat` in row-major order."""
    if not shape:
        return []
    rest = ops.as_expr(flat)
    point: list[PrimExpr] = []
    for size in reversed(shape[1:]):
        point.append(modulo(rest, size))
        rest = rest if ops.is_const(ops.as_expr(size), 0) else ops.floordiv(rest, size)
    return [rest, *reversed(point)]


def modulo(index: Any, size: Any) -> PrimExpr:
    """`index % size`, the index of an element of a repeated dimension.
    Along size 0 it is left as it is."""
    return ops.as_expr(index) if ops.is_const(ops.as_expr(size), 0) else ops.floormod(index, size)


def not_negative(index: Any, size: Any) -> PrimExpr:
    """`index`, counted from the end when negative."""
    expr = ops.as_expr(index)
    if not parse_dtype(expr.dtype).is_signed:
        return expr
    value = ops.as_int(expr)
    if value is not None:
        return expr if value >= 0 else ops.add(size, value)
    return ops.add(expr, intrin.select(ops.less(expr, 0), size, 0))
