"""Tensors made of nothing: constants and ranges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from compiler.dtype import is_float
from compiler.errors import IRError
from compiler.te.operation import compute, const
from compiler.te.tensor import Tensor, check_dtype
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import FloatImm, IntImm, PrimExpr, Var
from compiler.topi.checks import need_one_of, need_rank, product, refusal, simplified


def full(shape: Any, dtype: str, fill_value: Any) -> Tensor:
    """A tensor of `fill_value`, a number or an expression."""
    value = const(fill_value, dtype) if isinstance(fill_value, bool | int | float) else ops.cast(dtype, fill_value)
    result: Tensor = compute(shape, lambda *i: value, name="T_full", tag="elemwise")
    return result


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """A tensor of `fill_value` with the shape and dtype of `x`."""
    return full(x.shape, x.dtype, fill_value)


def zeros(shape: Any, dtype: str = "float32") -> Tensor:
    """A tensor of zeros."""
    return full(shape, dtype, 0)


def ones(shape: Any, dtype: str = "float32") -> Tensor:
    """A tensor of ones."""
    return full(shape, dtype, 1)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: str = "float32") -> Tensor:
    """start, start + step, ... before `stop`; with one number, 0, 1, ... before it.

    Integers may be expressions. Raises IRError when `step` is 0, or unknown beside a symbolic bound of floats.
    """
    first, last = (0, start) if stop is None else (start, stop)
    numbers = [_number(value) for value in (first, last, step)]
    if numbers[2] == 0:
        raise IRError("arange with a step of 0" + here())
    low, high, by = numbers
    if low is not None and high is not None and by is not None:
        count: Any = max(0, math.ceil((high - low) / by))
    else:
        count = arange_extent(first, last, step)

    def value(i: Var) -> PrimExpr:
        wide = dtype if is_float(dtype) else "int64"
        return ops.cast(dtype, ops.add(_as(first, wide), ops.mul(ops.cast(wide, i), _as(step, wide))))

    result: Tensor = compute((count,), value, name="T_arange", tag="injective")
    return result


def arange_extent(first: Any, last: Any, step: Any) -> PrimExpr:
    """How many numbers an `arange` of integers of which some are expressions has."""
    by = ops.as_int(step)
    if by is None or any(isinstance(v, float) for v in (first, last)):
        raise IRError(f"arange from {first!r} to {last!r} by {step!r}: sizes must be integers and the step known"
                      + here())  # fmt: skip
    span = ops.sub(last, first) if by > 0 else ops.sub(first, last)
    count = simplified(ops.floordiv(ops.add(span, abs(by) - 1), abs(by)))
    return count if isinstance(count, Var) else simplified(ops.maximum(count, 0))


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        return value
    if isinstance(value, IntImm | FloatImm):
        return value.value
    return None


def _as(value: Any, dtype: str) -> PrimExpr:
    return const(value, dtype) if isinstance(value, int | float) else ops.cast(dtype, value)


def linspace(start: float, stop: float, num: int, endpoint: bool = True, dtype: str = "float32") -> Tensor:
    """`num` numbers evenly apart from `start` to `stop`, which is the last one when `endpoint`."""
    if not isinstance(num, int) or num < 0:
        raise refusal("linspace", f"num {num!r} is no number of elements")
    parts = num - 1 if endpoint else num
    step = (stop - start) / parts if parts > 0 else 0.0

    def value(i: Var) -> PrimExpr:
        exact = ops.add(const(float(start), "float64"), ops.mul(ops.cast("float64", i), const(step, "float64")))
        if endpoint and num > 1:
            exact = intrin.select(ops.equal(i, num - 1), const(float(stop), "float64"), exact)
        return ops.cast(dtype, exact if is_float(dtype) else intrin.floor(exact))

    result: Tensor = compute((num,), value, name="T_linspace", tag="injective")
    return result


def eye(n: Any, m: Any = None, k: int = 0, dtype: str = "float32") -> Tensor:
    """Return an n x m matrix (n x n unless given) with ones on the diagonal `k`.
    It is above the main one when positive."""
    check_dtype(dtype, "eye")

    def value(i: Var, j: Var) -> PrimExpr:
        return intrin.select(ops.equal(ops.sub(j, i), k), const(1, dtype), const(0, dtype))

    result: Tensor = compute((n, n if m is None else m), value, name="T_eye", tag="injective")
    return result


def meshgrid(a_tuple: Sequence[Tensor], indexing: str = "ij") -> list[Tensor]:
    """Each of the tensors of one dimension (or none), repeated along the dimensions of the others.

    With `indexing` "xy" the first two dimensions change places. Raises IRError for none, or ones of more dimensions.
    """
    need_one_of("meshgrid", "indexing", indexing, ("ij", "xy"))
    if not a_tuple:
        raise refusal("meshgrid", "needs at least one tensor")
    for tensor in a_tuple:
        need_rank("meshgrid", tensor, 0, 1)
    places = list(range(len(a_tuple)))
    if indexing == "xy" and len(places) > 1:
        places[0], places[1] = 1, 0
    shape: list[PrimExpr] = [ops.const(1)] * len(places)
    for place, tensor in zip(places, a_tuple):
        shape[place] = tensor.shape[0] if tensor.ndim else ops.const(1)

    def spread(tensor: Tensor, place: int) -> Tensor:
        result: Tensor = compute(
            shape, lambda *i: tensor(*((i[place],) if tensor.ndim else ())), name="T_meshgrid", tag="injective"
        )
        return result

    return [spread(tensor, place) for place, tensor in zip(places, a_tuple)]


def shape(array: Tensor, dtype: str = "int32") -> Tensor:
    """The sizes of `array` as a tensor of one dimension."""

    def value(d: Var) -> PrimExpr:
        size: PrimExpr = ops.const(0, dtype)
        for number, extent in enumerate(array.shape):
            size = intrin.select(ops.equal(d, number), ops.cast(dtype, extent), size)
        return size

    result: Tensor = compute((array.ndim,), value, name="T_shape", tag="injective")
    return result


def ndarray_size(array: Tensor, dtype: str = "int32") -> Tensor:
    """The number of elements of `array`, as a tensor without dimensions."""
    count = ops.cast(dtype, product(array.shape))
    result: Tensor = compute((), lambda: count, name="T_size", tag="injective")
    return result


def hann_window(size: Any, periodic: bool = True, dtype: str = "float32") -> Tensor:
    """Half a wave's window: 0.5 - 0.5 cos(2 pi i / n), with n `size`, or `size` - 1 unless `periodic`."""
    return _cosine_window("hann_window", size, periodic, dtype, (0.5, 0.5))


