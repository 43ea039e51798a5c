"""Give tiles at the edge code of their own, so that inner tiles run without conditions.

    for i0 in 9:                                   for i0 in 9:
      for i1 in T.unroll(6):                         if i0*6 < 45:
        if i0*6 + i1 < 50: C[...] = ...     →          for i1 in T.unroll(6): C[...] = ...
                                                     else:
                                                       for i1 in T.unroll(2): C[...] = ...

A tile is a small array with all its uses, or else a nest of unrolled and vectorized loops. Seen from outside the tile a
condition holds for all of it, for some of it, or for none. "For some" may happen for one position of the tile only.
Then that edge tile is made with exact bounds; else it keeps the condition.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from compiler.ir.base import Node, Op
from compiler.ir.visit import children, map_children, replace, walk
from compiler.lower.analysis.conditions import TRUE, conjunction, conjuncts, guarded, is_true
from compiler.lower.analysis.guards import Guard, conditions_in, outer_bounds, read_guard, tail_values
from compiler.lower.analysis.linear import LinearForms
from compiler.lower.analysis.rename import renamed
from compiler.lower.loops.hoist_guards import hoist, remember_range
from compiler.lower.loops.simplify import NOTHING
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars, walk_stmts

TILE_ELEMENTS = 4096  # arrays up to this many elements make a tile
_MOST_EXACT = 2  # conditions whose edge tiles are made exactly; each doubles the code
_LARGE = 800  # vector operations; the edges of a tile as large are loops, not unrolled code
_IF_THEN_ELSE = Op.get("tir.if_then_else")


@tir_pass("SplitTails", opt_level=1, gives=LoweringStage.FLAT)
def split_tails(func: n.PrimFunc) -> n.PrimFunc:
    """Split loops over register tiles where the tile stops fitting.

    Every tile that has conditions gets an unconditional version.
    """
    forms = LinearForms()
    return func.with_body(_Splitter(forms).outside(func.body))


class _Splitter:
    def __init__(self, forms: LinearForms) -> None:
        self.forms = forms

    def outside(self, stmt: Stmt) -> Stmt:
        """`stmt` with the tiles in it split."""
        if _is_tile(stmt):
            return self.tile(stmt)
        if isinstance(stmt, n.For):
            remember_range(stmt, self.forms)
        return self._below(stmt)

    def _below(self, stmt: Stmt) -> Stmt:
        def go(node: Node) -> Node:
            return self.outside(node) if isinstance(node, Stmt) else node

        rebuilt = map_children(stmt, go)
        if isinstance(rebuilt, n.For) and rebuilt is not stmt:
            return self._unswitched(rebuilt)
        return rebuilt

    def _unswitched(self, loop: n.For) -> Stmt:
        """A loop around one choice that it does not influence: the choice is made outside."""
        body = loop.body
        if not isinstance(body, n.IfThenElse) or body.else_case is None or loop.kind is not ForKind.SERIAL:
            return loop
        if any(x is loop.loop_var or isinstance(x, n.BufferLoad) for x in walk(body.condition)):
            return loop
        then = replace(loop, body=body.then_case)
        other = renamed(replace(loop, body=body.else_case))
        return n.IfThenElse(body.condition, then, other)

    def tile(self, stmt: Stmt) -> Stmt:
        inside: set[n.Var] = set()
        for node in walk_stmts(stmt):
            if isinstance(node, n.For):
                remember_range(node, self.forms)
                inside.add(node.loop_var)
        view = _View(stmt, frozenset(inside), self.forms)
        if not view.exact and not view.partial:
            return self._below(stmt)
        return self._versions(view, dict(view.decided), list(view.exact), edge=False)

    def _versions(self, view: _View, chosen: dict[Hashable, PrimExpr], rest: list[_Edge], edge: bool) -> Stmt:
        """The tile for each combination of inside and edge along the conditions in `rest`."""
        if rest:
            first, *others = rest
            main: Stmt = NOTHING
            if first.has_inside:
                main = self._versions(view, {**chosen, first.guard.key: TRUE}, others, edge)
            if first.value is None:
                tail: Stmt = NOTHING
            else:
                known = {**chosen, first.guard.key: ops.const(first.value)}
                tail = guarded(first.condition, self._versions(view, known, others, edge=True))
            return tail if main is NOTHING else _choice(first.guard.always(), main, tail)
        plain = view.specialised(chosen)
        if edge:
            return renamed(hoist(_compact_code(plain), self.forms, tighten=True))
        if not view.partial:
            return self._below(hoist(plain, self.forms, tighten=False))
        inner = view.specialised({**chosen, **{g.key: TRUE for g in view.partial}})
        condition = conjunction(g.always() for g in view.partial)
        general = plain if _operations(plain) <= _LARGE else _compact_code(plain)
        general = renamed(hoist(general, self.forms, tighten=False))
        return _choice(condition, self._below(hoist(inner, self.forms, tighten=False)), general)


def _compact_code(stmt: Stmt) -> Stmt:
    """Return an edge tile with loops in place of unrolled code.
    Loops that index its local arrays stay unrolled, unless the arrays are too large for registers."""
    own = {node.buffer_var for node in walk_stmts(stmt) if isinstance(node, n.Allocate)}
    if _operations(stmt) > _LARGE:
        own = set()
    indexing: set[n.Var] = set()
    for node in walk(stmt):
        if isinstance(node, n.BufferLoad | n.BufferStore) and node.buffer.data in own:
            for index in node.indices:
                indexing |= free_vars(index)

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.For) and rebuilt.kind is ForKind.UNROLLED and rebuilt.loop_var not in indexing:
            return replace(rebuilt, kind=ForKind.SERIAL)
        return rebuilt

    result = go(stmt)
    assert isinstance(result, Stmt)
    return result


def _choice(condition: PrimExpr, then: Stmt, other: Stmt) -> Stmt:
    return n.IfThenElse(condition, then, None if other is NOTHING else other)


def _is_tile(stmt: Stmt) -> bool:
    match stmt:
        case n.Allocate() if len(stmt.extents) == 1:
            size = ops.as_int(stmt.extents[0])
            return size is not None and size <= TILE_ELEMENTS and not _allocates_in_loops(stmt)
        case n.For():
            return stmt.kind in (ForKind.VECTORIZED, ForKind.UNROLLED)
    return False


def _allocates_in_loops(stmt: n.Allocate) -> bool:
    """Whether `stmt` holds smaller tiles, for which it is a shared panel."""
    return any(
        isinstance(inside, n.Allocate)
        for node in walk_stmts(stmt.body)
        if isinstance(node, n.For)
        for inside in walk_stmts(node.body)
    )


@dataclass(frozen=True, slots=True)
class _Edge:
    """A condition with a known edge tile: the one where the outer sum is `value` (None: there is none).

    `condition` is true at the edge tile and false at positions where nothing of the tile runs. `has_inside`: all of the
    tile runs at some positions.
    """

    guard: Guard
    value: int | None
    condition: PrimExpr
    has_inside: bool


class _View:
    """The conditions in a tile, seen from outside it.

    `decided`: those that hold always or never; `exact`: those with a known edge tile; `partial`: the others.
    """

    def __init__(self, stmt: Stmt, inside: frozenset[n.Var], forms: LinearForms) -> None:
        self._stmt = stmt
        self._inside = inside
        self._forms = forms
        self._guards: dict[int, tuple[PrimExpr, Guard | None]] = {}
        self.decided: dict[Hashable, PrimExpr] = {}
        self.exact: list[_Edge] = []
        self.partial: list[Guard] = []
        seen: set[Hashable] = set()
        for part, of_statement in conditions_in(stmt):
            if isinstance(stmt, n.Allocate) and not of_statement:
                continue  # what one of the array's uses reads is no reason to copy them all
            guard = self._guard(part)
            if guard is not None and guard.key not in seen:
                seen.add(guard.key)
                self._classify(guard, of_statement)
        self.partial += [edge.guard for edge in self.exact[_MOST_EXACT:] if edge.has_inside]
        del self.exact[_MOST_EXACT:]

    def _guard(self, part: PrimExpr) -> Guard | None:
        found = self._guards.get(id(part))
        if found is None:
            found = self._guards[id(part)] = (part, read_guard(part, self._inside, self._forms))
        return found[1]

    def _classify(self, guard: Guard, of_statement: bool) -> None:
        low, high = outer_bounds(guard, self._forms)
        if high + guard.offset + guard.greatest < 0:
            self.decided[guard.key] = TRUE
        elif low + guard.offset + guard.least >= 0:
            self.decided[guard.key] = ops.const(False)
        elif of_statement and not guard.inner:
            return  # does not split the tile: it is hoisted out of it anyway
        else:
            has_inside = low + guard.offset + guard.greatest < 0
            values = tail_values(guard, self._forms) if of_statement else None
            surely = high + guard.offset + guard.least < 0
            if values is not None and (surely or _all_under(self._stmt, guard.key, self._guard)):
                condition = TRUE if surely else guard.ever()
                self.exact.append(_Edge(guard, values[0] if values else None, condition, has_inside))
            elif has_inside:
                self.partial.append(guard)

    def specialised(self, chosen: dict[Hashable, PrimExpr]) -> Stmt:
        """The tile where conditions in `chosen` are true, false, or have the given outer sum."""

        def part_of(part: PrimExpr) -> PrimExpr:
            guard = self._guard(part)
            known = None if guard is None else chosen.get(guard.key)
            if known is None:
                return part
            if known.dtype == "bool":
                return known
            assert guard is not None
            assert isinstance(known, n.IntImm)
            return guard.with_outer(known.value)

        def tested(condition: PrimExpr) -> PrimExpr:
            return conjunction(part_of(part) for part in conjuncts(condition))

        def go(node: Node) -> Node:
            rebuilt = map_children(node, go)
            match rebuilt:
                case n.IfThenElse():
                    condition = tested(rebuilt.condition)
                    if is_true(condition):
                        return rebuilt.then_case
                    if isinstance(condition, n.IntImm):
                        return rebuilt.else_case if rebuilt.else_case is not None else NOTHING
                    return replace(rebuilt, condition=condition)
                case n.Call() if rebuilt.op is _IF_THEN_ELSE:
                    condition, yes, no = tested(rebuilt.args[0]), rebuilt.args[1], rebuilt.args[2]
                    if isinstance(condition, n.IntImm):
                        return yes if condition.value else no
                    return replace(rebuilt, args=(condition, yes, no))
            return rebuilt

        result = go(self._stmt)
        assert isinstance(result, Stmt)
        return result


def _operations(stmt: Stmt) -> int:
    """About how many operations on vectors of eight the unrolled tile takes."""
    match stmt:
        case n.BufferStore():
            return 1
        case n.For():
            extent = ops.as_int(stmt.extent) or 1
            if stmt.kind is ForKind.VECTORIZED:
                extent = max(1, extent // 8)
            elif stmt.kind is not ForKind.UNROLLED:
                extent = 1
            return extent * _operations(stmt.body)
    return sum(_operations(child) for child in children(stmt) if isinstance(child, Stmt))


def _all_under(stmt: Stmt, key: Hashable, guard_of: object) -> bool:
    """Whether every effect in `stmt` is under a condition with this key."""
    assert callable(guard_of)
    match stmt:
        case n.IfThenElse():
            for part in conjuncts(stmt.condition):
                guard = guard_of(part)
                if guard is not None and guard.key == key:
                    return stmt.else_case is None
            others = [stmt.then_case] + ([] if stmt.else_case is None else [stmt.else_case])
            return all(_all_under(s, key, guard_of) for s in others)
        case n.For() | n.Allocate() | n.LetStmt() | n.AttrStmt():
            return _all_under(stmt.body, key, guard_of)
        case n.SeqStmt():
            return all(_all_under(s, key, guard_of) for s in stmt.seq)
    return False
