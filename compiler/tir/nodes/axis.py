"""Leaves of expressions, ranges, and iteration variables with the kinds of loops over them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import ClassVar

from compiler.ir.base import Node, Span, Symbol
from compiler.ir.printed import Printed
from compiler.tir.nodes.base import PrimExpr, set_fields
from compiler.tir.nodes.operators import ExprOps


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Var(PrimExpr, Symbol):
    """A variable; two variables are the same only if they are the same object."""

    name: str
    dtype: str = "int32"
    span: Span | None = None

    def traits(self) -> tuple[str, ...]:
        return (self.dtype,)


class SizeVar(Var):
    """A variable known to be at least 0, such as a symbolic dimension."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntImm(PrimExpr):
    dtype: str
    value: int
    span: Span | None = None

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatImm(PrimExpr):
    dtype: str
    value: float
    span: Span | None = None

    def __post_init__(self) -> None:
        if type(self.value) is not float:  # an int would be printed, and compared, as one
            object.__setattr__(self, "value", float(self.value))

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StringImm(PrimExpr):
    value: str
    span: Span | None = None
    dtype: str = field(default="handle", init=False)


def same_constant(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether both are the same number of the same dtype."""
    return (
        isinstance(a, IntImm | FloatImm)
        and type(a) is type(b)
        and a.dtype == b.dtype
        and a.value == getattr(b, "value", None)
    )


@dataclass(frozen=True, slots=True)
class Range(Printed, Node):
    """The half-open interval [min, min + extent)."""

    CHILDREN = ("min", "extent")
    CARRIER = True

    min: PrimExpr
    extent: PrimExpr
    span: Span | None = None

    @staticmethod
    def from_extent(extent: int | PrimExpr, dtype: str = "int32") -> Range:
        value = IntImm(dtype, extent) if isinstance(extent, int) else extent
        return Range(IntImm(value.dtype, 0), value)


class ForKind(enum.Enum):
    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unroll"
    THREAD_BINDING = "thread_binding"

    def __int__(self) -> int:
        """The field's number."""
        return list(ForKind).index(self)


class IterType(enum.IntEnum):
    """How an iteration variable may be ordered; the numbers are TVM's."""

    DATA_PAR = 0
    THREAD_INDEX = 1
    COMM_REDUCE = 2
    ORDERED = 3
    OPAQUE = 4
    UNROLLED = 5
    VECTORIZED = 6
    PARALLELIZED = 7
    TENSORIZED = 8

    @property
    def for_kind(self) -> ForKind:
        """The kind of a loop over such an axis."""
        return _KIND_OF_LOOP.get(self, ForKind.SERIAL)


_KIND_OF_LOOP = {
    IterType.THREAD_INDEX: ForKind.THREAD_BINDING,
    IterType.UNROLLED: ForKind.UNROLLED,
    IterType.VECTORIZED: ForKind.VECTORIZED,
    IterType.PARALLELIZED: ForKind.PARALLEL,
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IterVar(ExprOps, Printed, Node):
    """An iteration variable with its domain. `dom` is None where it follows from other axes.

    A pair of numbers stands for the domain from the first up to the second, a name for a variable of that name.
    """

    CHILDREN = ("dom",)
    CARRIER = True
    DataPar: ClassVar[IterType] = IterType.DATA_PAR
    ThreadIndex: ClassVar[IterType] = IterType.THREAD_INDEX
    CommReduce: ClassVar[IterType] = IterType.COMM_REDUCE
    Ordered: ClassVar[IterType] = IterType.ORDERED
    Opaque: ClassVar[IterType] = IterType.OPAQUE
    Unrolled: ClassVar[IterType] = IterType.UNROLLED
    Vectorized: ClassVar[IterType] = IterType.VECTORIZED
    Parallelized: ClassVar[IterType] = IterType.PARALLELIZED
    Tensorized: ClassVar[IterType] = IterType.TENSORIZED

    dom: Range | None
    var: Var
    iter_type: IterType = IterType.DATA_PAR
    thread_tag: str = ""
    span: Span | None = None

    def __post_init__(self) -> None:
        if isinstance(self.var, str):
            set_fields(self, var=Var(self.var))
        if isinstance(self.dom, tuple | list):
            low, end = self.dom
            set_fields(self, dom=Range(IntImm("int32", low), IntImm("int32", end - low)))

    @property
    def dtype(self) -> str:
        return self.var.dtype

    @property
    def for_type(self) -> ForKind:
        """The kind of a loop over the axis."""
        return self.iter_type.for_kind

    def asexpr(self) -> PrimExpr:
        return self.var

    def __repr__(self) -> str:
        return f"IterVar({self.var.name}, {self.iter_type.name})"