def hamming_window(
    window_size: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, dtype: str = "float32"
) -> Tensor:
    """Return the window alpha - beta cos(2 pi i / n).
    n is `window_size`, or `window_size` - 1 unless `periodic`."""
    return _cosine_window("hamming_window", window_size, periodic, dtype, (alpha, beta))


def blackman_window(size: Any, periodic: bool = True, dtype: str = "float32") -> Tensor:
    """The window 0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)."""
    return _cosine_window("blackman_window", size, periodic, dtype, (0.42, 0.5, 0.08))


def _cosine_window(op: str, size: Any, periodic: bool, dtype: str, factors: Sequence[float]) -> Tensor:
    if not is_float(dtype):
        raise refusal(op, f"dtype {dtype} is no float")
    length = ops.as_expr(size)
    divisor = ops.cast("float64", length if periodic else ops.maximum(ops.sub(length, 1), 1))
    lonely = ops.as_int(length) == 1  # a window of one is 1

    def value(i: Var) -> PrimExpr:
        if lonely:
            return const(1.0, dtype)
        total = const(factors[0], "float64")
        angle = ops.div(ops.mul(ops.cast("float64", i), const(2 * math.pi, "float64")), divisor)
        for number, factor in enumerate(factors[1:], 1):
            wave = ops.mul(intrin.cos(ops.mul(angle, float(number))), factor * (-1) ** number)
            total = ops.add(total, wave)
        if ops.as_int(length) is None:
            total = intrin.select(ops.equal(length, 1), const(1.0, "float64"), total)
        return ops.cast(dtype, total)

    result: Tensor = compute((length,), value, name=f"T_{op}", tag="injective")
    return result
