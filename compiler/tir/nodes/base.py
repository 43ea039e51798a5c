"""The bases of IR nodes: expressions and statements, and how they come to their text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.tir.operators import ExprOps


class PrimExpr(ExprOps, Node):
    """Base of scalar (or vector) expressions. `dtype` is a string such as "float32x8"."""

    __slots__ = ()
    dtype: str

    def __repr__(self) -> str:
        return text_of(self)


class Stmt(Node):
    """Base of statements."""

    __slots__ = ()

    def __repr__(self) -> str:
        return text_of(self)


def set_fields(node: object, **values: object) -> None:
    """Fill fields of a frozen node while it is made."""
    for name, value in values.items():
        object.__setattr__(node, name, value)


def to_exprs(node: object, *fields: str) -> None:
    """Numbers given for the named fields, as expressions."""
    for name in fields:
        value = getattr(node, name)
        if not isinstance(value, PrimExpr):
            object.__setattr__(node, name, as_expr(value))


def to_tuples(node: object, *fields: str) -> None:
    """Sequences of numbers and expressions given for the named fields, as tuples of expressions."""
    for name in fields:
        value = getattr(node, name)
        if type(value) is not tuple or not all(isinstance(item, PrimExpr) for item in value):
            object.__setattr__(node, name, as_exprs(value))


def as_expr(value: Any) -> PrimExpr:
    from compiler.tir.ops import as_expr as convert  # it builds the nodes, so they come first

    return convert(value)


def as_exprs(values: Any) -> tuple[PrimExpr, ...]:
    items: Sequence[Any] = values if isinstance(values, tuple | list) else (values,)
    return tuple(map(as_expr, items))


def number_as(value: Any, dtype: str, what: str) -> PrimExpr:
    """A number, or integer constant, as a constant of `dtype`. Raises IRError, naming `what`, where it does not fit."""
    from compiler.tir.ops import as_expr as convert
    from compiler.tir.ops import cast

    given = convert(value)
    if dtype != given.dtype and (("float" in given.dtype and "float" not in dtype) or not hasattr(given, "value")):
        raise IRError(f"{what} takes {dtype}, got {given!r} of {given.dtype}", hint=f'convert it: .astype("{dtype}")')
    return cast(dtype, given)


def match_types(a: Any, b: Any) -> tuple[PrimExpr, PrimExpr]:
    from compiler.tir.ops import match_types as matched

    return matched(a, b)


def text_of(node: Node) -> str:
    """The node as TVMScript text."""
    from compiler.tir.text.printer import script

    return script(node)
