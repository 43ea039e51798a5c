"""The arithmetic operators of whole tensors: `A + B` is topi's broadcasting add."""

from __future__ import annotations

from typing import Any

from compiler.tir import ops


class TensorOps:
    """Mixin of `Tensor`. A tensor without dimensions beside an expression is that element."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _apply("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return _apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _apply("floor_divide", self, other)

    def __mod__(self, other: Any) -> Any:
        return _apply("floor_mod", self, other)

    def __neg__(self) -> Any:
        return _apply("multiply", self, -1)


def _apply(name: str, lhs: Any, rhs: Any) -> Any:
    from compiler.topi import broadcast  # topi is written in te

    alone = not (isinstance(lhs, TensorOps) and isinstance(rhs, TensorOps))
    if alone and all(getattr(side, "ndim", 0) == 0 for side in (lhs, rhs)):
        lhs, rhs = ops.as_expr(lhs), ops.as_expr(rhs)
    return getattr(broadcast, name)(lhs, rhs)
