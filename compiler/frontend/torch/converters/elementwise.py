"""Arithmetic, element by element.

Of one tensor, and of two with broadcasting and torch's rules of types.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from compiler import topi
from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.dtypes import DTYPES, dtype_name, is_float
from compiler.frontend.torch.table import converts
from compiler.relax import op

# ------------------------------------------------------------------------------------ one tensor

_FLOATING = {
    "acos": op.acos, "acosh": op.acosh, "asin": op.asin, "asinh": op.asinh, "atan": op.atan, "atanh": op.atanh,
    "cos": op.cos, "cosh": op.cosh, "sin": op.sin, "sinh": op.sinh, "tan": op.tan, "tanh": op.tanh, "exp": op.exp,
    "log": op.log, "sqrt": op.sqrt, "rsqrt": op.rsqrt, "sigmoid": op.sigmoid, "erf": op.erf, "special_erf": op.erf,
}  # fmt: skip
_KEEPING = {
    "abs": op.abs, "neg": op.negative, "square": op.square, "sign": op.sign, "sgn": op.sign,
}  # fmt: skip
_ROUNDING = {"ceil": op.ceil, "floor": op.floor, "round": op.round, "trunc": op.trunc, "fix": op.trunc}


def _of_floats(name: str, make: Callable[..., Any]) -> None:
    @converts(f"aten.{name}.default")
    def converter(c: Conversion, self: Any) -> Any:
        return make(c.floating(self))


def _of_any(name: str, make: Callable[..., Any]) -> None:
    @converts(f"aten.{name}.default")
    def converter(c: Conversion, self: Any) -> Any:
        return make(self)


def _rounding(name: str, make: Callable[..., Any]) -> None:
    @converts(f"aten.{name}.default")
    def converter(c: Conversion, self: Any) -> Any:
        return make(self) if is_float(c.dtype(self)) else self


for _name, _make in _FLOATING.items():
    _of_floats(_name, _make)
for _name, _make in _KEEPING.items():
    _of_any(_name, _make)
for _name, _make in _ROUNDING.items():
    _rounding(_name, _make)


def number(c: Conversion, value: float, like: Any) -> Any:
    """A number as a tensor of the type of `like`."""
    return c.tensor(value, c.dtype(like))


@converts("aten.round.decimals")
def round_decimals(c: Conversion, self: Any, decimals: Any) -> Any:
    scale = number(c, float(10**decimals), self)
    return op.divide(op.round(op.multiply(self, scale)), scale)


@converts("aten.reciprocal.default")
def reciprocal(c: Conversion, self: Any) -> Any:
    x = c.floating(self)
    return op.divide(number(c, 1.0, x), x)


@converts("aten.exp2.default", "aten.special_exp2.default")
def exp2(c: Conversion, self: Any) -> Any:
    x = c.floating(self)
    return op.exp(op.multiply(x, number(c, math.log(2.0), x)))


@converts("aten.log2.default")
def log2(c: Conversion, self: Any) -> Any:
    x = c.floating(self)
    return op.multiply(op.log(x), number(c, 1 / math.log(2.0), x))


@converts("aten.log10.default")
def log10(c: Conversion, self: Any) -> Any:
    x = c.floating(self)
    return op.multiply(op.log(x), number(c, 1 / math.log(10.0), x))


@converts("aten.log1p.default", "aten.special_log1p.default")
def log1p(c: Conversion, self: Any) -> Any:
    return c.builder.call_te(topi.log1p, c.floating(self))


@converts("aten.expm1.default", "aten.special_expm1.default")
def expm1(c: Conversion, self: Any) -> Any:
    """Compute exp(x) - 1. Near 0 the difference loses digits, so it is 2 t / (1 - t) with t = tanh(x / 2)."""
    x = c.floating(self)
    half = c.emit(op.tanh(op.multiply(x, number(c, 0.5, x))))
    near = op.divide(op.multiply(half, number(c, 2.0, x)), op.subtract(number(c, 1.0, x), half))
    is_near = op.less(op.abs(x), number(c, 0.5, x))
    return op.where(is_near, near, op.subtract(op.exp(x), number(c, 1.0, x)))


@converts("aten.erfc.default", "aten.special_erfc.default")
def erfc(c: Conversion, self: Any) -> Any:
    x = c.floating(self)
    return op.subtract(number(c, 1.0, x), op.erf(x))


@converts("aten.frac.default")
def frac(c: Conversion, self: Any) -> Any:
    return op.subtract(self, op.trunc(self))


@converts("aten.deg2rad.default")
def deg2rad(c: Conversion, self: Any) -> Any:
    x = c.floating(self)
    return op.multiply(x, number(c, math.pi / 180.0, x))


@converts("aten.rad2deg.default")
def rad2deg(c: Conversion, self: Any) -> Any:
    x = c.floating(self)
    return op.multiply(x, number(c, 180.0 / math.pi, x))


@converts("aten.positive.default", "aten.real.default", "aten.conj.default", "aten.resolve_conj.default",
          "aten.resolve_neg.default")  # fmt: skip
def itself(c: Conversion, self: Any) -> Any:
    return self


@converts("aten.nan_to_num.default")
def nan_to_num(c: Conversion, self: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    dtype = c.dtype(self)
    if not is_float(dtype):
        return self
    largest = _largest(dtype)
    x = op.where(op.isnan(self), number(c, 0.0 if nan is None else nan, self), self)
    x = c.emit(x)
    x = op.where(op.greater(x, number(c, largest, self)), number(c, largest if posinf is None else posinf, self), x)
    x = c.emit(x)
    return op.where(op.less(x, number(c, -largest, self)), number(c, -largest if neginf is None else neginf, self), x)


def _largest(dtype: str) -> float:
    return float(torch.finfo(DTYPES[dtype]).max)


# ----------------------------------------------------------------------------------- two tensors


def _scaled(c: Conversion, value: Any, alpha: Any, dtype: str) -> Any:
    """`value` times `alpha`, which is 1 as a rule."""
    made = c.tensor(value, dtype)
    if isinstance(alpha, int | float) and alpha == 1:
        return made
    return op.multiply(made, c.tensor(alpha, dtype))


@converts("aten.add.Tensor", "aten.add.Scalar")
def add(c: Conversion, self: Any, other: Any, alpha: Any) -> Any:
    dtype = c.common_dtype(self, other)
    if dtype == "bool":
        return op.logical_or(c.tensor(self, dtype), c.tensor(other, dtype))
    return op.add(c.tensor(self, dtype), _scaled(c, other, alpha, dtype))


@converts("aten.sub.Tensor", "aten.sub.Scalar", "aten.subtract.Tensor", "aten.subtract.Scalar")
def sub(c: Conversion, self: Any, other: Any, alpha: Any) -> Any:
    dtype = c.common_dtype(self, other)
    return op.subtract(c.tensor(self, dtype), _scaled(c, other, alpha, dtype))


@converts("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(c: Conversion, self: Any, other: Any, alpha: Any) -> Any:
    dtype = c.common_dtype(self, other)
    return op.subtract(c.tensor(other, dtype), _scaled(c, self, alpha, dtype))


@converts("aten.mul.Tensor", "aten.mul.Scalar", "aten.multiply.Tensor", "aten.multiply.Scalar")
def mul(c: Conversion, self: Any, other: Any) -> Any:
    a, b = c.alike(self, other)
    return op.logical_and(a, b) if c.dtype(a) == "bool" else op.multiply(a, b)


@converts("aten.div.Tensor", "aten.div.Scalar", "aten.divide.Tensor", "aten.divide.Scalar", "aten.true_divide.Tensor",
          "aten.true_divide.Scalar")  # fmt: skip
def div(c: Conversion, self: Any, other: Any) -> Any:
    a, b = c.alike(self, other)
    return op.divide(c.floating(a), c.floating(b))


@converts("aten.div.Tensor_mode", "aten.div.Scalar_mode", "aten.divide.Tensor_mode", "aten.divide.Scalar_mode")
def div_mode(c: Conversion, self: Any, other: Any, rounding_mode: Any) -> Any:
    if rounding_mode is None:
        return div(c, self, other)
    a, b = c.alike(self, other)
    if rounding_mode == "floor":
        return op.floor_divide(a, b)
    if is_float(c.dtype(a)):
        return op.trunc(op.divide(a, b))
    exact = c.emit(op.floor_divide(a, b))
    rest = op.not_equal(op.multiply(exact, b), a)
    apart = op.less(exact, c.tensor(0, c.dtype(a)))
    return op.where(op.logical_and(rest, apart), op.add(exact, c.tensor(1, c.dtype(a))), exact)


@converts("aten.floor_divide.default", "aten.floor_divide.Scalar")
def floor_divide(c: Conversion, self: Any, other: Any) -> Any:
    return op.floor_divide(*c.alike(self, other))


@converts("aten.remainder.Tensor", "aten.remainder.Scalar", "aten.remainder.Scalar_Tensor")
def remainder(c: Conversion, self: Any, other: Any) -> Any:
    return op.floor_mod(*c.alike(self, other))


@converts("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(c: Conversion, self: Any, other: Any) -> Any:
    a, b = c.alike(self, other)
    if is_float(c.dtype(a)):
        return c.builder.call_te(topi.fmod, a, b)
    rest = c.emit(op.floor_mod(a, b))
    zero = c.tensor(0, c.dtype(a))
    other_side = op.logical_and(op.not_equal(rest, zero), op.less(op.multiply(a, b), zero))
    return op.where(other_side, op.subtract(rest, b), rest)


@converts("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def power(c: Conversion, self: Any, exponent: Any) -> Any:
    a, b = c.alike(self, exponent)
    match exponent:
        case 0.5:
            return op.sqrt(a)
        case -0.5:
            return op.rsqrt(a)
        case 1 | 1.0:
            return a
        case 2 | 2.0:
            return op.multiply(a, a)
        case 3 | 3.0:
            return op.multiply(op.multiply(a, a), a)
        case -1 | -1.0 if is_float(c.dtype(a)):
            return op.divide(number(c, 1.0, a), a)
    if is_float(c.dtype(a)) and _whole(exponent):
        return _signed_power(c, a, b, int(exponent))
    if not is_float(c.dtype(a)) and isinstance(exponent, int) and 0 <= exponent <= 16:
        result = a
        for _ in range(exponent - 1):
            result = op.multiply(result, a)
        return result if exponent else c.emit(op.ones_like(a))
    return op.power(a, b)


def _whole(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and float(value).is_integer()


def _signed_power(c: Conversion, a: Any, b: Any, exponent: int) -> Any:
    """Raise to a whole power, of negative numbers too.
    It is the magnitude's power, with the sign if the exponent is odd."""
    magnitude = op.power(op.abs(a), b)
    if exponent % 2 == 0:
        return magnitude
    return op.where(op.less(a, number(c, 0.0, a)), op.negative(magnitude), magnitude)


