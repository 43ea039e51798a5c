"""The arithmetic operators of whole tensors: `A + B` is the broadcasting add.

`compiler.te.broadcast`, which builds the results, comes after tensors and registers itself here with `operator`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from compiler.errors import IRError
from compiler.tir import ops

F = TypeVar("F", bound=Callable[[Any, Any], Any])
_build: dict[str, Callable[[Any, Any], Any]] = {}


def operator(build: F) -> F:
    """Decorate the function that builds the result of the Python operator of the same name."""
    _build[build.__name__] = build
    return build


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

    def __lt__(self, other: Any) -> NoReturn:
        _incomparable("<")

    def __le__(self, other: Any) -> NoReturn:
        _incomparable("<=")

    def __gt__(self, other: Any) -> NoReturn:
        _incomparable(">")

    def __ge__(self, other: Any) -> NoReturn:
        _incomparable(">=")


def _incomparable(sign: str) -> NoReturn:
    hint = f"compare elements: te.compute(A.shape, lambda *i: A(*i) {sign} B(*i))"
    raise IRError(f"a whole tensor cannot be compared with {sign}", hint=hint)


def _apply(name: str, lhs: Any, rhs: Any) -> Any:
    alone = not (isinstance(lhs, TensorOps) and isinstance(rhs, TensorOps))
    if alone and all(getattr(side, "ndim", 0) == 0 for side in (lhs, rhs)):
        lhs, rhs = ops.as_expr(lhs), ops.as_expr(rhs)
    return _build[name](lhs, rhs)
