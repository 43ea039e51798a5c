"""Leaves of expressions, ranges, and iteration variables with the kinds of loops over them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, ClassVar

from compiler.dtype import parse_dtype
from compiler.errors import IRError
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

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not isinstance(self.dtype, str):
            raise IRError(f"a variable has a name and a dtype, got {self.name!r} and {self.dtype!r}")

    def traits(self) -> tuple[str, ...]:
        return (self.dtype,)


class SizeVar(Var):
    """A variable known to be at least 0, such as a symbolic dimension."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntImm(PrimExpr):
    """An integer constant.
    Raises IRError for a dtype that is no integer's, and for a value that it does not hold."""

    dtype: str
    value: int
    span: Span | None = None

    def __post_init__(self) -> None:
        value = self.value
        if type(value) is int and -(1 << 31) <= value < 1 << 31 and self.dtype in ("int32", "int64"):
            return
        parsed = parse_dtype(self.dtype)
        if parsed.code not in ("int", "uint", "bool") or parsed.lanes != 1:
            raise IRError(f"an integer constant of {self.dtype}", hint="tir.const makes constants of any dtype")
        if not hasattr(value, "__index__"):
            raise IRError(f"an integer constant has an integer value, not {value!r}")
        bits = 1 if parsed.code == "bool" else parsed.bits - parsed.is_signed
        if not -(1 << bits if parsed.is_signed else 0) <= value < 1 << bits:
            raise IRError(f"{value} exceeds the range of {self.dtype}")
        if type(value) is not int:
            set_fields(self, value=value.__index__())

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)


_set_dtype, _set_value, _set_span = (vars(IntImm)[name].__set__ for name in IntImm.__dataclass_fields__)


def unchecked_int(dtype: str, value: int) -> IntImm:
    """Return `IntImm(dtype, value)` for a value known to fit.
    It checks nothing, and takes a third of the time."""
    node: IntImm = object.__new__(IntImm)
    _set_dtype(node, dtype)
    _set_value(node, value)
    _set_span(node, None)
    return node


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FloatImm(PrimExpr):
    dtype: str
    value: float
    span: Span | None = None

    def __post_init__(self) -> None:
        parsed = parse_dtype(self.dtype)
        if not parsed.is_float or parsed.lanes != 1:
            raise IRError(f"a float constant of {self.dtype}", hint="tir.const makes constants of any dtype")
        if type(self.value) is not float:  # an int would be printed, and compared, as one
            object.__setattr__(self, "value", float(self.value))

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class StringImm(PrimExpr):
    value: str
    span: Span | None = None
    dtype: str = field(default="handle", init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):
            raise IRError(f"a StringImm holds a text, not {self.value!r}")

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str | StringImm):
            return self.value == str(getattr(other, "value", other))
        return PrimExpr.__eq__(self, other)

    __hash__ = PrimExpr.__hash__


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

    @classmethod
    def _missing_(cls, value: object) -> ForKind | None:
        """Return the kind of a number."""
        known = list(cls)
        return known[value] if isinstance(value, int) and 0 <= value < len(known) else None


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


def _iter_type(given: object) -> IterType:
    try:
        return IterType(given)  # type: ignore[arg-type]
    except ValueError:
        known = ", ".join(f"{int(kind)} ({kind.name})" for kind in IterType)
        raise IRError(f"there is no kind {given!r} of iteration variables", hint=f"the kinds are {known}") from None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IterVar(ExprOps, Printed, Node):
    """An iteration variable with its domain. `dom` is None where it follows from other axes.

    A pair of numbers stands for the domain from the first up to the second. A name stands for a variable of that
    name.
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
        if type(self.iter_type) is not IterType:
            set_fields(self, iter_type=_iter_type(self.iter_type))
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
