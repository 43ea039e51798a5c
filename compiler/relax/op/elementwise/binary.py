"""Arithmetic of two tensors, elementwise with broadcasting."""

from __future__ import annotations

from compiler import topi
from compiler.relax.op.core.families import NOT_SMOOTH, binary
from compiler.relax.op.core.rules import broadcast

add = binary("add", topi.add, "Add two tensors")
subtract = binary("subtract", topi.subtract, "Subtract one tensor from another")
multiply = binary("multiply", topi.multiply, "Multiply two tensors")
divide = binary("divide", topi.divide, "Divide one tensor by another", infer=broadcast(floats=True))
floor_divide = binary("floor_divide", topi.floor_divide, "Divide, rounded down", gradient=NOT_SMOOTH)
floor_mod = binary("floor_mod", topi.floor_mod, "Take what floor_divide leaves, with the divisor's sign")
mod = binary("mod", topi.mod, "Take the remainder of a division, with the divisor's sign")
power = binary("power", topi.power, "Raise one tensor to the power of another")
maximum = binary("maximum", topi.maximum, "Take the larger of two tensors")
minimum = binary("minimum", topi.minimum, "Take the smaller of two tensors")
atan2 = binary("atan2", topi.atan2, "Take the angle of the point (x2, x1)", infer=broadcast(floats=True))
log_add_exp = binary(
    "log_add_exp", topi.log_add_exp, "Take log(exp(x1) + exp(x2)) without overflow", infer=broadcast(floats=True)
)

__all__ = [
    "add", "atan2", "divide", "floor_divide", "floor_mod", "log_add_exp", "maximum", "minimum", "mod", "multiply",
    "power", "subtract",
]  # fmt: skip
