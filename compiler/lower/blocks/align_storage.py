"""Pad the rows of a buffer where a block asks for it, so that they start at aligned addresses.

    block B, annotated buffer_dim_align [(0, 0, 8, 1)]
    alloc B[21, 18]                               →   alloc B[21, 18], strides [25, 1]

(output, dimension, factor, offset): the distance of neighbours along the dimension is the least multiple of `factor`
plus `offset` that holds what lies between. Done once buffers have shrunk to what is used of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.schedule.primitives.storage import BUFFER_DIM_ALIGN
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.visit import walk_stmts


@dataclass(frozen=True, slots=True)
class Alignment:
    """The alignment of a buffer's dimension."""

    factor: int
    offset: int


def noted(block: n.Block, body: Stmt) -> Stmt:
    """Wrap `body`, the dissolved `block`, in attributes that keep the alignment it asks for.
    They last until `align_storage`."""
    for output, dim, factor, offset in block.annotations.get(BUFFER_DIM_ALIGN, ()):
        wish = intrin.call("tir.tvm_tuple", "int32", dim, factor, offset)
        body = n.AttrStmt(block.writes[output].buffer.data, BUFFER_DIM_ALIGN, wish, body)
    return body


@tir_pass("AlignStorage")
def align_storage(func: n.PrimFunc) -> n.PrimFunc:
    """Pad the rows of a buffer in memory where its block asks for it."""
    wishes: dict[n.Var, dict[int, Alignment]] = {}

    def collect(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        match node:
            case n.AttrStmt(node=n.Var() as data, attr_key=key, value=n.Call(args=args)) if key == BUFFER_DIM_ALIGN:
                dim, factor, offset = (ops.as_int(arg) for arg in args)
                assert dim is not None
                assert factor is not None
                assert offset is not None
                wishes.setdefault(data, {})[dim] = Alignment(factor, offset)
                return collect(node.body)
        return map_children(node, collect)

    body = collect(func.body)
    assert isinstance(body, Stmt)
    held = {buffer.data for node in walk_stmts(body) if isinstance(node, n.Block) for buffer in node.alloc_buffers}
    ours = {data: dims for data, dims in wishes.items() if data in held}  # the caller lays out its own
    return func.with_body(_restrided(body, ours) if ours else body)


def _restrided(body: Stmt, wishes: Mapping[n.Var, Mapping[int, Alignment]]) -> Stmt:
    made: dict[n.Buffer, n.Buffer] = {}

    def of(buffer: n.Buffer) -> n.Buffer:
        if buffer.data not in wishes or buffer.strides:
            return buffer
        if buffer not in made:
            made[buffer] = replace(buffer, strides=_strides(buffer.shape, wishes[buffer.data]))
        return made[buffer]

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        match rebuilt:
            case n.BufferLoad() | n.BufferStore() if of(rebuilt.buffer) is not rebuilt.buffer:
                return replace(rebuilt, buffer=of(rebuilt.buffer))
            case n.Block() if any(of(b) is not b for b in rebuilt.alloc_buffers):
                return replace(rebuilt, alloc_buffers=tuple(map(of, rebuilt.alloc_buffers)))
        return rebuilt

    result = go(body)
    assert isinstance(result, Stmt)
    return result


def _strides(shape: Sequence[PrimExpr], wishes: Mapping[int, Alignment]) -> tuple[PrimExpr, ...]:
    strides: list[PrimExpr] = []
    step: PrimExpr = ops.const(1)
    for dim in reversed(range(len(shape))):
        if (wish := wishes.get(dim)) is not None:
            step = ops.add(step, ops.floormod(ops.sub(wish.offset, step), wish.factor))
        strides.append(step)
        step = ops.mul(step, shape[dim])
    return tuple(reversed(strides))
