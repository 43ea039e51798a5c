"""Operators that work on elements."""

from __future__ import annotations

import math
from typing import Any

from compiler.faces.relay.op.values import emit, number, shape, tensor
from compiler.faces.relay.table import In, operator
from compiler.relax import op as R
from compiler.relax.nodes import const

_UNARY = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh", "erf", "exp",
    "floor", "isfinite", "isinf", "isnan", "log", "logical_not", "negative", "ones_like", "round", "rsqrt", "sigmoid",
    "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "zeros_like",
)  # fmt: skip
_BINARY = (
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "divide", "equal", "floor_divide", "floor_mod", "greater",
    "greater_equal", "left_shift", "less", "less_equal", "logical_and", "logical_or", "logical_xor", "maximum",
    "minimum", "mod", "multiply", "not_equal", "power", "right_shift", "subtract",
)  # fmt: skip


def _unary(name: str) -> None:
    def body(data: In) -> Any:
        return getattr(R, name)(data)

    body.__doc__ = f"relax's `{name}` of each element."
    operator(name)(body)


def _binary(name: str) -> None:
    def body(lhs: In, rhs: In) -> Any:
        return getattr(R, name)(lhs, rhs)

    body.__doc__ = f"relax's `{name}` of two tensors, of shapes that broadcast."
    operator(name)(body)


for _name in _UNARY:
    _unary(_name)
for _name in _BINARY:
    _binary(_name)


def _like(data: Any, value: float) -> Any:
    info = tensor(data, "log")
    return const(value, info.dtype or "float32")


@operator("log2")
def log2(data: In) -> Any:
    """The logarithm of base 2."""
    return R.multiply(R.log(data), _like(data, 1 / math.log(2)))


@operator("log10")
def log10(data: In) -> Any:
    """The logarithm of base 10."""
    return R.multiply(R.log(data), _like(data, 1 / math.log(10)))


@operator("copy")
def copy(data: In) -> Any:
    """The same elements."""
    return data


@operator("device_copy")
def device_copy(data: In, src_device: Any = None, dst_device: Any = None) -> Any:
    """The same elements; a graph runs on one device."""
    return data


@operator("trunc_divide")
def trunc_divide(lhs: In, rhs: In) -> Any:
    """The quotient, rounded towards 0."""
    quotient = emit(R.divide(lhs, rhs))
    return quotient if "int" in (tensor(quotient, "trunc_divide").dtype or "") else R.trunc(quotient)


@operator("trunc_mod")
def trunc_mod(lhs: In, rhs: In) -> Any:
    """Return what is left over by `trunc_divide`, with the sign of `lhs`."""
    return R.subtract(lhs, R.multiply(trunc_divide(lhs, rhs), rhs))


@operator("cast")
def cast(data: In, dtype: str) -> Any:
    """Elements converted to `dtype`."""
    return R.astype(data, dtype)


@operator("cast_like")
def cast_like(data: In, dtype_like: In) -> Any:
    """Elements converted to the element type of `dtype_like`."""
    return R.astype(data, tensor(dtype_like, "cast_like").dtype)


@operator("clip")
def clip(a: In, a_min: float, a_max: float) -> Any:
    """Elements brought into [a_min, a_max]."""
    return R.clip(a, a_min, a_max)


@operator("where")
def where(condition: In, x: In, y: In) -> Any:
    """Elements of `x` where the condition holds, else of `y`."""
    held = condition if tensor(condition, "where").dtype == "bool" else R.astype(condition, "bool")
    return R.where(held, x, y)


@operator("full_like")
def full_like(data: In, fill_value: In) -> Any:
    """A tensor of the shape and type of `data`, all of one value."""
    return R.full_like(data, R.astype(fill_value, tensor(data, "full_like").dtype))


@operator("full")
def full(fill_value: In, shape: Any = (), dtype: str = "") -> Any:
    """A tensor of `shape`, all of one value."""
    kind = dtype or tensor(fill_value, "full").dtype
    return R.full(tuple(shape), R.astype(fill_value, kind), kind)


@operator("zeros")
def zeros(shape: Any, dtype: str) -> Any:
    """A tensor of zeros."""
    return R.zeros(tuple(shape), dtype)


@operator("ones")
def ones(shape: Any, dtype: str) -> Any:
    """A tensor of ones."""
    return R.ones(tuple(shape), dtype)


@operator("arange")
def arange(start: In, stop: In = None, step: In = None, dtype: str = "float32") -> Any:
    """Numbers from `start`, by `step`, before `stop`; from 0 where only one bound is given."""
    first, last = (0, start) if stop is None else (number(start, "arange"), stop)
    return R.arange(first, number(last, "arange"), 1 if step is None else number(step, "arange"), dtype)


@operator("one_hot")
def one_hot(indices: In, on_value: In, off_value: In, depth: int, axis: int, dtype: str) -> Any:
    """`on_value` where the position along a new axis is the index, else `off_value`."""
    ndim = len(shape(indices, "one_hot"))
    positions = R.reshape(R.arange(0, depth, 1, tensor(indices, "one_hot").dtype), _beside(depth, ndim, axis))
    hot = R.equal(R.expand_dims(indices, axis if axis >= 0 else ndim), positions)
    return R.where(hot, R.astype(on_value, dtype), R.astype(off_value, dtype))


def _beside(depth: int, ndim: int, axis: int) -> tuple[int, ...]:
    place = axis if axis >= 0 else ndim
    return tuple(depth if at == place else 1 for at in range(ndim + 1))


@operator("shape_of")
def shape_of(data: In, dtype: str = "int32") -> Any:
    """The sizes of a tensor, which must be known."""
    sizes = shape(data, "shape_of")
    return const([int(size) for size in sizes], dtype)  # type: ignore[arg-type]


@operator("ndarray_size")
def ndarray_size(data: In, dtype: str = "int32") -> Any:
    """The number of elements, which must be known."""
    return const(math.prod(int(size) for size in shape(data, "ndarray_size")), dtype)
