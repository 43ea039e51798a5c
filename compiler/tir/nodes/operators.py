"""The Python operators of expressions.

`compiler.tir.ops` and `compiler.tir.intrin`, which build the nodes, come after the nodes and register themselves
here with `operator`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from compiler.errors import IRError

if TYPE_CHECKING:
    from compiler.tir.nodes.base import PrimExpr

F = TypeVar("F", bound=Callable[..., Any])
_build: dict[str, Callable[..., PrimExpr]] = {}


def operator(build: F, name: str | None = None) -> F:
    """Decorate the function that builds the expression of the Python operator `name`.
    By default that is the function's own name."""
    _build[name or build.__name__] = build
    return build


class ExprOps:
    """The arithmetic operators shared by expressions, iteration variables and tensor elements."""

    __slots__ = ()

    def asobject(self) -> Any:
        """Return this expression. Programs for TVM call it to convert deferred comparisons."""
        return self

    def __add__(self, other: object) -> PrimExpr:
        return _build["add"](self, other)

    def __radd__(self, other: object) -> PrimExpr:
        return _build["add"](other, self)

    def __sub__(self, other: object) -> PrimExpr:
        return _build["sub"](self, other)

    def __rsub__(self, other: object) -> PrimExpr:
        return _build["sub"](other, self)

    def __mul__(self, other: object) -> PrimExpr:
        return _build["mul"](self, other)

    def __rmul__(self, other: object) -> PrimExpr:
        return _build["mul"](other, self)

    def __truediv__(self, other: object) -> PrimExpr:
        return _build["div"](self, other)

    def __rtruediv__(self, other: object) -> PrimExpr:
        return _build["div"](other, self)

    def __floordiv__(self, other: object) -> PrimExpr:
        return _build["floordiv"](self, other)

    def __rfloordiv__(self, other: object) -> PrimExpr:
        return _build["floordiv"](other, self)

    def __mod__(self, other: object) -> PrimExpr:
        return _build["floormod"](self, other)

    def __rmod__(self, other: object) -> PrimExpr:
        return _build["floormod"](other, self)

    def __neg__(self) -> PrimExpr:
        return _build["neg"](self)

    def __lshift__(self, other: object) -> PrimExpr:
        return _build["left_shift"](self, other)

    def __rshift__(self, other: object) -> PrimExpr:
        return _build["right_shift"](self, other)

    def __and__(self, other: object) -> PrimExpr:
        return _build["bitwise_and"](self, other)

    def __or__(self, other: object) -> PrimExpr:
        return _build["bitwise_or"](self, other)

    def __xor__(self, other: object) -> PrimExpr:
        return _build["bitwise_xor"](self, other)

    def __rlshift__(self, other: object) -> PrimExpr:
        return _build["left_shift"](other, self)

    def __rrshift__(self, other: object) -> PrimExpr:
        return _build["right_shift"](other, self)

    def __rand__(self, other: object) -> PrimExpr:
        return _build["bitwise_and"](other, self)

    def __ror__(self, other: object) -> PrimExpr:
        return _build["bitwise_or"](other, self)

    def __rxor__(self, other: object) -> PrimExpr:
        return _build["bitwise_xor"](other, self)

    def __invert__(self) -> PrimExpr:
        return _build["bitwise_not"](self)

    def __lt__(self, other: object) -> PrimExpr:
        return _build["less"](self, other)

    def __le__(self, other: object) -> PrimExpr:
        return _build["less_equal"](self, other)

    def __gt__(self, other: object) -> PrimExpr:
        return _build["greater"](self, other)

    def __ge__(self, other: object) -> PrimExpr:
        return _build["greater_equal"](self, other)

    def __eq__(self, other: object) -> PrimExpr:  # type: ignore[override]
        result: PrimExpr = _build["equal"](self, other)
        return result

    def __ne__(self, other: object) -> PrimExpr:  # type: ignore[override]
        result: PrimExpr = _build["not_equal"](self, other)
        return result

    __hash__ = object.__hash__

    def equal(self, other: object) -> PrimExpr:
        """Whether both have the same value, as an expression."""
        result: PrimExpr = _build["equal"](self, other)
        return result

    def __bool__(self) -> bool:
        raise IRError(
            "a symbolic expression has no truth value",
            hint="use tir.all, tir.any, tir.Select or if_then_else in place of and, or, not, if",
        )

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to `dtype`."""
        return _build["cast"](dtype, self)
