"""Buffers, stores to them, regions of them, and views of regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_not
from typing import Any

from compiler.dtype import element_of, lanes_of, parse_dtype, with_lanes
from compiler.errors import IRError
from compiler.ir.base import Node, Op, Span, Symbol
from compiler.ir.printed import Printed
from compiler.ir.visit import Fn
from compiler.tir.nodes.axis import IntImm, Range, Var
from compiler.tir.nodes.base import PrimExpr, Stmt, set_fields
from compiler.tir.nodes.convert import as_expr, as_exprs, number_as, to_tuples
from compiler.tir.nodes.expr import BufferLoad, Call, Ramp

_ACCESS = {"r": 1, "w": 2, "rw": 3, "wr": 3}


class StorageScope(str):
    """The name of a kind of memory. Calling it gives the name: programs for TVM write `buffer.scope()`."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Buffer(Printed, Symbol):
    """A typed, shaped view of memory. Two buffers are the same only if they are the same object.

    `strides` is empty for a compact row-major layout; `elem_offset` counts elements from `data`, and is a multiple of
    `offset_factor` where that is not 0. `scope`: "global", "local" (registers or stack of one thread), "shared", ...
    `data_alignment` is in bytes.
    """

    VIEW = True
    LETTER = "b"

    name: str
    data: Var
    shape: tuple[PrimExpr, ...]
    dtype: str = "float32"
    strides: tuple[PrimExpr, ...] = ()
    elem_offset: PrimExpr | None = None
    scope: str = "global"
    data_alignment: int = 64
    span: Span | None = None
    offset_factor: int = 0

    def __post_init__(self) -> None:
        if type(self.scope) is not StorageScope:
            set_fields(self, scope=StorageScope(self.scope))

    def traits(self) -> tuple[Any, ...]:
        return self.dtype, self.scope, self.data_alignment, self.offset_factor

    def may_stand_for(self, other: Symbol) -> bool:
        return isinstance(other, Buffer) and self.traits() == other.traits() and len(self.shape) == len(other.shape)

    def parts(self) -> tuple[Any, ...]:
        return self.data, (self.shape, self.strides, self.elem_offset)

    def introduces(self) -> tuple[Symbol, ...]:
        offset = () if self.elem_offset is None else (self.elem_offset,)
        return self.data, *(e for e in (*self.shape, *self.strides, *offset) if isinstance(e, Var))

    def __getitem__(self, indices: Any) -> BufferLoad:
        """The element at the indices; with slices among them, the region."""
        items = indices if isinstance(indices, tuple) else (indices,)
        self.check_rank(items)
        if any(isinstance(item, slice) for item in items):
            return BufferRegion(self, tuple(map(self._range_at, range(len(items)), items)))  # type: ignore[return-value]
        return BufferLoad(self, as_exprs(items))

    def _range_at(self, dimension: int, index: Any) -> Range:
        """The part of a dimension that an index, or a slice, stands for."""
        if not isinstance(index, slice):
            low = as_expr(index)
            return Range(low, IntImm(low.dtype, 1))
        if index.step not in (None, 1):
            raise IRError(f"buffer {self.name!r}: a region has no steps, got {index}", hint="an index may be a Ramp")
        low = as_expr(0 if index.start is None else index.start)
        end = self.shape[dimension] if index.stop is None else as_expr(index.stop)
        return Range(low, end - low)

    def __repr__(self) -> str:
        return f"Buffer({self.name}, {self.shape}, {self.dtype}, {self.scope})"

    def check_rank(self, indices: Sequence[Any]) -> None:
        if len(indices) != len(self.shape):
            raise IRError(f"buffer {self.name} has {len(self.shape)} dimensions, indexed with {len(indices)}")

    def vload(self, begin: Any, dtype: str | None = None, predicate: PrimExpr | None = None) -> BufferLoad:
        """The elements from `begin` on along the last dimension, as many as `dtype` has lanes."""
        return BufferLoad(self, self._vector_at(begin, self.dtype if dtype is None else dtype), predicate)

    def vstore(self, begin: Any, value: Any, predicate: PrimExpr | None = None) -> BufferStore:
        """The statement that stores `value`, a scalar or vector, from `begin` on along the last dimension."""
        dtype = value.dtype if isinstance(value, PrimExpr) else self.dtype
        return BufferStore(self, value, self._vector_at(begin, dtype), predicate)

    def _vector_at(self, begin: Any, dtype: str) -> tuple[PrimExpr, ...]:
        indices = as_exprs(begin)
        self.check_rank(indices)
        lanes, own = lanes_of(dtype), lanes_of(self.dtype)
        if element_of(dtype) != element_of(self.dtype) or lanes % own:
            raise IRError(f"buffer {self.name} holds {self.dtype}: it has no elements of {dtype}")
        if lanes == own or not indices or lanes_of(indices[-1].dtype) > 1:
            return indices
        return (*indices[:-1], Ramp(indices[-1], IntImm(indices[-1].dtype, 1), lanes // own))

    def steps(self) -> tuple[PrimExpr, ...]:
        """Return the distance in elements from one index to the next, for each dimension.
        They are the strides, or those of a compact layout."""
        if self.strides:
            return self.strides
        found: list[PrimExpr] = []
        step = as_expr(1)
        for extent in reversed(self.shape):
            found.append(step)
            step = step * extent
        return tuple(reversed(found))

    def offset_of(self, indices: Any) -> tuple[PrimExpr, ...]:
        """The position of an element behind `data`, counted in elements.
        It is one number, because memory here is flat."""
        items = as_exprs(indices)
        self.check_rank(items)
        total = as_expr(0) if self.elem_offset is None else self.elem_offset
        for index, step in zip(items, self.steps()):
            total = total + index * step
        return (total,)

    def access_ptr(
        self, access_mask: int | str, ptr_type: str = "handle", content_lanes: int = 1, offset: Any = 0,
        extent: Any = None,
    ) -> Call:  # fmt: skip
        """The address of element number `offset` of the buffer, for a C function.

        It reads ("r"), writes ("w") or does both ("rw") there, to as many as `extent` elements (all of the rest, when
        not given).

        With `content_lanes` the elements are vectors of that many. Raises IRError for another mask.
        """
        mask = _ACCESS.get("".join(sorted(access_mask))) if isinstance(access_mask, str) else access_mask
        if mask not in (1, 2, 3):
            raise IRError(
                f"access_ptr of buffer {self.name}: there is no access mask {access_mask!r}",
                hint='the masks are "r", "w" and "rw"',
            )
        dtype = self.dtype if content_lanes == 1 else with_lanes(element_of(self.dtype), content_lanes)
        count = as_expr(1)
        for dim in self.shape:
            count = count * dim
        if self.strides and self.shape:
            count = self.strides[0] * self.shape[0]
        begin = as_expr(offset)
        start = begin if self.elem_offset is None else self.elem_offset + begin
        length = count - begin if extent is None else as_expr(extent)
        if content_lanes > 1:
            start, length = start // content_lanes, length // content_lanes
        element = Call(dtype, Op.get("tir.type_annotation"), ())
        return Call(ptr_type, Op.get("tir.tvm_access_ptr"), (element, self.data, start, length, as_expr(mask)))

    def get_flattened_buffer(self) -> Buffer:
        """The same memory as one dimension."""
        if len(self.shape) == 1 and not self.strides:
            return self
        size = as_expr(1)
        for extent in self.shape:
            size = size * extent
        if self.strides:
            size = as_expr(1)
            for extent, stride in zip(self.shape, self.strides):
                size = size + (extent - 1) * stride
        return Buffer(self.name, self.data, (size,), self.dtype, (), self.elem_offset, self.scope, self.data_alignment,
                      self.span, self.offset_factor)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BufferStore(Stmt):
    """buffer[indices] = value. A vector store when the last index is a `Ramp`; `predicate` masks lanes."""

    CHILDREN = ("value", "indices", "predicate")

    buffer: Buffer
    value: PrimExpr
    indices: tuple[PrimExpr, ...]
    predicate: PrimExpr | None = None
    span: Span | None = None

    def __post_init__(self) -> None:
        to_tuples(self, "indices")
        buffer, indices = self.buffer, self.indices
        if not isinstance(buffer, Buffer):
            raise IRError(f"BufferStore needs a buffer, got {type(buffer).__name__}", hint="tir.decl_buffer makes one")
        if not isinstance(self.value, PrimExpr):
            set_fields(self, value=number_as(self.value, buffer.dtype, f"a store to buffer {buffer.name!r}"))
        if len(indices) != len(buffer.shape):
            raise IRError(f"buffer {buffer.name!r} has {len(buffer.shape)} dimensions, a store {len(indices)} indices")
        if self.value.dtype != buffer.dtype or (indices and lanes_of(indices[-1].dtype) > 1):
            lanes = lanes_of(indices[-1].dtype) if indices else 1
            wanted = with_lanes(buffer.dtype, lanes * lanes_of(buffer.dtype))
            if self.value.dtype != wanted:
                raise IRError(
                    f"a store to buffer {buffer.name!r} takes {wanted} here, the value is {self.value.dtype}",
                    hint=f'convert it: value.astype("{wanted}")',
                )

    def child_list(self) -> list[Node]:
        found: list[Node] = [self.value, *self.indices]
        return found if self.predicate is None else [*found, self.predicate]

    def map_children(self, f: Fn) -> BufferStore:
        value = f(self.value)
        indices = tuple([f(index) for index in self.indices])
        predicate = None if self.predicate is None else f(self.predicate)
        unchanged = value is self.value and predicate is self.predicate
        if unchanged and not any(map(is_not, indices, self.indices)):
            return self
        return BufferStore(self.buffer, value, indices, predicate, self.span)  # type: ignore[arg-type]


def decl_buffer(
    shape: Any, dtype: str | None = "float32", name: str = "buffer", data: Var | None = None, strides: Any = None,
    elem_offset: Any = None, scope: str = "", data_alignment: int = -1, offset_factor: int = 0, buffer_type: str = "",
    axis_separators: Any = None, span: Span | None = None,
) -> Buffer:  # fmt: skip
    """A new buffer; `shape` and `strides` are ints or expressions, in elements.

    With an `offset_factor` and no `elem_offset`, the offset is a variable of its own, which the caller decides.
    `data_alignment` is in bytes, -1 for the usual 64. Raises IRError for an unknown dtype, and for axis separators
    and buffer types, which have no meaning on flat memory.
    """
    dims = as_exprs(shape)
    if not isinstance(name, str):
        raise IRError(f"the name of a buffer is a text, not {name!r}")
    if isinstance(shape, str):
        raise IRError(f"buffer {name!r}: a shape is made of numbers, got the text {shape!r}")
    if data is not None and data.dtype != "handle":
        raise IRError(f"buffer {name!r} is given {data!r} of {data.dtype} as its data, not a handle")
    kind = "float32" if dtype is None else dtype
    parse_dtype(kind)
    if axis_separators or buffer_type not in ("", "default"):
        raise IRError(f"buffer {name!r}: memory is flat here, so it has no axis separators and no buffer type")
    if strides is not None and len(as_exprs(strides)) not in (0, len(dims)):
        raise IRError(f"buffer {name!r} has {len(dims)} dimensions, {len(as_exprs(strides))} strides")
    offset = None if elem_offset is None else as_expr(elem_offset)
    if offset is None and offset_factor:
        offset = Var(f"{name}_elem_offset", dims[0].dtype if dims else "int32")
    return Buffer(
        name, data if data is not None else Var(name, "handle"), dims, kind,
        as_exprs(strides if strides is not None else ()), offset, scope or "global",
        data_alignment if data_alignment > 0 else 64, span, offset_factor,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class BufferRegion(Printed, Node):
    """A box inside a buffer: one range a dimension."""

    CHILDREN = ("region",)
    CARRIER = True

    buffer: Buffer
    region: tuple[Range, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MatchBufferRegion(Printed, Node):
    """`buffer` as another name for the memory of a region, in a block.

    A shape, stride or element offset of `buffer` that is a variable gets its value from the region.
    """

    CHILDREN = ("source",)
    CARRIER = True

    buffer: Buffer
    source: BufferRegion
