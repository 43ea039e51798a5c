"""Split a loop around a choice by its own variable into two loops without the choice.

for i in 9:                             for i in 7: A
  if i < 7: A else: B           →       for i in 2: B with i + 7

Bounds may be symbolic: `if i*32 + 31 < n` holds for the first n//32 iterations. A part of the condition that does not
depend on the loop's variable decides whether the first loop runs at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node
from compiler.ir.visit import replace
from compiler.lower.analysis.conditions import conjunction, conjuncts
from compiler.lower.analysis.guards import comparison
from compiler.lower.analysis.linear import LinearForms
from compiler.lower.analysis.rename import renamed
from compiler.lower.loops.hoist_guards import changed_from_leaves, movable
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars, seq


@tir_pass("LoopPartition", opt_level=1, gives=LoweringStage.FLAT)
def partition_loops(func: n.PrimFunc) -> n.PrimFunc:
    """Split loops where a condition in them stops holding, so that the main part evaluates no condition."""
    forms = LinearForms()

    def change(node: Node) -> Node:
        return _partition(node, forms) if isinstance(node, n.For) and node.kind is ForKind.SERIAL else node

    return func.with_body(changed_from_leaves(func.body, forms, change))


def _partition(loop: n.For, forms: LinearForms) -> Stmt:
    choice = loop.body
    if not isinstance(choice, n.IfThenElse) or choice.else_case is None or not movable(choice.condition):
        return loop
    parts = conjuncts(choice.condition)
    own = [part for part in parts if loop.loop_var in free_vars(part)]
    others = [part for part in parts if loop.loop_var not in free_vars(part)]
    if not own:
        return loop
    count = first_iterations(loop, own, forms)
    if count is not None:
        first, second = choice.then_case, choice.else_case
        if others:
            count = n.Select(conjunction(others), count, ops.const(0, loop.loop_var.dtype))
    elif len(parts) == 1 and (count := first_iterations(loop, [_opposite(parts[0])], forms)) is not None:
        first, second = choice.else_case, choice.then_case
    else:
        return loop
    before = _over(loop, loop.min, count, first)
    after = _over(loop, ops.add(loop.min, count), ops.sub(loop.extent, count), second)
    return seq(before, renamed(after) if after is not None else None)


def _opposite(part: PrimExpr) -> PrimExpr:
    match part:
        case n.LT():
            return n.GE(part.a, part.b)
        case n.LE():
            return n.GT(part.a, part.b)
        case n.GT():
            return n.LE(part.a, part.b)
        case n.GE():
            return n.LT(part.a, part.b)
    return part


def first_iterations(loop: n.For, parts: Sequence[PrimExpr], forms: LinearForms) -> PrimExpr | None:
    """Return the number of iterations, from the first on, in which all of `parts` hold.
    None unless each holds up to some iteration and not after it."""
    count = loop.extent
    for part in parts:
        limit = _limit(loop.loop_var, part, forms)
        if limit is None:
            return None
        count = _lesser(ops.sub(limit, loop.min), count)
    return count if forms.bounds(count)[0] >= 0 else ops.maximum(count, 0)


def _limit(var: n.Var, part: PrimExpr, forms: LinearForms) -> PrimExpr | None:
    """The least value of `var` for which `part` does not hold, where it holds for all lesser ones."""
    found = comparison(part, forms)
    if found is None:
        return None
    terms, offset = found
    scale = sum(c for atom, c in terms if atom is var)
    rest = [(atom, c) for atom, c in terms if atom is not var]
    if scale <= 0 or any(var in free_vars(atom) for atom, _ in rest):
        return None
    # scale*v + rest + offset < 0, so v < (-rest - offset) / scale rounded up
    limit: PrimExpr = ops.const(scale - 1 - offset, var.dtype)
    for atom, c in rest:
        limit = ops.sub(limit, ops.mul(atom, c))
    return Analyzer().simplify(ops.floordiv(limit, scale))


def _lesser(a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """min(a, b), without asking where the answer is known."""
    x, y = ops.as_int(a), ops.as_int(b)
    if x is not None and y is not None:
        return a if x < y else b
    if Analyzer().can_prove(ops.less_equal(a, b)):
        return a
    return ops.minimum(a, b)


def _over(loop: n.For, low: PrimExpr, extent: PrimExpr, body: Stmt) -> Stmt | None:
    if ops.as_int(extent) == 0:
        return None
    return replace(loop, min=low, extent=extent, body=body)
