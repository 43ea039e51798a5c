"""Blocks dissolve into plain statements.

Iteration variables become their values, predicates become ifs.

    block C where i*4 + j < 10:              if i*4 + j < 10:
      vi = i*4 + j                   →         C[i*4 + j] = ...
      C[vi] = ...

Left are blocks without iteration variables that allocate buffers. A block's pragma annotations become
attributes around its body, and so do the alignment and the doubling of its result.
"""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.ir.visit import map_children
from compiler.lower.analysis.conditions import TRUE, guarded
from compiler.lower.blocks import align_storage, inject_double_buffer
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass


@tir_pass("ConvertBlocksToOpaque")
def convert_blocks(func: n.PrimFunc) -> n.PrimFunc:
    """Replace block variables by the expressions they are bound to.

    Blocks become their bodies; those that allocate stay.
    """
    values: dict[n.Var, PrimExpr] = {}

    def go(node: Node) -> Node:
        match node:
            case n.Var():
                return values.get(node, node)
            case n.BlockRealize():
                return dissolve(node)
        return map_children(node, go)

    def dissolve(realize: n.BlockRealize) -> Stmt:
        block = realize.block
        assert block.init is None, "inits are lowered before blocks are"
        assert not block.match_buffers, "views of regions are lowered before blocks are"
        for iter_var, value in zip(block.iter_vars, realize.iter_values):
            bound = go(value)
            assert isinstance(bound, PrimExpr)
            values[iter_var.var] = bound
        predicate, body = go(realize.predicate), go(block.body)
        assert isinstance(predicate, PrimExpr)
        assert isinstance(body, Stmt)
        body = align_storage.noted(block, inject_double_buffer.noted(block, _pragmas(block, body)))
        if block.alloc_buffers:
            inner = n.Block((), (), (), block.name_hint, body, alloc_buffers=block.alloc_buffers)
            body = n.BlockRealize((), TRUE, inner)
        return guarded(predicate, body)

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _pragmas(block: n.Block, body: Stmt) -> Stmt:
    for key, value in block.annotations.items():
        if key.startswith("pragma_") and isinstance(value, int | PrimExpr):
            body = n.AttrStmt(None, key, ops.as_expr(value), body)
    return body
