"""Elementwise operators of two tensors (or a tensor and a scalar), with numpy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import at, caller_span
from compiler.tir import composed, ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var
from compiler.topi.checks import is_float

_EXPONENT_BITS = 6  # a number beyond 1 to the power 64 has wrapped

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
                + at(caller_span())
            )
        result.append(y if left == 1 else x)
    return tuple(result)


def element(tensor: Tensor, indices: Sequence[Var]) -> PrimExpr:
    """The element of `tensor` that stands at `indices` of a shape it broadcasts to."""
    aligned = indices[len(indices) - tensor.ndim :]
    point = [ops.const(0) if ops.as_int(size) == 1 else i for i, size in zip(aligned, tensor.shape)]
    return tensor(*point)


def _binary(name: str, scalar: Scalar, what: str) -> Callable[[Any, Any], Any]:
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


add = _binary("add", ops.add, "lhs + rhs")
subtract = _binary("subtract", ops.sub, "lhs - rhs")
multiply = _binary("multiply", ops.mul, "lhs * rhs")
divide = _binary("divide", ops.div, "lhs / rhs of floats")
floor_divide = _binary("floor_divide", lambda x, y: _floor_divide(x, y), "lhs / rhs rounded down")
floor_mod = _binary("floor_mod", lambda x, y: _floor_mod(x, y), "the remainder of floor_divide")
maximum = _binary("maximum", ops.maximum, "the larger of both")
minimum = _binary("minimum", ops.minimum, "the smaller of both")
power = _binary("power", lambda x, y: _power(x, y), "lhs to the power rhs")
trunc_divide = _binary("trunc_divide", ops.truncdiv, "lhs / rhs of integers rounded towards zero")
trunc_mod = _binary("trunc_mod", ops.truncmod, "the remainder of trunc_divide, with the sign of lhs")
fmod = _binary("fmod", intrin.fmod, "the remainder of lhs / rhs rounded towards zero")
atan2 = _binary("atan2", intrin.atan2, "the angle of the point (y=lhs, x=rhs)")
log_add_exp = _binary("log_add_exp", composed.logaddexp, "log(exp(lhs) + exp(rhs))")
ldexp = _binary("ldexp", intrin.ldexp, "lhs times 2 to the power rhs")
greater = _binary("greater", ops.greater, "lhs > rhs")
less = _binary("less", ops.less, "lhs < rhs")
greater_equal = _binary("greater_equal", ops.greater_equal, "lhs >= rhs")
less_equal = _binary("less_equal", ops.less_equal, "lhs <= rhs")
equal = _binary("equal", ops.equal, "lhs == rhs")
not_equal = _binary("not_equal", ops.not_equal, "lhs != rhs")
mod = _binary("mod", lambda x, y: _floor_mod(x, y), "the remainder of floor_divide")
logical_and = _binary("logical_and", lambda x, y: ops.logical_and(truth(x), truth(y)), "lhs and rhs")
logical_or = _binary("logical_or", lambda x, y: ops.logical_or(truth(x), truth(y)), "lhs or rhs")
logical_xor = _binary("logical_xor", lambda x, y: ops.not_equal(truth(x), truth(y)), "either lhs or rhs")
bitwise_and = _binary("bitwise_and", intrin.bitwise_and, "the bits in both lhs and rhs")
bitwise_or = _binary("bitwise_or", intrin.bitwise_or, "the bits in lhs or rhs")
bitwise_xor = _binary("bitwise_xor", intrin.bitwise_xor, "the bits in one of lhs and rhs")
left_shift = _binary("left_shift", intrin.left_shift, "lhs moved up by rhs bits")
right_shift = _binary("right_shift", intrin.right_shift, "lhs moved down by rhs bits")


def _floating(x: Any, y: Any) -> tuple[PrimExpr, PrimExpr] | None:
    a, b = ops.match_types(x, y)
    return (a, b) if is_float(a.dtype) else None


def _floor_divide(x: Any, y: Any) -> PrimExpr:
    """Of floats the quotient of what `_floor_mod` leaves, as in numpy."""
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


def _power(x: Any, y: Any) -> PrimExpr:
    """Integers come back as integers, wrapped; below an exponent of 0 as the quotient rounded towards zero."""
    a, b = ops.match_types(x, y)
    if is_float(a.dtype):
        return intrin.power(a, b)
    known = ops.as_int(b)
    zero, one = ops.const(0, a.dtype), ops.const(1, a.dtype)
    result, square = one, a
    for bit in range(_EXPONENT_BITS if known is None else max(known, 0).bit_length()):
        if known is None:
            odd = ops.not_equal(intrin.bitwise_and(b, ops.const(1 << bit, b.dtype)), zero)
            result = ops.mul(result, intrin.select(odd, square, one))
        elif known >> bit & 1:
            result = ops.mul(result, square)
        square = ops.mul(square, square)
    if known is not None and known >= 0:
        return result
    if not parse_dtype(a.dtype).is_signed:
        return result
    minus = ops.const(-1, a.dtype)
    is_unit = ops.logical_or(ops.equal(a, one), ops.equal(a, minus))
    parity = intrin.select(ops.equal(ops.floormod(b, ops.const(2, b.dtype)), zero), one, a)
    return intrin.select(ops.greater_equal(b, zero), result, intrin.select(is_unit, parity, zero))


def truth(value: Any) -> PrimExpr:
    """Whether the scalar `value` is true: not zero."""
    expr = ops.as_expr(value)
    return expr if expr.dtype == "bool" else ops.not_equal(expr, ops.const(0, expr.dtype))


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where `condition` holds (is not zero), else y; all three broadcast. Raises IRError when they do not."""
    operands = [condition, x, y]
    shape: tuple[PrimExpr, ...] = ()
    for operand in operands:
        shape = broadcast_shape("where", shape, operand.shape if isinstance(operand, Tensor) else ())

    def value(*indices: Var) -> PrimExpr:
        chosen, a, b = (element(o, indices) if isinstance(o, Tensor) else o for o in operands)
        return intrin.select(truth(chosen), a, b)

    return compute(shape, value, name="T_where", tag="broadcast")


def broadcast_to(data: Tensor, shape: Any) -> Tensor:
    """`data` repeated to `shape`. Raises IRError when it does not broadcast to it."""
    dims = tuple(ops.as_expr(d) for d in shape)
    if len(dims) < data.ndim:
        raise IRError(f"cannot broadcast {shape_text(data.shape)} to {shape_text(dims)}" + at(caller_span()))
    broadcast_shape("broadcast_to", data.shape, dims)
    result: Tensor = compute(dims, lambda *i: element(data, i), name="T_broadcast_to", tag="broadcast")
    return result
