"""Every buffer becomes one-dimensional: B[i, j] of shape (n, m) is B[i*m + j].

Parameters keep their shaped buffer in `buffer_map`; accesses go through a flat buffer on the same data.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage


@tir_pass("FlattenBuffer", gives=LoweringStage.FLAT)
def flatten_buffers(func: n.PrimFunc) -> n.PrimFunc:
    """Make every buffer one-dimensional.

    Strides and element offsets are honoured.
    """
    flat: dict[n.Buffer, n.Buffer] = {}
    layouts: dict[n.Buffer, _Layout] = {}

    def position(buffer: n.Buffer, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        layout = layouts.get(buffer)
        if layout is None:
            layout = layouts[buffer] = _Layout.of(buffer)
        return layout.position(indices)

    def flattened(buffer: n.Buffer) -> n.Buffer:
        found = flat.get(buffer)
        if found is None:
            found = flat[buffer] = _flat(buffer)
        return found

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        match rebuilt:
            case n.BufferLoad() | n.BufferStore():
                buffer = flattened(rebuilt.buffer)
                if buffer is rebuilt.buffer:
                    return rebuilt
                return replace(rebuilt, buffer=buffer, indices=(position(rebuilt.buffer, rebuilt.indices),))
            case n.DeclBuffer():
                return rebuilt.body  # accesses say themselves what memory they go to
            case n.Allocate() if len(rebuilt.extents) != 1:
                return replace(rebuilt, extents=(_product(rebuilt.extents),))
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _flat(buffer: n.Buffer) -> n.Buffer:
    if len(buffer.shape) == 1 and not buffer.strides and buffer.elem_offset is None:
        return buffer
    if buffer.strides:
        last = [ops.mul(ops.sub(dim, 1), stride) for dim, stride in zip(buffer.shape, buffer.strides)]
        size = ops.as_expr(1)
        for part in last:
            size = ops.add(size, part)
    else:
        size = _product(buffer.shape)
    if buffer.elem_offset is not None:
        size = ops.add(size, buffer.elem_offset)
    return replace(buffer, shape=(size,), strides=(), elem_offset=None)


def _product(extents: tuple[PrimExpr, ...]) -> PrimExpr:
    total = ops.as_expr(1)
    for extent in extents:
        total = _times(total, extent)
    return total


def _times(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """The product, as int64 where it is a constant that int32 cannot hold."""
    x, y = ops.as_int(a), ops.as_int(b)
    if x is not None and y is not None and x * y >= 1 << 31:
        return ops.const(x * y, "int64")
    return ops.mul(a, b)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where a buffer's elements are.
    It has the first element's position, the steps along each dimension, and whether positions go beyond int32."""

    first: PrimExpr
    strides: tuple[PrimExpr, ...]
    wide: bool

    @staticmethod
    def of(buffer: n.Buffer) -> _Layout:
        first = buffer.elem_offset if buffer.elem_offset is not None else ops.const(0, "int32")
        return _Layout(first, buffer.strides or _row_major(buffer.shape), _needs_64_bits(buffer))

    def position(self, indices: tuple[PrimExpr, ...]) -> PrimExpr:
        """The position of an element behind the data pointer, counted in elements."""
        total = self.first
        for index, stride in zip(indices, self.strides):
            total = ops.add(total, ops.mul(ops.cast("int64", index) if self.wide else index, stride))
        return total


def _needs_64_bits(buffer: n.Buffer) -> bool:
    """Whether positions in a buffer of known shape go beyond int32."""
    total = 1
    for dim in buffer.shape:
        size = ops.as_int(dim)
        if size is None:
            return False
        total *= size
    return total >= 1 << 31


def _row_major(shape: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    strides: list[PrimExpr] = []
    step = ops.as_expr(1)
    for extent in reversed(shape):
        strides.append(step)
        step = _times(step, extent)
    return tuple(reversed(strides))
