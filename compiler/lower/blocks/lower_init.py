"""Reductions that still carry their init.

The init gets a nest of its own before the reduction's loops.

    for i, k:                                  for i:
      block C: init C[i] = 0      →              block C_init: C[i] = 0
               C[i] += A[i, k]                   for k:
                                                   block C: C[i] += A[i, k]

Where the nest allows no such place (a loop that is both reduced and not, or statements in between) the init
is guarded instead. It runs where every reduced iteration is at its start.
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.lower.analysis.conditions import conjunction, conjuncts
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import free_vars, seq, substitute

Path = tuple[Stmt, ...]


@tir_pass("LowerInitBlock", gives=LoweringStage.BLOCKS)
def lower_init(func: n.PrimFunc) -> n.PrimFunc:
    """Make a reduction block's init an ordinary statement under a condition."""
    found = [(path, node) for path, node in _realizes(func.body, ()) if node.block.init is not None]
    if not found:
        return func
    names = {node.name_hint for node in walk(func.body) if isinstance(node, n.Block)}
    before: dict[n.For, list[Stmt]] = {}
    guards: set[n.Block] = set()
    for path, realize in found:
        nest = _init_nest(path, realize, names)
        if nest is None:
            guards.add(realize.block)
        else:
            before.setdefault(nest.loop, []).append(nest.body)
    return func.with_body(_rewrite(func.body, before, guards))


def _realizes(stmt: Node, path: Path) -> list[tuple[Path, n.BlockRealize]]:
    """Every realized block with the statements between it and the block around it, outermost first."""
    match stmt:
        case n.BlockRealize():
            block = stmt.block
            return [(path, stmt), *_realizes(block.body, ())]
        case n.For() | n.LetStmt() | n.AttrStmt() | n.AssertStmt() | n.Allocate() | n.While():
            return _realizes(stmt.body, (*path, stmt))
        case n.IfThenElse():
            found = _realizes(stmt.then_case, (*path, stmt))
            return found if stmt.else_case is None else found + _realizes(stmt.else_case, (*path, stmt))
        case n.SeqStmt():
            return [item for part in stmt.seq for item in _realizes(part, path)]
    return []


@dataclass(frozen=True, slots=True)
class _Nest:
    """An init nest, and the loop it goes in front of."""

    loop: n.For
    body: Stmt


def _init_nest(path: Path, realize: n.BlockRealize, names: set[str]) -> _Nest | None:
    block = realize.block
    reduced: set[n.Var] = set()
    spatial: set[n.Var] = set()
    for iter_var, value in zip(block.iter_vars, realize.iter_values):
        used = free_vars(value)
        (reduced if iter_var.iter_type is IterType.COMM_REDUCE else spatial).update(used)
    first = next((i for i, s in enumerate(path) if isinstance(s, n.For) and s.loop_var in reduced), None)
    if first is None:
        return None
    loops = [s for s in path[first:] if isinstance(s, n.For)]
    own = {loop.loop_var for loop in loops}
    if len(loops) != len(path) - first or reduced & spatial & own:
        return None
    kept_loops = [loop for loop in loops if loop.loop_var in spatial]
    dropped = own - {loop.loop_var for loop in kept_loops}
    outside = {s.loop_var for s in path[:first] if isinstance(s, n.For)}
    predicate: list[PrimExpr] = []
    for part in conjuncts(realize.predicate):
        used = free_vars(part)
        if used & dropped and used & ((spatial & own) | outside):
            return None  # whether the block runs at all hangs on loops on both sides of the place
        if not used & dropped:
            predicate.append(part)
    if any(free_vars(bound) & dropped for loop in kept_loops for bound in (loop.min, loop.extent)):
        return None
    outer = loops[0]
    return _Nest(outer, _build_nest(block, realize, kept_loops, conjunction(predicate), names))


def _build_nest(
    block: n.Block, realize: n.BlockRealize, loops: list[n.For], predicate: PrimExpr, names: set[str]
) -> Stmt:
    fresh: dict[n.Var, PrimExpr] = {
        loop.loop_var: n.Var(f"{loop.loop_var.name}_init", loop.loop_var.dtype) for loop in loops
    }
    pairs = [
        (iter_var, value)
        for iter_var, value in zip(block.iter_vars, realize.iter_values)
        if iter_var.iter_type is not IterType.COMM_REDUCE
    ]
    own: dict[n.Var, PrimExpr] = {iv.var: n.Var(f"{iv.var.name}_init", iv.var.dtype) for iv, _ in pairs}
    iter_vars = tuple(replace(iv, var=own[iv.var]) for iv, _ in pairs)
    assert block.init is not None
    init = n.Block(
        iter_vars,
        (),
        tuple(substitute_region(region, own) for region in block.writes),
        _unused(f"{block.name_hint}_init", names),
        substitute(block.init, own),
        span=block.span,
    )
    values = tuple(substitute(value, fresh) for _, value in pairs)
    body: Stmt = n.BlockRealize(values, substitute(predicate, fresh), init)
    for loop in reversed(loops):
        var = fresh[loop.loop_var]
        assert isinstance(var, n.Var)
        body = replace(
            loop, loop_var=var, min=substitute(loop.min, fresh), extent=substitute(loop.extent, fresh), body=body
        )
    return body


def substitute_region(region: n.BufferRegion, mapping: dict[n.Var, PrimExpr]) -> n.BufferRegion:
    ranges = (n.Range(substitute(r.min, mapping), substitute(r.extent, mapping)) for r in region.region)
    return n.BufferRegion(region.buffer, tuple(ranges))


def _unused(name: str, names: set[str]) -> str:
    result, count = name, 0
    while result in names:
        count += 1
        result = f"{name}_{count}"
    names.add(result)
    return result


def _rewrite(body: Stmt, before: dict[n.For, list[Stmt]], guards: set[n.Block]) -> Stmt:
    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(node, n.Block) and node.init is not None:
            assert isinstance(rebuilt, n.Block)
            rebuilt = _without_init(rebuilt, node in guards)
        if isinstance(node, n.For) and node in before:
            assert isinstance(rebuilt, Stmt)
            return seq(*before[node], rebuilt)
        return rebuilt

    result = go(body)
    assert isinstance(result, Stmt)
    return result


def _without_init(block: n.Block, guard: bool) -> n.Block:
    if not guard:
        return replace(block, init=None)
    starts = [
        ops.equal(iv.var, iv.dom.min if iv.dom is not None else 0)
        for iv in block.iter_vars
        if iv.iter_type is IterType.COMM_REDUCE
    ]
    assert block.init is not None
    return replace(block, init=None, body=seq(n.IfThenElse(conjunction(starts), block.init), block.body))
