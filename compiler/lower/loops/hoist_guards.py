"""Conditions move out of the loops they do not depend on, and into the bounds of the loop they do.

    for i in 6:                                     if j*16 < 50:
      for j1 in 16:                                   for i in min(6, 50 - i0*6):
        if i0*6 + i < 50 and j*16 < 50:      →          for j1 in 16:
          C[...] = ...                                    C[...] = ...

A serial loop takes any condition that bounds it from above. An unrolled or vectorized loop must keep a known
number of iterations, so it takes only constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.lower.analysis.conditions import conjunction, conjuncts, guarded
from compiler.lower.analysis.guards import comparison
from compiler.lower.analysis.linear import LinearForms
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars, seq


@tir_pass("HoistGuards", opt_level=1, gives=LoweringStage.FLAT)
def hoist_guards(func: n.PrimFunc) -> n.PrimFunc:
    """Evaluate a condition outside the loops that it does not depend on.

    Those that bound a loop become its bounds.
    """
    forms = LinearForms()
    return func.with_body(hoist(func.body, forms, tighten=True))


def hoist(stmt: Stmt, forms: LinearForms, tighten: bool) -> Stmt:
    """Hoist conditions in `stmt`, and shorten loops if `tighten` is set.
    Records the loops' ranges on the way."""

    def change(rebuilt: Node) -> Node:
        match rebuilt:
            case n.For():
                return _hoist_from_loop(rebuilt, forms, tighten)
            case n.SeqStmt():
                return _common(rebuilt)
            case n.IfThenElse(else_case=None):
                inner = rebuilt.then_case
                if isinstance(inner, n.IfThenElse) and inner.else_case is None:
                    parts = conjuncts(rebuilt.condition) + conjuncts(inner.condition)
                    return n.IfThenElse(conjunction(parts), inner.then_case)
            case n.IfThenElse():
                return _common_to_both(rebuilt)
            case n.Allocate() | n.AttrStmt():
                inner = rebuilt.body
                if isinstance(inner, n.IfThenElse) and inner.else_case is None and movable(inner.condition):
                    return n.IfThenElse(inner.condition, replace(rebuilt, body=inner.then_case))
        return rebuilt

    return changed_from_leaves(stmt, forms, change)


def changed_from_leaves(stmt: Stmt, forms: LinearForms, change: Callable[[Node], Node]) -> Stmt:
    """Apply `change` to each statement whose parts are changed already.
    `forms` knows the ranges of the loops around it."""

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        if isinstance(node, n.For):
            remember_range(node, forms)
        return change(map_children(node, go))

    result = go(stmt)
    assert isinstance(result, Stmt)
    return result


def remember_range(loop: n.For, forms: LinearForms) -> None:
    """Tell `forms` the range of a loop's variable."""
    low, high = forms.bounds(loop.min)
    forms.ranges[loop.loop_var] = (low, max(high + forms.bounds(loop.extent)[1] - 1, high))


def movable(condition: PrimExpr) -> bool:
    """Return whether a condition means the same wherever its variables exist.
    It reads no memory, and its divisors are never 0, even if a loop does not run."""
    return not any(
        isinstance(x, n.BufferLoad | n.Call)
        or (isinstance(x, n.FloorDiv | n.FloorMod | n.Div | n.Mod) and not isinstance(x.b, n.IntImm))
        for x in walk(condition)
    )


def _hoist_from_loop(loop: n.For, forms: LinearForms, tighten: bool) -> Stmt:
    body = loop.body
    if not isinstance(body, n.IfThenElse) or body.else_case is not None:
        return loop
    out: list[PrimExpr] = []
    stay: list[PrimExpr] = []
    extent = loop.extent
    for part in conjuncts(body.condition):
        if not movable(part):
            stay.append(part)
        elif loop.loop_var not in free_vars(part):
            out.append(part)
        elif tighten and (shorter := _shortened(loop, extent, part, forms)) is not None:
            extent = shorter
        else:
            stay.append(part)
    if not out and extent is loop.extent:
        return loop
    inner = replace(loop, extent=extent, body=guarded(conjunction(stay), body.then_case))
    return guarded(conjunction(out), inner)


def _shortened(loop: n.For, extent: PrimExpr, part: PrimExpr, forms: LinearForms) -> PrimExpr | None:
    """The loop's extent once `part`, which bounds its variable from above, always holds; or None."""
    found = comparison(part, forms)
    if found is None:
        return None
    terms, offset = found
    scale = next((c for atom, c in terms if atom is loop.loop_var), 0)
    rest = [(atom, c) for atom, c in terms if atom is not loop.loop_var]
    if scale <= 0 or any(loop.loop_var in free_vars(atom) for atom, _ in rest):
        return None
    constant = not rest and isinstance(extent, n.IntImm) and isinstance(loop.min, n.IntImm)
    if loop.kind is not ForKind.SERIAL and not constant:
        return None
    # scale*v + rest + offset < 0, so v < (-rest - offset) / scale rounded up
    limit: PrimExpr = ops.const(-offset, loop.loop_var.dtype)
    for atom, c in rest:
        limit = ops.sub(limit, ops.mul(atom, c))
    if scale > 1:
        limit = ops.floordiv(ops.add(limit, scale - 1), scale)
    shorter = ops.minimum(extent, ops.sub(limit, loop.min))
    # a loop's extent is a count: it may not be negative where others rely on it
    return shorter if forms.bounds(shorter)[0] >= 0 else ops.maximum(shorter, 0)


def _common(sequence: n.SeqStmt) -> Stmt:
    """Conditions that every part of a sequence has, taken out of it."""
    shared, rest = _shared(sequence.seq)
    return n.IfThenElse(conjunction(shared), seq(*rest)) if shared else sequence


def _common_to_both(choice: n.IfThenElse) -> Stmt:
    """Conditions that both sides of a choice have, taken out of it."""
    assert choice.else_case is not None
    shared, rest = _shared((choice.then_case, choice.else_case))
    if not shared or not movable(choice.condition):
        return choice
    then, other = rest
    return n.IfThenElse(conjunction(shared), n.IfThenElse(choice.condition, then, other))


def _shared(stmts: Sequence[Stmt]) -> tuple[list[PrimExpr], list[Stmt]]:
    """Split off the conditions that all of `stmts` have in common; return them and the rest."""
    guards = [s for s in stmts if isinstance(s, n.IfThenElse) and s.else_case is None]
    if len(guards) < len(stmts):
        return [], []
    tests = [conjuncts(guard.condition) for guard in guards]
    shared = [c for c in tests[0] if movable(c) and all(any(_same(c, d) for d in other) for other in tests[1:])]
    rest: list[Stmt] = []
    for guard, own in zip(guards, tests):
        left = conjunction(c for c in own if not any(_same(c, d) for d in shared))
        rest.append(guarded(left, guard.then_case))
    return shared, rest


def _same(a: PrimExpr, b: PrimExpr) -> bool:
    """Whether two conditions are the same expression over the same variables."""
    if a is b:
        return True
    if type(a) is not type(b) or a.dtype != b.dtype:
        return False
    match a, b:
        case (n.BinaryOp(), n.BinaryOp()):
            return _same(a.a, b.a) and _same(a.b, b.b)
        case (n.IntImm(), n.IntImm()):
            return a.value == b.value
        case (n.Not(), n.Not()):
            return _same(a.a, b.a)
    return False
