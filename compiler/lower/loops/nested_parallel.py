"""A parallel loop inside a parallel loop runs serially: its threads are busy with the outer one."""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage


@tir_pass("SerializeNestedParallel", gives=LoweringStage.FLAT)
def serialize_nested_parallel(func: n.PrimFunc) -> n.PrimFunc:
    """Run a parallel loop inside another one serially."""

    def visit(stmt: Stmt, inside: bool) -> Stmt:
        parallel = isinstance(stmt, n.For) and stmt.kind is ForKind.PARALLEL

        def go(node: Node) -> Node:
            return node if isinstance(node, PrimExpr) else visit(node, inside or parallel)  # type: ignore[arg-type]

        rebuilt = map_children(stmt, go)
        if parallel and inside:
            return replace(rebuilt, kind=ForKind.SERIAL)
        return rebuilt

    return func.with_body(visit(func.body, False))
