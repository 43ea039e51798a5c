"""Buffers and regions of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.base import Node, Span
from compiler.tir.nodes_axis import Range, Var
from compiler.tir.nodes_base import PrimExpr, as_expr
from compiler.tir.nodes_expr import BufferLoad


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Buffer(Node):
    """A typed, shaped view of memory. Two buffers are the same only if they are the same object.

    `strides` is empty for a compact row-major layout; `elem_offset` counts elements from `data`.
    `scope`: "global", "local" (registers or stack of one thread), "shared", "warp", ...
    """

    name: str
    data: Var
    shape: tuple[PrimExpr, ...]
    dtype: str = "float32"
    strides: tuple[PrimExpr, ...] = ()
    elem_offset: PrimExpr | None = None
    scope: str = "global"
    data_alignment: int = 64
    span: Span | None = None

    def __getitem__(self, indices: Any) -> BufferLoad:
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise IRError(f"buffer {self.name} has {len(self.shape)} dimensions, indexed with {len(items)}")
        return BufferLoad(self, tuple(as_expr(i) for i in items))

    def __repr__(self) -> str:
        return f"Buffer({self.name}, {self.shape}, {self.dtype}, {self.scope})"


def decl_buffer(
    shape: Any,
    dtype: str = "float32",
    name: str = "buffer",
    data: Var | None = None,
    strides: Any = None,
    elem_offset: PrimExpr | None = None,
    scope: str = "global",
    data_alignment: int = 64,
) -> Buffer:
    """A new buffer; `shape` and `strides` are ints or expressions, in elements."""
    dims = shape if isinstance(shape, tuple | list) else (shape,)
    parse_dtype(dtype)
    return Buffer(
        name,
        data if data is not None else Var(name, "handle"),
        tuple(as_expr(d) for d in dims),
        dtype,
        tuple(as_expr(s) for s in strides or ()),
        elem_offset,
        scope,
        data_alignment,
    )


@dataclass(frozen=True, slots=True, eq=False)
class BufferRegion(Node):
    """A box inside a buffer: one range a dimension."""

    buffer: Buffer
    region: tuple[Range, ...]
