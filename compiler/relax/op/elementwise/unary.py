"""Elementwise operators of one tensor."""

from __future__ import annotations

from typing import Any

from compiler import topi
from compiler.relax.nodes import Expr, StructInfo
from compiler.relax.op.core.families import NOT_SMOOTH, flat, unary
from compiler.relax.op.core.layout import follows_first
from compiler.relax.op.core.params import ScalarArg, TensorArg
from compiler.relax.op.core.registry import OpPatternKind, operator
from compiler.relax.op.core.rules import like, with_dtype
from compiler.relax.op.core.use import Use
from compiler.relax.op.core.work import per_output
from compiler.relax.op.gradients import elementwise as slopes

_ANY = like("x", numbers=True)
_SEVERAL = 10  # about what a function of the math library takes


def _tells(use: Use) -> StructInfo:
    return with_dtype(use.tensor("x"), "bool")


_TELLS: dict[str, Any] = {"infer": _tells, "gradient": NOT_SMOOTH}

abs = unary("abs", topi.abs, "Take the absolute value.", infer=_ANY, gradient=slopes.absolute)
negative = unary("negative", topi.negative, "Change the sign.", infer=_ANY, gradient=slopes.negative)
square = unary("square", topi.square, "Multiply each element by itself.", infer=_ANY, gradient=slopes.square)
sign = unary("sign", topi.sign, "Replace each element by -1, 0 or 1, as its sign is.", infer=_ANY, gradient=flat)
ceil = unary("ceil", topi.ceil, "Round up.", infer=_ANY, gradient=flat)
floor = unary("floor", topi.floor, "Round down.", infer=_ANY, gradient=flat)
round = unary("round", topi.round, "Round to the nearest integer, halves to the even.", infer=_ANY, gradient=flat)
trunc = unary("trunc", topi.trunc, "Round towards zero.", infer=_ANY, gradient=flat)
acos = unary("acos", topi.acos, "Take the angle whose cosine is x.", flops=_SEVERAL, gradient=slopes.acos)
acosh = unary(
    "acosh", topi.acosh, "Take the number whose hyperbolic cosine is x.", flops=_SEVERAL, gradient=slopes.acosh
)
asin = unary("asin", topi.asin, "Take the angle whose sine is x.", flops=_SEVERAL, gradient=slopes.asin)
asinh = unary("asinh", topi.asinh, "Take the number whose hyperbolic sine is x.", flops=_SEVERAL, gradient=slopes.asinh)
atan = unary("atan", topi.atan, "Take the angle whose tangent is x.", flops=_SEVERAL, gradient=slopes.atan)
atanh = unary(
    "atanh", topi.atanh, "Take the number whose hyperbolic tangent is x.", flops=_SEVERAL, gradient=slopes.atanh
)
cos = unary("cos", topi.cos, "Take the cosine.", flops=_SEVERAL, gradient=slopes.cos)
cosh = unary("cosh", topi.cosh, "Take the hyperbolic cosine.", flops=_SEVERAL, gradient=slopes.cosh)
sin = unary("sin", topi.sin, "Take the sine.", flops=_SEVERAL, gradient=slopes.sin)
sinh = unary("sinh", topi.sinh, "Take the hyperbolic sine.", flops=_SEVERAL, gradient=slopes.sinh)
tan = unary("tan", topi.tan, "Take the tangent.", flops=_SEVERAL, gradient=slopes.tan)
tanh = unary("tanh", topi.tanh, "Take the hyperbolic tangent.", flops=_SEVERAL, gradient=slopes.tanh)
exp = unary("exp", topi.exp, "Raise e to the power x.", flops=_SEVERAL, gradient=slopes.exp)
log = unary("log", topi.log, "Take the natural logarithm.", flops=_SEVERAL, gradient=slopes.log)
sqrt = unary("sqrt", topi.sqrt, "Take the square root.", gradient=slopes.sqrt)
rsqrt = unary("rsqrt", topi.rsqrt, "Take 1 / sqrt(x).", flops=2, gradient=slopes.rsqrt)
sigmoid = unary("sigmoid", topi.sigmoid, "Take 1 / (1 + exp(-x)).", flops=_SEVERAL, gradient=slopes.sigmoid)
erf = unary("erf", topi.erf, "Take the error function.", flops=_SEVERAL, gradient=slopes.erf)
logical_not = unary("logical_not", topi.logical_not, "Tell where x is zero or false.", **_TELLS)
isfinite = unary("isfinite", topi.isfinite, "Tell where x is neither infinite nor NaN.", **_TELLS)
isinf = unary("isinf", topi.isinf, "Tell where x is infinite.", **_TELLS)
isnan = unary("isnan", topi.isnan, "Tell where x is not a number.", **_TELLS)


@operator(
    "relax.clip", infer=_ANY, te=lambda x, min, max: topi.clip(x, min, max), pattern=OpPatternKind.ELEMWISE,
    flops=per_output(2), layout=follows_first, gradient=slopes.clip,
)  # fmt: skip
def clip(x: TensorArg, min: ScalarArg, max: ScalarArg) -> Expr:
    """Limit elements to the range from `min` to `max`."""


__all__ = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "clip", "cos", "cosh", "erf", "exp", "floor",
    "isfinite", "isinf", "isnan", "log", "logical_not", "negative", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh",
    "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip
