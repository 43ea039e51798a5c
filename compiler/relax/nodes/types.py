"""Types without shapes, as older programs name them."""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.ir.base import Node, Span
from compiler.ir.printed import Printed
from compiler.ir.text import register_text
from compiler.relax.nodes.shape import check_ndim


class Type(Printed, Node):
    """Base of types. Equal when they say the same."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ObjectType(Type):
    """Any value."""

    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ShapeType(Type):
    """A shape of `ndim` dimensions, -1 where their number is unknown."""

    ndim: int = -1
    span: Span | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_ndim(self.ndim, "ShapeType")


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """A tensor of `ndim` dimensions (-1: unknown) with elements of `dtype`, of unknown shape."""

    ndim: int = -1
    dtype: str = "float32"
    span: Span | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        check_ndim(self.ndim, "TensorType")


@dataclass(frozen=True, slots=True)
class PackedFuncType(Type):
    """A function of the runtime."""

    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TupleType(Type):
    """Several values held together."""

    fields: tuple[Type, ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class PrimType(Type):
    """A scalar."""

    dtype: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FuncType(Type):
    """A function from `arg_types` to `ret_type`."""

    arg_types: tuple[Type, ...]
    ret_type: Type
    span: Span | None = field(default=None, compare=False)


def _tuple_text(type_: TupleType) -> str:
    return f"T.Tuple({', '.join(part.script() for part in type_.fields)})" if type_.fields else "None"


register_text(PrimType, lambda type_: f"T.{type_.dtype}")
register_text(TupleType, _tuple_text)
