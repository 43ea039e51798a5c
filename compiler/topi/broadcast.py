"""Elementwise operators of two tensors (or a tensor and a scalar), with numpy's broadcasting."""

from __future__ import annotations

from typing import Any

from compiler.dtype import is_float, parse_dtype
from compiler.errors import IRError
from compiler.te.broadcast import binary, broadcast_shape, element
from compiler.te.operation import compute
from compiler.te.tensor import Tensor, shape_text
from compiler.te.where import here
from compiler.tir import composed, ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Var

_EXPONENT_BITS = 6  # a number beyond 1 to the power 64 has wrapped

maximum = binary("maximum", ops.maximum, "the larger of both")
minimum = binary("minimum", ops.minimum, "the smaller of both")
power = binary("power", lambda x, y: _power(x, y), "lhs to the power rhs")
trunc_divide = binary("trunc_divide", ops.truncdiv, "lhs / rhs of integers rounded towards zero")
trunc_mod = binary("trunc_mod", ops.truncmod, "the remainder of trunc_divide, with the sign of lhs")
fmod = binary("fmod", intrin.fmod, "the remainder of lhs / rhs rounded towards zero")
atan2 = binary("atan2", intrin.atan2, "the angle of the point (y=lhs, x=rhs)")
log_add_exp = binary("log_add_exp", composed.logaddexp, "log(exp(lhs) + exp(rhs))")
ldexp = binary("ldexp", intrin.ldexp, "lhs times 2 to the power rhs")
greater = binary("greater", ops.greater, "lhs > rhs")
less = binary("less", ops.less, "lhs < rhs")
greater_equal = binary("greater_equal", ops.greater_equal, "lhs >= rhs")
less_equal = binary("less_equal", ops.less_equal, "lhs <= rhs")
equal = binary("equal", ops.equal, "lhs == rhs")
not_equal = binary("not_equal", ops.not_equal, "lhs != rhs")
logical_and = binary("logical_and", lambda x, y: ops.logical_and(truth(x), truth(y)), "lhs and rhs")
logical_or = binary("logical_or", lambda x, y: ops.logical_or(truth(x), truth(y)), "lhs or rhs")
logical_xor = binary("logical_xor", lambda x, y: ops.not_equal(truth(x), truth(y)), "either lhs or rhs")
bitwise_and = binary("bitwise_and", intrin.bitwise_and, "the bits in both lhs and rhs")
bitwise_or = binary("bitwise_or", intrin.bitwise_or, "the bits in lhs or rhs")
bitwise_xor = binary("bitwise_xor", intrin.bitwise_xor, "the bits in one of lhs and rhs")
left_shift = binary("left_shift", intrin.left_shift, "lhs moved up by rhs bits")
right_shift = binary("right_shift", intrin.right_shift, "lhs moved down by rhs bits")


def _power(x: Any, y: Any) -> PrimExpr:
    """Raise to a power. Integers wrap; a negative exponent gives the quotient rounded towards zero."""
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
    """x where `condition` holds (is not zero), else y; all three broadcast.
    Raises IRError when they do not."""
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
        raise IRError(f"cannot broadcast {shape_text(data.shape)} to {shape_text(dims)}" + here())
    broadcast_shape("broadcast_to", data.shape, dims)
    result: Tensor = compute(dims, lambda *i: element(data, i), name="T_broadcast_to", tag="broadcast")
    return result
