"""Arithmetic of two tensors, elementwise with broadcasting."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.dtype import parse_dtype
from compiler.relax.op.core.families import binary, flat
from compiler.relax.op.core.rules import broadcast
from compiler.relax.op.gradients import elementwise as slopes
from compiler.te.tensor import Tensor


def _divide(x1: Tensor, x2: Tensor) -> Any:
    return (topi.divide if parse_dtype(x1.dtype).is_float else topi.trunc_divide)(x1, x2)


add = binary("add", topi.add, "Add two tensors", gradient=slopes.add)
subtract = binary("subtract", topi.subtract, "Subtract one tensor from another", gradient=slopes.subtract)
multiply = binary("multiply", topi.multiply, "Multiply two tensors", gradient=slopes.multiply)
divide = binary("divide", _divide, "Divide, whole numbers rounded towards zero", gradient=slopes.divide)
floor_divide = binary("floor_divide", topi.floor_divide, "Divide, rounded down", gradient=flat)
floor_mod = binary(
    "floor_mod", topi.floor_mod, "Take what floor_divide leaves, with the divisor's sign", gradient=slopes.remainder
)
mod = binary("mod", topi.mod, "Take the remainder of a division, with the divisor's sign", gradient=slopes.remainder)
power = binary("power", topi.power, "Raise one tensor to the power of another", gradient=slopes.power)
maximum = binary("maximum", topi.maximum, "Take the larger of two tensors", gradient=slopes.maximum)
minimum = binary("minimum", topi.minimum, "Take the smaller of two tensors", gradient=slopes.minimum)
atan2 = binary(
    "atan2", topi.atan2, "Take the angle of the point (x2, x1)", infer=broadcast(floats=True), gradient=slopes.atan2
)
log_add_exp = binary(
    "log_add_exp", topi.log_add_exp, "Take log(exp(x1) + exp(x2)) without overflow", infer=broadcast(floats=True),
    gradient=slopes.log_add_exp,
)

__all__ = [
    "add", "atan2", "divide", "floor_divide", "floor_mod", "log_add_exp", "maximum", "minimum", "mod", "multiply",
    "power", "subtract",
]  # fmt: skip
