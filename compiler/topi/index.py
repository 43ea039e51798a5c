"""Reading at positions that other tensors hold.

Take, gather, gather_nd, one_hot, indexing by several tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.dtype import is_float
from compiler.errors import IRError
from compiler.te.broadcast import broadcast_shape, element
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, as_shape, check_dtype, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import described, differ, modulo, need_integers, need_one_of, not_negative, refusal, unravel
from compiler.topi.reduction import normal_axes
from compiler.topi.transform import reshape


def take(a: Tensor, indices: Tensor, axis: int | None = None, batch_dims: int = 0, mode: str = "fast") -> Tensor:
    """The slices of `a` along `axis` (or of `a` laid flat) at `indices`, an integer tensor of any rank.

    The first `batch_dims` dimensions of both go together. `mode` says what becomes of indices outside: "clip" moves
    them to the ends, "wrap" counts around, "nan" gives NaN (floats only), "fast" takes them to be inside. Raises
    IRError on another mode, on indices that are not integers, and when batch dimensions differ.
    """
    need_one_of("take", "mode", mode, ("fast", "clip", "wrap", "nan"))
    if not indices.dtype.startswith(("int", "uint")):
        raise IRError(f"take needs integer indices, {indices.name!r} is {indices.dtype}" + here())
    if mode == "nan" and not is_float(a.dtype):
        raise refusal("take", f"mode 'nan' needs floats, {a.name!r} is {a.dtype}")
    if axis is None:
        axis = 0
        a = reshape(a, (-1,)) if a.ndim != 1 else a
    (dim,) = normal_axes("take", axis, a.ndim)
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(dim, indices.ndim) or any(differ(*p) for p in zip(a.shape[:batch], indices.shape[:batch])):
        raise refusal("take", f"batch_dims {batch_dims} along axis {axis} does not fit {described(a, indices)}")
    size, rank = a.shape[dim], indices.ndim - batch

    def value(*i: Var) -> PrimExpr:
        chosen: PrimExpr = indices(*i[:batch], *i[dim : dim + rank])
        given = chosen
        if mode in ("clip", "nan"):
            chosen = ops.minimum(ops.maximum(chosen, 0), ops.sub(size, 1))
        elif mode == "wrap":
            chosen = modulo(chosen, size)
        found = a(*i[:dim], chosen, *i[dim + rank :])
        if mode != "nan":
            return found
        inside = ops.logical_and(ops.greater_equal(given, 0), ops.less(given, size))
        return intrin.select(inside, found, ops.const(float("nan"), a.dtype))

    shape = [*a.shape[:dim], *indices.shape[batch:], *a.shape[dim + 1 :]]
    result: Tensor = compute(shape, value, name="T_take", tag="injective")
    return result


def gather(data: Tensor, axis: int, indices: Tensor) -> Tensor:
    """data[i, ..., indices[i, ..., k], ..., k]: the element at `indices` along `axis`; ranks are the same.

    Negative indices count from the end. Raises IRError when ranks differ, or indices are not integers.
    """
    (dim,) = normal_axes("gather", axis, data.ndim)
    if indices.ndim != data.ndim or not indices.dtype.startswith(("int", "uint")):
        raise IRError(
            f"gather from {shape_text(data.shape)} needs integer indices of {data.ndim} dimensions, "
            f"{indices.name!r} is {indices.dtype} {shape_text(indices.shape)}" + here()
        )

    def value(*i: Var) -> PrimExpr:
        return data(*i[:dim], not_negative(indices(*i), data.shape[dim]), *i[dim + 1 :])

    result: Tensor = compute(indices.shape, value, name="T_gather", tag="injective")
    return result


def gather_nd(a: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    """Return the slices of `a` at points.

    `indices` is (M, ...) and holds in its first dimension the M numbers of a point. The first `batch_dims` dimensions
    of `a` go with those behind M. Negative numbers count from the end. Raises IRError when M is not a constant or is
    more than the dimensions left.
    """
    need_integers("gather_nd", indices)
    depth = ops.as_int(indices.shape[0]) if indices.ndim else None
    if depth is None or not 0 <= batch_dims <= min(a.ndim, indices.ndim - 1) or depth > a.ndim - batch_dims:
        raise refusal(
            "gather_nd", f"{described(a, indices)} with batch_dims {batch_dims}: the first dimension of indices must "
            "be a constant that is at most the dimensions of the data",
        )  # fmt: skip
    place = indices.ndim - 1

    def value(*i: Var) -> PrimExpr:
        at = i[:place]
        point = [
            not_negative(indices(ops.const(m), *at), a.shape[batch_dims + m]) for m in range(depth)
        ]
        return a(*i[:batch_dims], *point, *i[place:])

    shape = [*indices.shape[1:], *a.shape[batch_dims + depth :]]
    result: Tensor = compute(shape, value, name="T_gather_nd", tag="injective")
    return result


def index_tensor(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """numpy's `data[indices]`: integer tensors that broadcast, for the first dimensions.

    Negative indices count from the end. Raises IRError when there are more indices than dimensions.
    """
    given = list(indices)
    if not 1 <= len(given) <= data.ndim:
        raise refusal("index_tensor", f"{len(given)} index tensors for {described(data)}")
    need_integers("index_tensor", *given)
    shape: tuple[PrimExpr, ...] = ()
    for index in given:
        shape = broadcast_shape("index_tensor", shape, index.shape)
    rank = len(shape)

    def value(*i: Var) -> PrimExpr:
        point = [not_negative(element(index, i[:rank]), data.shape[d]) for d, index in enumerate(given)]
        return data(*point, *i[rank:])

    result: Tensor = compute([*shape, *data.shape[len(given) :]], value, name="T_index_tensor", tag="injective")
    return result


def adv_index(data: Tensor, indices: Sequence[Tensor]) -> Tensor:
    """The older name of `index_tensor`."""
    return index_tensor(data, indices)


def one_hot(indices: Tensor, on_value: Any, off_value: Any, depth: int | PrimExpr, axis: int, dtype: str) -> Tensor:
    """Add a dimension `axis` of size `depth`: `on_value` at the place `indices` says, else `off_value`.

    An index outside has `off_value` everywhere. Raises IRError unless indices are integers.
    """
    need_integers("one_hot", indices)
    check_dtype(dtype, "one_hot")
    (dim,) = normal_axes("one_hot", axis, indices.ndim + 1)

    def constant(value: Any) -> PrimExpr:
        if isinstance(value, Tensor):
            return ops.cast(dtype, value())
        return ops.cast(dtype, value)

    def value(*i: Var) -> PrimExpr:
        hit = ops.equal(indices(*i[:dim], *i[dim + 1 :]), i[dim])
        return intrin.select(hit, constant(on_value), constant(off_value))

    shape = [*indices.shape[:dim], ops.as_expr(depth), *indices.shape[dim:]]
    result: Tensor = compute(shape, value, name="T_one_hot", tag="injective")
    return result


def unravel_index(indices: Tensor, shape: Tensor | Sequence[Any]) -> Tensor:
    """The points at row-major positions `indices` of `shape`, along a new first dimension.

    `shape` is a sequence of sizes or an integer tensor of one dimension with a constant size.
    """
    need_integers("unravel_index", indices)
    if isinstance(shape, Tensor):
        count = ops.as_int(shape.shape[0]) if shape.ndim == 1 else None
        if count is None:
            raise refusal("unravel_index", f"shape {described(shape)} is not one dimension of constant size")
        sizes: list[PrimExpr] = [shape(ops.const(d)) for d in range(count)]
    else:
        sizes = [*as_shape(shape, "unravel_index")]
    if not sizes:
        raise refusal("unravel_index", "the shape has no dimensions")

    def value(d: Var, *i: Var) -> PrimExpr:
        point = unravel(indices(*i), sizes)
        result = point[-1]
        for number in reversed(range(len(point) - 1)):
            result = intrin.select(ops.equal(d, number), point[number], result)
        return ops.cast(indices.dtype, result)

    result: Tensor = compute([ops.const(len(sizes)), *indices.shape], value, name="T_unravel", tag="injective")
    return result
