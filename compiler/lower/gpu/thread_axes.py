"""Loops bound to hardware threads: which a function has, and over how much."""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import walk_stmts

# Each axis as the place of its number: which tuple, and where in it.
AXES = {f"{kind}.{axis}": (kind, position) for kind in ("blockIdx", "threadIdx") for position, axis in enumerate("xyz")}


def bound_extents(stmt: Stmt) -> dict[str, list[PrimExpr]]:
    """The extents of the loops under `stmt` by thread axis, "vthread" left out."""
    found: dict[str, list[PrimExpr]] = {}
    for node in walk_stmts(stmt):
        match node:
            case n.For(kind=ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag), extent=extent):
                pass
            case n.AttrStmt(attr_key="thread_extent", node=n.IterVar(thread_tag=tag), value=extent):
                pass
            case _:
                continue
        if tag in AXES:
            found.setdefault(tag, []).append(extent)
    return found


def is_bound(func: n.PrimFunc) -> bool:
    """Whether `func` runs loops on hardware threads."""
    return bool(bound_extents(func.body))


@tir_pass("InjectVirtualThread", gives=LoweringStage.LOOPS)
def unroll_virtual_threads(func: n.PrimFunc) -> n.PrimFunc:
    """Unroll loops bound to "vthread" in each thread."""

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        match rebuilt:
            case n.For(kind=ForKind.THREAD_BINDING, thread_binding=n.IterVar(thread_tag=tag)) if tag not in AXES:
                return replace(rebuilt, kind=ForKind.UNROLLED, thread_binding=None)
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)
