"""Elementwise operators of two tensors, or of a tensor and a scalar, with numpy's broadcasting.

`A + B` and the like.

topi offers them with many more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, shape_text
from compiler.te.tensor_ops import operator
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var

Scalar = Callable[[Any, Any], PrimExpr]


def broadcast_shape(op: str, a: Sequence[PrimExpr], b: Sequence[PrimExpr]) -> tuple[PrimExpr, ...]:
    """The shape of a result of operands of shapes `a` and `b`, aligned at the last dimension.

    Sizes must be equal or 1; symbolic ones are taken to be equal. Raises IRError when they are not.
    """
    rank = max(len(a), len(b))
    one = ops.const(1)
    result: list[PrimExpr] = []
    for x, y in zip([one] * (rank - len(a)) + list(a), [one] * (rank - len(b)) + list(b)):
        left, right = ops.as_int(x), ops.as_int(y)
        if left is not None and right is not None and left != right and 1 not in (left, right):
            raise IRError(
                f"{op}: shapes {shape_text(a)} and {shape_text(b)} do not broadcast: {left} and {right}"
                + here()
            )
        result.append(y if left == 1 else x)
    return tuple(result)


def element(tensor: Tensor, indices: Sequence[Var]) -> PrimExpr:
    """Read the element of `tensor` for the place `indices` of a shape that it broadcasts to."""
    aligned = indices[len(indices) - tensor.ndim :]
    point = [ops.const(0) if ops.as_int(size) == 1 else i for i, size in zip(aligned, tensor.shape)]
    return tensor(*point)


def binary(name: str, scalar: Scalar, what: str) -> Callable[[Any, Any], Any]:
    """Return the function `name` of two tensors, which broadcasts them and applies `scalar`.
    `what` describes it for its docstring."""

    def build(lhs: Any, rhs: Any) -> Any:
        if not isinstance(lhs, Tensor) and not isinstance(rhs, Tensor):
            return scalar(lhs, rhs)
        left = lhs.shape if isinstance(lhs, Tensor) else ()
        right = rhs.shape if isinstance(rhs, Tensor) else ()
        shape = broadcast_shape(name, left, right)

        def value(*indices: Var) -> PrimExpr:
            x = element(lhs, indices) if isinstance(lhs, Tensor) else lhs
            y = element(rhs, indices) if isinstance(rhs, Tensor) else rhs
            return scalar(x, y)

        return compute(shape, value, name=f"T_{name}", tag="broadcast")

    build.__name__ = name
    build.__doc__ = f"{what}, elementwise with broadcasting. Raises IRError when shapes do not broadcast."
    return build


def _floating(x: Any, y: Any) -> tuple[PrimExpr, PrimExpr] | None:
    a, b = ops.match_types(x, y)
    return (a, b) if parse_dtype(a.dtype).is_float else None


def _floor_divide(x: Any, y: Any) -> PrimExpr:
    """Divide rounding down.
    The quotient of floats is computed from the remainder of `_floor_mod`, as in numpy."""
    floats = _floating(x, y)
    if floats is None:
        return ops.floordiv(x, y)
    a, b = floats
    near = ops.div(ops.sub(a, _floor_mod(a, b)), b)
    below = intrin.floor(near)
    zero, one = ops.const(0.0, a.dtype), ops.const(1.0, a.dtype)
    return ops.add(below, intrin.select(ops.greater(ops.sub(near, below), 0.5), one, zero))


def _floor_mod(x: Any, y: Any) -> PrimExpr:
    floats = _floating(x, y)
    if floats is None:
        return ops.floormod(x, y)
    a, b = floats
    rest = intrin.fmod(a, b)
    zero = ops.const(0.0, a.dtype)
    other_sign = ops.logical_and(ops.not_equal(rest, zero), ops.not_equal(ops.less(rest, zero), ops.less(b, zero)))
    return intrin.select(other_sign, ops.add(rest, b), rest)


add = operator(binary("add", ops.add, "lhs + rhs"))
subtract = operator(binary("subtract", ops.sub, "lhs - rhs"))
multiply = operator(binary("multiply", ops.mul, "lhs * rhs"))
divide = operator(binary("divide", ops.div, "lhs / rhs of floats"))
floor_divide = operator(binary("floor_divide", _floor_divide, "lhs / rhs rounded down"))
floor_mod = operator(binary("floor_mod", _floor_mod, "the remainder of floor_divide"))
mod = binary("mod", _floor_mod, "the remainder of floor_divide")