@converts("aten.maximum.default", "aten.max.other")
def maximum(c: Conversion, self: Any, other: Any) -> Any:
    return op.maximum(*c.alike(self, other))


@converts("aten.minimum.default", "aten.min.other")
def minimum(c: Conversion, self: Any, other: Any) -> Any:
    return op.minimum(*c.alike(self, other))


@converts("aten.atan2.default", "aten.arctan2.default")
def atan2(c: Conversion, self: Any, other: Any) -> Any:
    a, b = c.alike(self, other)
    return c.builder.call_te(topi.atan2, c.floating(a), c.floating(b))


@converts("aten.hypot.default")
def hypot(c: Conversion, self: Any, other: Any) -> Any:
    a, b = c.alike(self, other)
    return op.sqrt(op.add(op.multiply(a, a), op.multiply(b, b)))


@converts("aten.logaddexp.default")
def logaddexp(c: Conversion, self: Any, other: Any) -> Any:
    return op.log_add_exp(*c.alike(self, other))


_BITS = {
    "bitwise_and": (op.bitwise_and, op.logical_and), "bitwise_or": (op.bitwise_or, op.logical_or),
    "bitwise_xor": (op.bitwise_xor, op.logical_xor), "__and__": (op.bitwise_and, op.logical_and),
    "__or__": (op.bitwise_or, op.logical_or), "__xor__": (op.bitwise_xor, op.logical_xor),
    "bitwise_left_shift": (op.left_shift, op.left_shift), "__lshift__": (op.left_shift, op.left_shift),
    "bitwise_right_shift": (op.right_shift, op.right_shift), "__rshift__": (op.right_shift, op.right_shift),
}  # fmt: skip


