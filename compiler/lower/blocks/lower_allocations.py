"""Allocating blocks become `Allocate` statements; after this no block is left."""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.ir.visit import map_children
from compiler.lower.analysis.conditions import TRUE, guarded
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage


@tir_pass("LowerOpaqueBlock", gives=LoweringStage.LOOPS)
def lower_allocations(func: n.PrimFunc) -> n.PrimFunc:
    """Turn the allocations of blocks into statements; no block is left."""

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.BlockRealize):
            block = rebuilt.block
            body = block.body
            for buffer in reversed(block.alloc_buffers):
                body = n.Allocate(buffer.data, buffer.dtype, _extents(buffer), TRUE, body, buffer.scope)
            return guarded(rebuilt.predicate, body)
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _extents(buffer: n.Buffer) -> tuple[PrimExpr, ...]:
    """The buffer's shape. For a buffer with strides, the distance from its first to its last element."""
    if not buffer.strides:
        return buffer.shape
    span: PrimExpr = ops.const(1)
    for size, stride in zip(buffer.shape, buffer.strides):
        span = ops.add(span, ops.mul(ops.sub(size, 1), stride))
    return (span,)
