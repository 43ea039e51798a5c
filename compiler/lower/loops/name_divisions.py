"""Name divisions of a loop's variable by symbolic sizes, so that they are made once an iteration.

    for p in T.parallel(n * m):                     for p in T.parallel(n * m):
      for j in T.vectorized(16):                      row = p // T.max(m, 1)
        if p // m * 16 + j < k:             →         for j in T.vectorized(16):
          C[p // m * 16 + j] = ...                      if row * 16 + j < k:
                                                          C[row * 16 + j] = ...

Fused loops look like that. A division by a size that may be 0 cannot be moved or compared, but a name can. So
conditions over the name are moved, and hold for whole tiles, as those of any loop's variable do.
"""

from __future__ import annotations

from collections.abc import Hashable

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.lower.analysis.guards import expr_key
from compiler.lower.analysis.linear import LinearForms
from compiler.lower.loops.hoist_guards import remember_range
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars

_DIVISIONS = (n.FloorDiv, n.FloorMod)
_KINDS = (ForKind.SERIAL, ForKind.PARALLEL)


@tir_pass("NameDivisions", opt_level=1, gives=LoweringStage.FLAT)
def name_divisions(func: n.PrimFunc) -> n.PrimFunc:
    """Name divisions of a loop's variable by symbolic sizes, once for all of an iteration."""
    if not any(isinstance(node, _DIVISIONS) and not isinstance(node.b, n.IntImm) for node in walk(func.body)):
        return func
    forms = LinearForms()

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        if isinstance(node, n.For):
            remember_range(node, forms)
            if node.kind in _KINDS:
                node = _named(node, forms)
        return map_children(node, go)

    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _named(loop: n.For, forms: LinearForms) -> n.For:
    inside = {node.loop_var for node in walk(loop.body) if isinstance(node, n.For)}
    inside |= {node.var for node in walk(loop.body) if isinstance(node, n.Let | n.LetStmt)}
    names: dict[Hashable, tuple[n.Var, PrimExpr]] = {}
    own = {loop.loop_var}

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        if not isinstance(rebuilt, _DIVISIONS) or isinstance(rebuilt.b, n.IntImm):
            return rebuilt
        used = free_vars(rebuilt)
        if not used & own or used & inside or free_vars(rebuilt.b) & own or not _is_natural(rebuilt, forms):
            return rebuilt
        key = expr_key(rebuilt)
        if key not in names:
            word = "row" if isinstance(rebuilt, n.FloorDiv) else "place"
            var = n.SizeVar(f"{loop.loop_var.name}_{word}", rebuilt.dtype)
            names[key] = var, type(rebuilt)(rebuilt.a, ops.maximum(rebuilt.b, 1))
            own.add(var)
        return names[key][0]

    body = go(loop.body)
    assert isinstance(body, Stmt)
    for var, value in reversed(names.values()):
        body = n.LetStmt(var, value, body)
    return replace(loop, body=body) if names else loop


def _is_natural(division: n.FloorDiv | n.FloorMod, forms: LinearForms) -> bool:
    """Whether neither side is ever negative, or read from memory."""
    if any(isinstance(node, n.BufferLoad | n.Call) for node in walk(division)):
        return False
    return forms.bounds(division.a)[0] >= 0 and forms.bounds(division.b)[0] >= 0