def _bits(name: str, of_integers: Callable[..., Any], of_bools: Callable[..., Any]) -> None:
    overloads = ["Tensor", "Scalar"] if name.startswith("__") else ["Tensor", "Tensor_Scalar", "Scalar_Tensor"]
    if name.startswith("bitwise") and not name.endswith("shift"):
        overloads = ["Tensor", "Scalar", "Scalar_Tensor"]

    @converts(*(f"aten.{name}.{overload}" for overload in overloads))
    def converter(c: Conversion, self: Any, other: Any) -> Any:
        a, b = c.alike(self, other)
        return (of_bools if c.dtype(a) == "bool" else of_integers)(a, b)


for _name, _pair in _BITS.items():
    _bits(_name, *_pair)


@converts("aten.bitwise_not.default")
def bitwise_not(c: Conversion, self: Any) -> Any:
    return op.logical_not(self) if c.dtype(self) == "bool" else op.bitwise_not(self)


# --------------------------------------------------------------------------------- three tensors


@converts("aten.clamp.default", "aten.clip.default", "aten.clamp.Tensor", "aten.clip.Tensor")
def clamp(c: Conversion, self: Any, min: Any, max: Any) -> Any:
    dtype = c.common_dtype(*(value for value in (self, min, max) if value is not None))
    x = c.tensor(self, dtype)
    if min is not None:
        x = c.emit(op.maximum(x, c.tensor(min, dtype)))
    return x if max is None else op.minimum(x, c.tensor(max, dtype))


