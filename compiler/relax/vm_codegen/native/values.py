"""What the variables of a graph function stand for while it is made a function of machine code.

Every extent is an expression over the dimensions and numbers that the function is called with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Union

from compiler.errors import CodegenError
from compiler.relax.nodes.dims import int64
from compiler.runtime.core.dtypes import storage_dtype
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr


class NotNative(CodegenError):
    """Something in a graph function that only the interpreter does. `every` has a line for each such thing."""

    def __init__(self, message: str, every: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.every = tuple(every) or (message,)


class Follows(NotNative):
    """Something that is done with a value which only the interpreter makes."""


@dataclass(eq=False, slots=True)
class Storage:
    """Memory: of a parameter, a constant, or of the function's own.

    first, last: the instructions that use it, by position. scope: the branch that it was made in. place: where it is,
    in the end: a variable that holds an address, or a constant's number; memory of the function's own has an offset.
    """

    nbytes: PrimExpr
    place: n.Var | int | None = None
    scope: int = 0
    first: int = -1
    last: int = -1
    offset: PrimExpr = field(default_factory=lambda: int64(0))
    merged: Storage | None = None

    @property
    def root(self) -> Storage:
        """The storage that this one became a part of; itself where there is none."""
        found = self
        while found.merged is not None:
            found = found.merged
        return found

    def used_at(self, position: int) -> None:
        root = self.root
        root.first = position if root.first < 0 else min(root.first, position)
        root.last = max(root.last, position)

    def merge_into(self, other: Storage) -> None:
        """Be the same memory as `other` from now on."""
        root = self.root
        root.merged = other
        if root.first >= 0:
            other.used_at(root.first)
            other.used_at(root.last)


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """An array in a storage, `offset` bytes behind its beginning."""

    storage: Storage
    dims: tuple[PrimExpr, ...]
    dtype: str
    offset: PrimExpr = field(default_factory=lambda: int64(0))

    @property
    def nbytes(self) -> PrimExpr:
        return bytes_of(self.dims, self.dtype)


@dataclass(frozen=True, eq=False, slots=True)
class Shape:
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
    """What only the interpreter makes."""


@dataclass(frozen=True, eq=False, slots=True)
class FunctionName:
    """A function of the module, as a value."""

    name: str


Value = Union[Tensor, Shape, Text, Heap, FunctionName, Storage, Unknown, PrimExpr, tuple["Value", ...]]  # noqa: UP007


# -- instructions ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False, slots=True)
class Invoke:
    """Call a function of the module with arrays and numbers."""

    name: str
    args: tuple[Tensor | PrimExpr, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Check:
    """Give up with the message of this number unless the condition holds."""

    condition: PrimExpr | Tensor
    number: int


@dataclass(frozen=True, eq=False, slots=True)
class Copy:
    """Copy an array's bytes."""

    target: Tensor
    source: Tensor


@dataclass(frozen=True, eq=False, slots=True)
class Branch:
    """Do one or the other."""

    condition: PrimExpr | Tensor
    yes: tuple[Instruction, ...]
    no: tuple[Instruction, ...]


Instruction = Invoke | Check | Copy | Branch


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
