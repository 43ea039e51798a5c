"""Assertions are left out: what they guard stays."""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.ir.transform.config import register_option, truth
from compiler.ir.visit import map_children
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass

DISABLE_ASSERT = register_option(
    "tir.disable_assert", "a truth value", "leave assertions out of the code", truth, False
)


@tir_pass("SkipAssert")
def skip_assert(func: n.PrimFunc) -> n.PrimFunc:
    """Remove assertions."""

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        return rebuilt.body if isinstance(rebuilt, n.AssertStmt) else rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)
