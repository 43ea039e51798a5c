"""Operators that move elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute, if_then_else
from compiler.te.tensor import Tensor, as_shape, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import differ, product, ravel, simplified, unravel
from compiler.topi.reduction import normal_axes


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """`a` with its dimensions in the order `axes`, reversed unless given.
    Raises IRError unless `axes` names each dimension once."""
    order = list(range(a.ndim))[::-1] if axes is None else [d + a.ndim if d < 0 else d for d in axes]
    if sorted(order) != list(range(a.ndim)):
        raise IRError(f"transpose of {shape_text(a.shape)} with axes {axes!r}" + here())

    def value(*indices: Var) -> PrimExpr:
        return a(*(indices[order.index(d)] for d in range(a.ndim)))

    result: Tensor = compute([a.shape[d] for d in order], value, name="T_transpose", tag="injective")
    return result


def reshape(a: Tensor, newshape: Any) -> Tensor:
    """The elements of `a`, in row-major order, as a tensor of `newshape`, of which one size may be -1.

    Raises IRError when the number of elements differs; symbolic sizes are taken to fit.
    """
    given = [ops.as_expr(d) for d in (newshape if isinstance(newshape, tuple | list) else [newshape])]
    unknown = [d for d, size in enumerate(given) if ops.is_const(size, -1)]
    total = simplified(product(a.shape))
    if len(unknown) == 1:
        rest = simplified(product([size for d, size in enumerate(given) if d not in unknown]))
        known, parts = ops.as_int(total), ops.as_int(rest)
        if parts == 0 or (known is not None and parts is not None and known % parts):
            raise IRError(f"cannot reshape {shape_text(a.shape)} to {newshape!r}" + here())
        given[unknown[0]] = simplified(ops.floordiv(total, rest))
    if len(unknown) > 1 or any((ops.as_int(d) or 0) < 0 for d in given) or differ(simplified(product(given)), total):
        raise IRError(f"cannot reshape {shape_text(a.shape)} to {newshape!r}" + here())
    shape = as_shape(given, "reshape")

    def value(*indices: Var) -> PrimExpr:
        return a(*unravel(ravel(indices, shape), a.shape))

    result: Tensor = compute(shape, value, name="T_reshape", tag="injective")
    return result


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """The tensors one after another along `axis`. Raises IRError when dtypes or other dimensions differ."""
    if not a_tuple:
        raise IRError("concatenate needs at least one tensor" + here())
    first = a_tuple[0]
    (dim,) = normal_axes("concatenate", axis, first.ndim)
    for other in a_tuple[1:]:
        same = other.ndim == first.ndim and all(
            ops.as_int(x) == ops.as_int(y) for d, (x, y) in enumerate(zip(first.shape, other.shape)) if d != dim
        )
        if not same or other.dtype != first.dtype:
            raise IRError(
                f"concatenate along {axis}: {first.name!r} is {first.dtype} {shape_text(first.shape)}, "
                f"{other.name!r} is {other.dtype} {shape_text(other.shape)}" + here()
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
