"""A loop around a choice by its own variable becomes two loops.

for i in 9:                             for i in 7: A
  if i < 7: A else: B           →       for i in 2: B with i + 7
"""

from __future__ import annotations

from compiler.ir.base import Node
from compiler.lower.conditions import conjuncts
from compiler.lower.guards import comparison
from compiler.lower.hoist_guards import remember_range
from compiler.lower.linear import LinearForms
from compiler.lower.rename import renamed
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import map_children, replace, seq


def partition_loops(func: n.PrimFunc) -> n.PrimFunc:
    """Split serial loops with known bounds where a condition on their variable changes."""
    forms = LinearForms()

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        if isinstance(node, n.For):
            remember_range(node, forms)
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.For) and rebuilt.kind is ForKind.SERIAL:
            return _partition(rebuilt, forms)
        return rebuilt

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _partition(loop: n.For, forms: LinearForms) -> Stmt:
    body = loop.body
    low, extent = ops.as_int(loop.min), ops.as_int(loop.extent)
    if not isinstance(body, n.IfThenElse) or body.else_case is None or low is None or extent is None:
        return loop
    parts = conjuncts(body.condition)
    found = comparison(parts[0], forms) if len(parts) == 1 else None
    if found is None:
        return loop
    terms, offset = found
    if len(terms) != 1 or terms[0][0] is not loop.loop_var:
        return loop
    scale = terms[0][1]
    # scale*v + offset < 0 holds up to some v when scale > 0, and from some v on when it is below 0
    edge = -(offset // scale) if scale > 0 else offset // -scale + 1
    edge = min(max(edge, low), low + extent)
    first, second = (body.then_case, body.else_case) if scale > 0 else (body.else_case, body.then_case)
    dtype = loop.loop_var.dtype
    before = _over(loop, loop.min, ops.const(edge - low, dtype), first)
    after = _over(loop, ops.const(edge, dtype), ops.const(low + extent - edge, dtype), second)
    return seq(before, renamed(after) if after is not None else None)


def _over(loop: n.For, low: PrimExpr, extent: PrimExpr, body: Stmt) -> Stmt | None:
    if ops.as_int(extent) == 0:
        return None
    return replace(loop, min=low, extent=extent, body=body)
