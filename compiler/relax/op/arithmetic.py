"""Arithmetic and comparisons of two tensors, elementwise with broadcasting."""

from __future__ import annotations

from collections.abc import Callable

from compiler import topi
from compiler.relax.nodes import Call, Expr
from compiler.relax.op.layout import follows
from compiler.relax.op.params import TensorArg
from compiler.relax.op.registry import Gradient, OpPatternKind, Refused, TeForm, operator, refused
from compiler.relax.op.rules import broadcast
from compiler.relax.op.work import per_output

_NO_GRADIENT_YET = refused("gradients are not written yet")
_NOT_SMOOTH = refused("it has no gradient")


def _binary(
    name: str, te: TeForm, doc: str, *, dtype: str | None = None, gradient: Gradient | Refused = _NO_GRADIENT_YET
) -> Callable[[TensorArg, TensorArg], Call]:
    def declared(x1: TensorArg, x2: TensorArg) -> Expr:
        raise AssertionError("a declaration")

    declared.__name__ = declared.__qualname__ = name
    declared.__doc__ = f"{doc}, elementwise with broadcasting."
    return operator(
        f"relax.{name}",
        infer=broadcast(dtype=dtype),
        te=te,
        pattern=OpPatternKind.BROADCAST,
        flops=per_output(1),
        layout=follows,
        gradient=gradient,
    )(declared)


add = _binary("add", topi.add, "Add two tensors")
subtract = _binary("subtract", topi.subtract, "Subtract one tensor from another")
multiply = _binary("multiply", topi.multiply, "Multiply two tensors")
divide = _binary("divide", topi.divide, "Divide one tensor by another")
floor_divide = _binary("floor_divide", topi.floor_divide, "Divide, rounded down", gradient=_NOT_SMOOTH)
power = _binary("power", topi.power, "Raise one tensor to the power of another")
maximum = _binary("maximum", topi.maximum, "Take the larger of two tensors")
minimum = _binary("minimum", topi.minimum, "Take the smaller of two tensors")
equal = _binary("equal", topi.equal, "Tell where two tensors are equal", dtype="bool", gradient=_NOT_SMOOTH)
not_equal = _binary("not_equal", topi.not_equal, "Tell where two tensors differ", dtype="bool", gradient=_NOT_SMOOTH)
less = _binary("less", topi.less, "Tell where x1 < x2", dtype="bool", gradient=_NOT_SMOOTH)
less_equal = _binary("less_equal", topi.less_equal, "Tell where x1 <= x2", dtype="bool", gradient=_NOT_SMOOTH)
greater = _binary("greater", topi.greater, "Tell where x1 > x2", dtype="bool", gradient=_NOT_SMOOTH)
greater_equal = _binary("greater_equal", topi.greater_equal, "Tell where x1 >= x2", dtype="bool", gradient=_NOT_SMOOTH)
