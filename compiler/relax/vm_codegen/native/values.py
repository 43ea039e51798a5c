"""Values of a graph function's variables while machine code is made of it.

Every extent is an expression over the dimensions and numbers that the function is called with, and over numbers that it
reads from arrays while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Union

from compiler.errors import CodegenError
from compiler.relax.nodes.dims import int64, variables
from compiler.runtime.core.dtypes import storage_dtype
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.graph import CELL_HEAD
from compiler.tir.nodes import PrimExpr


class NotNative(CodegenError):
    """Something in a graph function that only the interpreter does.
    `every` has a line for each such thing."""

    def __init__(self, message: str, every: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.every = tuple(every) or (message,)


class Follows(NotNative):
    """An operation on a value that only the interpreter makes."""


@dataclass(eq=False, slots=True)
class NativeStorage:
    """Memory: of a parameter, a constant, or of the function's own.

    first, last: the instructions that use it, by position. scope: the branch that made it. place: where it finally
    lies, a variable that holds an address, or a constant's number; memory of the function's own has an offset.
    """

    nbytes: PrimExpr
    place: n.Var | int | None = None
    scope: int = 0
    first: int = -1
    last: int = -1
    offset: PrimExpr = field(default_factory=lambda: int64(0))
    merged: NativeStorage | None = None

    @property
    def root(self) -> NativeStorage:
        """The storage that this one became a part of; itself where there is none."""
        found = self
        while found.merged is not None:
            found = found.merged
        return found

    def used_at(self, position: int) -> None:
        root = self.root
        root.first = position if root.first < 0 else min(root.first, position)
        root.last = max(root.last, position)

    def merge_into(self, other: NativeStorage) -> None:
        """Be the same memory as `other` from now on."""
        root = self.root
        root.merged = other
        if root.first >= 0:
            other.used_at(root.first)
            other.used_at(root.last)


@dataclass(frozen=True, eq=False, slots=True)
class NativeTensor:
    """An array in a storage, `offset` bytes behind its beginning."""

    storage: NativeStorage
    dims: tuple[PrimExpr, ...]
    dtype: str
    offset: PrimExpr = field(default_factory=lambda: int64(0))

    @property
    def nbytes(self) -> PrimExpr:
        return bytes_of(self.dims, self.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class ShapeValue:
    """A shape."""

    dims: tuple[PrimExpr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Text:
    """A string, or the name of a dtype."""

    text: str


@dataclass(eq=False, slots=True)
class Heap:
    """The numbers that the bytecode keeps on a heap."""

    slots: dict[int, PrimExpr] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Unknown:
    """A value that only the interpreter makes."""


@dataclass(frozen=True, eq=False, slots=True)
class FunctionName:
    """A function of the module, as a value."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Merged:
    """An array (or, without a dtype, a shape) that is put into a cell once its extents are known."""

    cell: Cell
    dtype: str = ""


Value = Union[  # noqa: UP007
    NativeTensor, ShapeValue, Text, Heap, FunctionName, NativeStorage, Unknown, Merged, PrimExpr, tuple["Value", ...]
]


# -- instructions ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, slots=True)
class Invoke:
    """Call a function of the module with arrays and numbers."""

    name: str
    args: tuple[NativeTensor | PrimExpr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """Give up with the message of this number unless the condition holds."""

    condition: PrimExpr | NativeTensor
    number: int


@dataclass(frozen=True, eq=False, slots=True)
class Copy:
    """Copy an array's bytes."""

    target: NativeTensor
    source: NativeTensor


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """Run one of two branches."""

    condition: PrimExpr | NativeTensor
    yes: tuple[Instruction, ...]
    no: tuple[Instruction, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Cell:
    """Memory whose size is found out while the function runs, with the extents of what is in it.

    base: the variable that holds the cell's address. owned: whether the cell is this function's, not its caller's.
    """

    base: n.Var
    ndim: int
    owned: bool = True

    @staticmethod
    def of(ndim: int) -> Cell:
        """A new cell of the function's own."""
        return Cell(n.Var("cell", "handle"), ndim)

    @property
    def array(self) -> NativeTensor:
        """The cell itself, as functions take it: an array of its words."""
        dims = (int64(CELL_HEAD + self.ndim),)
        return NativeTensor(NativeStorage(bytes_of(dims, "int64"), self.base), dims, "int64")


@dataclass(frozen=True, eq=False, slots=True)
class Read:
    """Name the number at the beginning of an array."""

    var: n.Var
    source: NativeTensor


@dataclass(frozen=True, eq=False, slots=True)
class Reserve:
    """Have memory for a storage whose size is known from here on.
    Its place is the variable of the address."""

    storage: NativeStorage
    cell: Cell


@dataclass(frozen=True, eq=False, slots=True)
class Fill:
    """Copy an array into a cell, with its extents. Without a source only the numbers are written."""

    cell: Cell
    dims: tuple[PrimExpr, ...]
    source: NativeTensor | None


@dataclass(frozen=True, eq=False, slots=True)
class Open:
    """Name the address and the extents of what is in a cell."""

    cell: Cell
    address: n.Var
    dims: tuple[n.Var, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Loop:
    """Repeat this until an Exit. `going` is the cell whose number says whether to go on."""

    body: tuple[Instruction, ...]
    going: Cell


@dataclass(frozen=True, eq=False, slots=True)
class Exit:
    """Give the results, and leave the loop."""

    value: Value
    going: Cell


Instruction = Invoke | Check | Copy | Branch | Read | Reserve | Fill | Open | Loop | Exit


def bytes_of(dims: Sequence[PrimExpr], dtype: str) -> PrimExpr:
    """How many bytes an array has."""
    size: PrimExpr = int64(storage_dtype(dtype).itemsize)
    for extent in dims:
        size = ops.mul(size, extent)
    return size


def leaves(value: Value) -> Iterator[Value]:
    """The values in a tuple, and in the tuples in it; a value that is no tuple itself."""
    if isinstance(value, tuple):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def mentions(expr: PrimExpr, names: Container[n.Var]) -> bool:
    """Whether an extent depends on one of the names."""
    return not isinstance(expr, n.IntImm) and any(var in names for var in variables(expr))


def as_float(expr: PrimExpr) -> PrimExpr:
    """An extent in float64, which does not overflow."""
    match expr:
        case n.Add() | n.Sub() | n.Mul() | n.Min() | n.Max():
            return _FLOAT[type(expr)](as_float(expr.a), as_float(expr.b))
        case n.FloorDiv():
            return ops.div(as_float(expr.a), as_float(expr.b))
    return ops.cast("float64", expr)


_FLOAT: dict[type[PrimExpr], Callable[[PrimExpr, PrimExpr], PrimExpr]] = {
    n.Add: ops.add,
    n.Sub: ops.sub,
    n.Mul: ops.mul,
    n.Min: ops.minimum,
    n.Max: ops.maximum,
}
