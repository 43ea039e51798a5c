"""The Python operators of expressions. They build nodes through `compiler.tir.ops`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from compiler.errors import IRError

if TYPE_CHECKING:  # bound at run time by `install`
    from compiler.tir import ops as _ops
    from compiler.tir.intrin import intrin as _intrin
    from compiler.tir.nodes import PrimExpr


class ExprOps:
    """The arithmetic operators shared by expressions, iteration variables and tensor elements."""

    __slots__ = ()

    def __add__(self, other: object) -> PrimExpr:
        return _ops.add(self, other)

    def __radd__(self, other: object) -> PrimExpr:
        return _ops.add(other, self)

    def __sub__(self, other: object) -> PrimExpr:
        return _ops.sub(self, other)

    def __rsub__(self, other: object) -> PrimExpr:
        return _ops.sub(other, self)

    def __mul__(self, other: object) -> PrimExpr:
        return _ops.mul(self, other)

    def __rmul__(self, other: object) -> PrimExpr:
        return _ops.mul(other, self)

    def __truediv__(self, other: object) -> PrimExpr:
        return _ops.div(self, other)

    def __rtruediv__(self, other: object) -> PrimExpr:
        return _ops.div(other, self)

    def __floordiv__(self, other: object) -> PrimExpr:
        return _ops.floordiv(self, other)

    def __rfloordiv__(self, other: object) -> PrimExpr:
        return _ops.floordiv(other, self)

    def __mod__(self, other: object) -> PrimExpr:
        return _ops.floormod(self, other)

    def __rmod__(self, other: object) -> PrimExpr:
        return _ops.floormod(other, self)

    def __neg__(self) -> PrimExpr:
        return _ops.neg(self)

    def __lshift__(self, other: object) -> PrimExpr:
        return _intrin.left_shift(self, other)

    def __rshift__(self, other: object) -> PrimExpr:
        return _intrin.right_shift(self, other)

    def __and__(self, other: object) -> PrimExpr:
        return _intrin.bitwise_and(self, other)

    def __or__(self, other: object) -> PrimExpr:
        return _intrin.bitwise_or(self, other)

    def __xor__(self, other: object) -> PrimExpr:
        return _intrin.bitwise_xor(self, other)

    def __invert__(self) -> PrimExpr:
        return _intrin.bitwise_not(self)

    def __lt__(self, other: object) -> PrimExpr:
        return _ops.less(self, other)

    def __le__(self, other: object) -> PrimExpr:
        return _ops.less_equal(self, other)

    def __gt__(self, other: object) -> PrimExpr:
        return _ops.greater(self, other)

    def __ge__(self, other: object) -> PrimExpr:
        return _ops.greater_equal(self, other)

    def __eq__(self, other: object) -> PrimExpr:  # type: ignore[override]
        result: PrimExpr = _ops.equal(self, other)
        return result

    def __ne__(self, other: object) -> PrimExpr:  # type: ignore[override]
        result: PrimExpr = _ops.not_equal(self, other)
        return result

    __hash__ = object.__hash__

    def equal(self, other: object) -> PrimExpr:
        """Whether both have the same value, as an expression."""
        result: PrimExpr = _ops.equal(self, other)
        return result

    def __bool__(self) -> bool:
        raise IRError(
            "a symbolic expression has no truth value",
            hint="use tir.all, tir.any, tir.Select or if_then_else in place of and, or, not, if",
        )

    def astype(self, dtype: str) -> PrimExpr:
        """This value converted to `dtype`."""
        return _ops.cast(dtype, self)


def install(ops: Any, intrin: Any) -> None:
    """Bind the modules the operators build with; called by `compiler.tir.nodes` once its nodes exist."""
    globals().update(_ops=ops, _intrin=intrin)
