"""Parts of a tensor: slices, splits, and writing into a slice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from compiler.errors import IRError
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, as_shape, shape_text
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import (
    differ,
    need_dtype,
    need_integers,
    need_one_of,
    need_rank,
    need_shape,
    refusal,
    simplified,
)
from compiler.topi.reduction import normal_axes

Bound = int | PrimExpr


def split(ary: Tensor, indices_or_sections: int | Sequence[Bound], axis: int = 0) -> list[Tensor]:
    """`ary` cut along `axis` into that many equal parts, or before each of those indices.

    Raises IRError when the parts are not equal, or the indices not ascending and inside. A symbolic dimension is
    taken to have equal parts, and to be as large as the last index.
    """
    (dim,) = normal_axes("split", axis, ary.ndim)
    size = ary.shape[dim]
    known = ops.as_int(size)
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts < 1 or (known is not None and known % parts):
            raise IRError(f"split of {size!r} elements into {parts} equal parts" + here())
        part = simplified(ops.floordiv(size, parts))
        return [_part(ary, dim, simplified(ops.mul(part, p)), part) for p in range(parts)]
    cuts = [ops.const(0), *(ops.as_expr(i) for i in indices_or_sections), size]
    values = [v for v in map(ops.as_int, cuts) if v is not None]
    if values != sorted(values) or values[0] < 0:
        raise IRError(f"split of {size!r} elements at {indices_or_sections!r}" + here())
    return [_part(ary, dim, start, simplified(ops.sub(stop, start))) for start, stop in pairwise(cuts)]


def _part(a: Tensor, dim: int, start: PrimExpr, count: PrimExpr) -> Tensor:
    shape = [count if d == dim else size for d, size in enumerate(a.shape)]

    def value(*indices: Var) -> PrimExpr:
        return a(*(ops.add(i, start) if d == dim else i for d, i in enumerate(indices)))

    result: Tensor = compute(shape, value, name="T_split_sections", tag="injective")
    return result


def slice_bounds(size: PrimExpr, begin: Bound, end: Bound, step: int) -> tuple[PrimExpr, PrimExpr]:
    """The first index and the number of elements of `[begin:end:step]` along `size`, by Python's rules.

    Symbolic sizes are taken not to be negative; so are symbolic bounds.
    """
    known, first, last = ops.as_int(size), ops.as_int(begin), ops.as_int(end)
    if known is not None and first is not None and last is not None:
        taken = range(known)[slice(first, last, step)]
        return ops.const(taken.start), ops.const(len(taken))
    low, high = (0, size) if step > 0 else (-1, ops.sub(size, 1))

    def clamped(bound: Bound) -> PrimExpr:
        value = ops.as_int(bound)
        if value is None:
            return ops.minimum(bound, high)
        if value < 0:
            return ops.maximum(ops.add(size, value), low)
        if step > 0 and value == 0:
            return ops.const(0)
        return ops.as_expr(high) if value >= 2**31 - 1 else ops.minimum(high, value)

    start, stop = clamped(begin), clamped(end)
    if step < 0 and last is not None and last <= -(2**31):
        stop = ops.const(-1)
    span = ops.sub(stop, start) if step > 0 else ops.sub(start, stop)
    span = simplified(ops.floordiv(ops.add(span, abs(step) - 1), abs(step)))
    if isinstance(span, Var):
        return simplified(start), span  # a whole dimension
    return simplified(start), simplified(ops.maximum(span, 0))


def strided_slice(
    a: Tensor, begin: Sequence[Bound], end: Sequence[Bound], strides: Sequence[int] | None = None,
    axes: Sequence[int] | None = None, slice_mode: str = "end", assume_inbound: bool = False,
) -> Tensor:  # fmt: skip
    """Return `a[begin:end:strides]` in the first dimensions, or in `axes`.

    Negative numbers follow Python's rules. With `slice_mode` "size", `end` is the number of elements (all that are left
    when negative) and strides are 1. Bounds may be expressions, which are taken not to be negative; with
    `assume_inbound` they are taken to be inside too, so that a symbolic slice has `end - begin` elements. Raises
    IRError on a stride of 0.
    """
    dims = list(range(len(begin))) if axes is None else [d + a.ndim if d < 0 else d for d in axes]
    steps = [1] * len(begin) if strides is None else list(strides) + [1] * (len(begin) - len(strides))
    fits = len(dims) == len(begin) == len(end) == len(steps) <= a.ndim and len(set(dims)) == len(dims)
    if not fits or 0 in steps or any(not 0 <= d < a.ndim for d in dims):
        raise IRError(
            f"strided_slice of {shape_text(a.shape)}: begin {begin!r}, end {end!r}, strides {strides!r}, axes {axes!r}"
            + here()
        )
    need_one_of("strided_slice", "slice_mode", slice_mode, ("end", "size"))
    taken: dict[int, tuple[PrimExpr, PrimExpr, int]] = {}
    for d, first, last, step in zip(dims, begin, end, steps):
        if slice_mode == "size":
            count = ops.as_int(last)
            last, step = (a.shape[d] if count is not None and count < 0 else simplified(ops.add(first, last))), 1
        symbolic = ops.as_int(first) is None or ops.as_int(last) is None
        if assume_inbound and symbolic:
            span = ops.sub(last, first) if step > 0 else ops.sub(first, last)
            extent = simplified(ops.floordiv(ops.add(span, abs(step) - 1), abs(step)))
            taken[d] = ops.as_expr(first), extent, step
        else:
            taken[d] = (*slice_bounds(a.shape[d], first, last, step), step)
    shape = [taken[d][1] if d in taken else size for d, size in enumerate(a.shape)]

    def value(*indices: Var) -> PrimExpr:
        point: list[PrimExpr] = list(indices)
        for d, (start, _, step) in taken.items():
            point[d] = ops.add(ops.mul(indices[d], step), start)
        return a(*point)

    result: Tensor = compute(shape, value, name="T_strided_slice", tag="injective")
    return result


def dynamic_strided_slice(a: Tensor, begin: Tensor, end: Tensor, strides: Tensor, output_shape: Any) -> Tensor:
    """Return `a[begin:end:strides]` where the bounds are integer tensors, known when it runs.

    They have one number a dimension. `output_shape` is the shape of the result: the caller knows it. Negative bounds
    count from the end, and all are brought inside. Raises IRError when the bounds do not fit.
    """
    for bound in (begin, end, strides):
        need_integers("dynamic_strided_slice", bound)
        need_rank("dynamic_strided_slice", bound, 1)
    shape = as_shape(output_shape, "dynamic_strided_slice")
    if len(shape) != a.ndim or any(differ(b.shape[0], a.ndim) for b in (begin, end, strides)):
        raise refusal(
            "dynamic_strided_slice",
            f"{a.name!r} {shape_text(a.shape)} needs {a.ndim} bounds and output sizes, got {shape_text(begin.shape)}, "
            f"{shape_text(end.shape)}, {shape_text(strides.shape)} and {shape_text(shape)}",
        )

    def value(*indices: Var) -> PrimExpr:
        point: list[PrimExpr] = []
        for d, (index, size) in enumerate(zip(indices, a.shape)):
            first, step = begin(ops.const(d)), strides(ops.const(d))
            forward = ops.greater(step, 0)
            start = ops.add(first, intrin.select(ops.less(first, 0), size, 0))
            lowest = intrin.select(forward, ops.const(0), ops.const(-1))
            highest = intrin.select(forward, size, ops.sub(size, 1))
            start = ops.minimum(ops.maximum(start, lowest), highest)
            point.append(ops.add(start, ops.mul(index, step)))
        return a(*point)

    result: Tensor = compute(shape, value, name="T_dynamic_strided_slice", tag="injective")
    return result


def strided_set(
    a: Tensor, v: Tensor, begin: Tensor, end: Tensor, strides: Tensor | None = None
) -> Tensor:
    """`a` with `a[begin:end:strides] = v`, the bounds integer tensors with one number a dimension.

    Raises IRError when ranks or dtypes do not fit.
    """
    need_dtype("strided_set", a.dtype, v)
    need_rank("strided_set", v, a.ndim)
    for bound in (begin, end) if strides is None else (begin, end, strides):
        need_integers("strided_set", bound)
        need_shape("strided_set", bound, [a.ndim])

    def value(*indices: Var) -> PrimExpr:
        inside: list[PrimExpr] = []
        point: list[PrimExpr] = []
        for d, (index, size) in enumerate(zip(indices, a.shape)):
            step: PrimExpr = ops.const(1) if strides is None else strides(ops.const(d))
            forward = ops.greater(step, 0)
            lowest = intrin.select(forward, ops.const(0), ops.const(-1))
            highest = intrin.select(forward, size, ops.sub(size, 1))
            ends = []
            for bound in (begin, end):
                given = bound(ops.const(d))
                whole = ops.add(given, intrin.select(ops.less(given, 0), size, 0))
                ends.append(ops.minimum(ops.maximum(whole, lowest), highest))
            start, stop = ends
            far = intrin.select(forward, ops.sub(index, start), ops.sub(start, index))
            length = intrin.select(forward, step, ops.sub(0, step))
            before = intrin.select(forward, ops.less(index, stop), ops.greater(index, stop))
            inside += [ops.greater_equal(far, 0), before, ops.equal(ops.floormod(far, length), 0)]
            point.append(ops.floordiv(far, length))
        return intrin.if_then_else(ops.logical_and(*inside), v(*point), a(*indices))

    result: Tensor = compute(a.shape, value, name="T_strided_set", tag="injective")
    return result


def slice_scatter(
    input_tensor: Tensor, src: Tensor, start: Bound, end: Bound, step: int, axis: int
) -> Tensor:
    """`input_tensor` with `src` in the place of its slice `[start:end:step]` along `axis`.

    Raises IRError unless `step` is positive and `src` has the shape of the slice.
    """
    (dim,) = normal_axes("slice_scatter", axis, input_tensor.ndim)
    if not isinstance(step, int) or step < 1:
        raise refusal("slice_scatter", f"step {step!r} is no positive integer")
    need_dtype("slice_scatter", input_tensor.dtype, src)
    first, count = slice_bounds(input_tensor.shape[dim], start, end, step)
    need_shape("slice_scatter", src, [count if d == dim else s for d, s in enumerate(input_tensor.shape)])

    def value(*indices: Var) -> PrimExpr:
        far = ops.sub(indices[dim], first)
        inside = [ops.greater_equal(far, 0), ops.less(far, ops.mul(count, step))]
        if step > 1:
            inside.append(ops.equal(ops.floormod(far, step), 0))
        point = [ops.floordiv(far, step) if d == dim else i for d, i in enumerate(indices)]
        return intrin.if_then_else(ops.logical_and(*inside), src(*point), input_tensor(*indices))

    result: Tensor = compute(input_tensor.shape, value, name="T_slice_scatter", tag="injective")
    return result
