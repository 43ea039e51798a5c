"""Allocating blocks become `Allocate` statements; after this no block is left."""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.lower.conditions import TRUE, guarded
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.visit import map_children


def lower_allocations(func: n.PrimFunc) -> n.PrimFunc:
    """Replace each block by its body inside an `Allocate` for each of its buffers."""

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.BlockRealize):
            block = rebuilt.block
            body = block.body
            for buffer in reversed(block.alloc_buffers):
                body = n.Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, body, buffer.scope)
            return guarded(rebuilt.predicate, body)
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)
