"""The bases of IR nodes: expressions and statements."""

from __future__ import annotations

from compiler.ir import text
from compiler.ir.base import Node
from compiler.ir.printed import Printed
from compiler.tir.nodes.operators import ExprOps


class PrimExpr(ExprOps, Printed, Node):
    """Base of scalar (or vector) expressions. `dtype` is a string such as "float32x8"."""

    __slots__ = ()
    dtype: str

    def __repr__(self) -> str:
        return text.script(self)


class Stmt(Printed, Node):
    """Base of statements."""

    __slots__ = ()

    def __repr__(self) -> str:
        return text.script(self)


def set_fields(node: object, **values: object) -> None:
    """Fill fields of a frozen node while it is made."""
    for name, value in values.items():
        object.__setattr__(node, name, value)
