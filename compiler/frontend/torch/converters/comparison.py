"""Comparisons, logic, and choices between tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.frontend.torch.conversion import Conversion
from compiler.frontend.torch.dtypes import is_float
from compiler.frontend.torch.table import converts
from compiler.relax import op

_COMPARISONS = {
    "eq": op.equal, "ne": op.not_equal, "lt": op.less, "le": op.less_equal, "gt": op.greater, "ge": op.greater_equal,
    "not_equal": op.not_equal, "less": op.less, "less_equal": op.less_equal, "greater": op.greater,
    "greater_equal": op.greater_equal,
}  # fmt: skip
_LOGIC = {"logical_and": op.logical_and, "logical_or": op.logical_or, "logical_xor": op.logical_xor}
_TESTS = {"isnan": op.isnan, "isinf": op.isinf, "isfinite": op.isfinite}


def _comparison(name: str, make: Callable[..., Any]) -> None:
    @converts(f"aten.{name}.Tensor", f"aten.{name}.Scalar")
    def converter(c: Conversion, self: Any, other: Any) -> Any:
        a, b = c.alike(self, other)
        if c.dtype(a) == "bool":
            a, b = c.cast(a, "int8"), c.cast(b, "int8")
        return make(a, b)


def _logic(name: str, make: Callable[..., Any]) -> None:
    @converts(f"aten.{name}.default")
    def converter(c: Conversion, self: Any, other: Any) -> Any:
        return make(truth(c, self), truth(c, other))


def _test(name: str, make: Callable[..., Any]) -> None:
    @converts(f"aten.{name}.default")
    def converter(c: Conversion, self: Any) -> Any:
        return make(c.floating(self))


for _name, _make in _COMPARISONS.items():
    _comparison(_name, _make)
for _name, _make in _LOGIC.items():
    _logic(_name, _make)
for _name, _make_test in _TESTS.items():
    _test(_name, _make_test)


def truth(c: Conversion, value: Any) -> Any:
    """A tensor as truth values: what is not 0 is true."""
    dtype = c.dtype(value)
    return value if dtype == "bool" else c.emit(op.not_equal(value, c.tensor(0, dtype)))


@converts("aten.logical_not.default")
def logical_not(c: Conversion, self: Any) -> Any:
    return op.logical_not(truth(c, self))


@converts("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(c: Conversion, condition: Any, self: Any, other: Any) -> Any:
    a, b = c.alike(self, other)
    return op.where(truth(c, condition), a, b)


@converts("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(c: Conversion, self: Any, mask: Any, value: Any) -> Any:
    return op.where(truth(c, mask), c.tensor(value, c.dtype(self)), self)


@converts("aten.isclose.default")
def isclose(c: Conversion, self: Any, other: Any, rtol: Any, atol: Any) -> Any:
    a, b = c.alike(self, other)
    if not is_float(c.dtype(a)):
        return op.equal(a, b)
    dtype = c.dtype(a)
    limit = op.add(c.tensor(float(atol), dtype), op.multiply(c.tensor(float(rtol), dtype), op.abs(b)))
    return op.less_equal(op.abs(op.subtract(a, b)), limit)
