"""Operators that move elements without changing them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, if_then_else
from compiler.te.tensor import Tensor, as_shape, shape_text
from compiler.te.where import at, caller_span
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.reduction import normal_axes


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """`a` with its dimensions in the order `axes`, reversed unless given. Raises IRError unless `axes` names
    each dimension once."""
    order = list(range(a.ndim))[::-1] if axes is None else [d + a.ndim if d < 0 else d for d in axes]
    if sorted(order) != list(range(a.ndim)):
        raise IRError(f"transpose of {shape_text(a.shape)} with axes {axes!r}" + at(caller_span()))

    def value(*indices: Var) -> PrimExpr:
        return a(*(indices[order.index(d)] for d in range(a.ndim)))

    result: Tensor = compute([a.shape[d] for d in order], value, name="T_transpose", tag="injective")
    return result


def reshape(a: Tensor, newshape: Any) -> Tensor:
    """The elements of `a`, in row-major order, as a tensor of `newshape` (constant sizes; one may be -1).

    Raises IRError when the number of elements differs or a size is symbolic.
    """
    sizes = [ops.as_int(d) for d in (newshape if isinstance(newshape, tuple | list) else [newshape])]
    old = [ops.as_int(d) for d in a.shape]
    if None in sizes or None in old:
        raise IRError(f"reshape of {shape_text(a.shape)} needs constant sizes" + at(caller_span()))
    dims = [d for d in sizes if d is not None]
    total = math.prod(d for d in old if d is not None)
    if dims.count(-1) == 1:
        rest = math.prod(d for d in dims if d != -1)
        dims[dims.index(-1)] = total // rest if rest else 0
    if math.prod(dims) != total or any(d < 0 for d in dims):
        raise IRError(f"cannot reshape {shape_text(a.shape)} to {newshape!r}" + at(caller_span()))
    shape = as_shape(dims, "reshape")

    def value(*indices: Var) -> PrimExpr:
        return a(*_unravel(_ravel(indices, shape), a.shape))

    result: Tensor = compute(shape, value, name="T_reshape", tag="injective")
    return result


def _ravel(indices: Sequence[PrimExpr], shape: Sequence[PrimExpr]) -> PrimExpr:
    flat: PrimExpr = ops.const(0)
    for index, size in zip(indices, shape):
        flat = ops.add(ops.mul(flat, size), index)
    return flat


def _unravel(flat: PrimExpr, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
    point: list[PrimExpr] = []
    for size in reversed(shape[1:]):
        point.append(ops.floormod(flat, size))
        flat = ops.floordiv(flat, size)
    return [flat, *reversed(point)] if shape else []


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after another along `axis`. Raises IRError when dtypes or other dimensions differ."""
    if not a_tuple:
        raise IRError("concatenate needs at least one tensor" + at(caller_span()))
    first = a_tuple[0]
    (dim,) = normal_axes("concatenate", axis, first.ndim)
    for other in a_tuple[1:]:
        same = other.ndim == first.ndim and all(
            ops.as_int(x) == ops.as_int(y) for d, (x, y) in enumerate(zip(first.shape, other.shape)) if d != dim
        )
        if not same or other.dtype != first.dtype:
            raise IRError(
                f"concatenate along {axis}: {first.name!r} is {first.dtype} {shape_text(first.shape)}, "
                f"{other.name!r} is {other.dtype} {shape_text(other.shape)}" + at(caller_span())
            )
    total: PrimExpr = ops.const(0)
    starts: list[PrimExpr] = []
    for tensor in a_tuple:
        starts.append(total)
        total = ops.add(total, tensor.shape[dim])

    def value(*indices: Var) -> PrimExpr:
        result: PrimExpr | None = None
        for tensor, start in zip(a_tuple, starts):
            point = [ops.sub(i, start) if d == dim else i for d, i in enumerate(indices)]
            mine = tensor(*point)
            result = mine if result is None else if_then_else(indices[dim] >= start, mine, result)
        assert result is not None
        return result

    shape = [*first.shape[:dim], total, *first.shape[dim + 1 :]]
    result: Tensor = compute(shape, value, name="T_concat", tag="injective")
    return result


def expand_dims(a: Tensor, axis: int, num_newaxis: int = 1) -> Tensor:
    """`a` with `num_newaxis` dimensions of size 1 before dimension `axis`."""
    (dim,) = normal_axes("expand_dims", axis, a.ndim + 1)
    shape = [*a.shape[:dim], *([ops.const(1)] * num_newaxis), *a.shape[dim:]]
    result: Tensor = compute(
        shape, lambda *i: a(*i[:dim], *i[dim + num_newaxis :]), name="T_expand_dims", tag="injective"
    )
    return result
