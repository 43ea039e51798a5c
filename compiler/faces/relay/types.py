"""Types of the values of Relay programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any as AnyValue

from compiler.errors import IRError
from compiler.ir.base import Node
from compiler.relax import nodes as r
from compiler.tir.nodes import IntImm, PrimExpr, Var


class Any:
    """A size that is known only when the program runs. Each use is a size of its own."""

    def __repr__(self) -> str:
        return "?"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Any)

    def __hash__(self) -> int:
        return hash(Any)


class Type(Node):
    """Base of types."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TensorType(Type):
    """A tensor of `shape`, whose sizes are ints, sizes of TensorIR, or `Any()`."""

    shape: tuple[AnyValue, ...]
    dtype: str = "float32"

    def __post_init__(self) -> None:
        sizes = self.shape if isinstance(self.shape, list | tuple) else (self.shape,)
        object.__setattr__(self, "shape", tuple(map(_size, sizes)))

    @property
    def concrete_shape(self) -> tuple[int, ...]:
        """The shape as ints. Raises TypeError where a size is not known."""
        if not all(isinstance(size, IntImm) for size in self.shape):
            raise TypeError(f"the shape of {self} has sizes that are not known")
        return tuple(int(size) for size in self.shape)

    def __repr__(self) -> str:
        if not self.shape:
            return self.dtype
        inner = ", ".join(str(int(s)) if isinstance(s, IntImm) else str(s) for s in self.shape)
        return f"Tensor[({inner}{',' if len(self.shape) == 1 else ''}), {self.dtype}]"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TupleType(Type):
    """Several values held together."""

    fields: tuple[Type, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))

    def __repr__(self) -> str:
        return f"({', '.join(map(repr, self.fields))}{',' if len(self.fields) == 1 else ''})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TypeVar(Type):
    """A type that a function leaves open."""

    name_hint: str
    kind: int = 0

    def __repr__(self) -> str:
        return self.name_hint


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FuncType(Type):
    """A function."""

    arg_types: tuple[Type, ...]
    ret_type: Type
    type_params: tuple[TypeVar, ...] = ()
    type_constraints: tuple[AnyValue, ...] = ()

    def __post_init__(self) -> None:
        for name in ("arg_types", "type_params", "type_constraints"):
            object.__setattr__(self, name, tuple(getattr(self, name) or ()))

    def __repr__(self) -> str:
        return f"fn ({', '.join(map(repr, self.arg_types))}) -> {self.ret_type!r}"


def scalar_type(dtype: str) -> TensorType:
    """The type of a scalar."""
    return TensorType((), dtype)


def _size(value: AnyValue) -> AnyValue:
    if isinstance(value, Any | PrimExpr):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise IRError(f"a size of a type is {value!r}", hint="sizes are ints, tir.Var or relay.Any()")
    return IntImm("int32", int(value))


def struct_info(kind: Type) -> r.StructInfo:
    """A type as relax says it."""
    match kind:
        case TensorType():
            dims = [_dim(size) for size in kind.shape]
            return r.TensorStructInfo(tuple(dims), kind.dtype)  # type: ignore[arg-type]
        case TupleType():
            return r.TupleStructInfo(tuple(map(struct_info, kind.fields)))
        case FuncType():
            return r.FuncStructInfo(list(map(struct_info, kind.arg_types)), struct_info(kind.ret_type))
    raise IRError(f"the type {kind} is open", hint="give parameters a TensorType, a TupleType or a FuncType")


def _dim(size: AnyValue) -> AnyValue:
    if isinstance(size, Any):
        return Var("any_dim", "int64")
    return int(size) if isinstance(size, IntImm) else size


def type_of(info: r.StructInfo) -> Type:
    """Return what relax knows of a value, as a type."""
    match info:
        case r.TensorStructInfo():
            dims: Sequence[AnyValue] = [Any()] * max(info.ndim, 0) if info.dims is None else info.dims
            return TensorType(tuple(int(s) if isinstance(s, IntImm) else Any() for s in dims), info.dtype or "float32")
        case r.TupleStructInfo():
            return TupleType(tuple(map(type_of, info.fields)))
        case r.PrimStructInfo():
            return scalar_type(info.dtype)
        case r.ShapeStructInfo():
            return TensorType((max(info.ndim, 0),), "int64")
        case r.FuncStructInfo() if info.params is not None:
            return FuncType(tuple(map(type_of, info.params)), type_of(info.ret))
    raise IRError(f"{info} has no type in Relay")