@converts("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(c: Conversion, self: Any, min: Any) -> Any:
    return clamp(c, self, min, None)


@converts("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(c: Conversion, self: Any, max: Any) -> Any:
    return clamp(c, self, None, max)


@converts("aten.addcmul.default")
def addcmul(c: Conversion, self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    x, a, b = c.alike(self, tensor1, tensor2)
    return op.add(x, _scaled(c, c.emit(op.multiply(a, b)), value, c.dtype(x)))


@converts("aten.addcdiv.default")
def addcdiv(c: Conversion, self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
    x, a, b = c.alike(self, tensor1, tensor2)
    return op.add(x, _scaled(c, c.emit(op.divide(a, b)), value, c.dtype(x)))


@converts("aten.lerp.Scalar", "aten.lerp.Tensor")
def lerp(c: Conversion, self: Any, end: Any, weight: Any) -> Any:
    a, b, t = c.alike(self, end, weight)
    return op.add(a, op.multiply(t, op.subtract(b, a)))


# ---------------------------------------------------------------------------------------- types


@converts("aten.to.dtype", "aten._to_copy.default", "aten.to.dtype_layout", "aten.to.device", "aten.to.other",
          "prims.convert_element_type.default")  # fmt: skip
def to_dtype(c: Conversion, self: Any) -> Any:
    return c.cast(self, c.out_dtype())


@converts("aten.type_as.default")
def type_as(c: Conversion, self: Any, other: Any) -> Any:
    return c.cast(self, c.dtype(other))


@converts("aten.to.prim_Device", "aten.to.prim_dtype")
def to_prim(c: Conversion, self: Any) -> Any:
    return c.cast(self, c.out_dtype())


def dtype_or(dtype: Any, default: str) -> str:
    """The name of a type that may be left out."""
    return default if dtype is None else dtype_name(dtype)
