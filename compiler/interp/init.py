"""What is left of a loop over a reduction that has no iterations: the inits of the blocks in it."""

from __future__ import annotations

from compiler.ir.visit import replace, walk
from compiler.lower.analysis.conditions import conjuncts
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, Stmt
from compiler.tir.visit import free_vars, seq


def inits_without(loop: n.For) -> Stmt | None:
    """The inits of blocks in `loop` that it reduces, over the other loops in it; None when it reduces nothing."""
    reduced = {
        var
        for node in walk(loop)
        if isinstance(node, n.BlockRealize) and node.block.init is not None
        for iv, value in zip(node.block.iter_vars, node.iter_values)
        if iv.iter_type is IterType.COMM_REDUCE
        for var in free_vars(value)
    }
    return _inits(loop.body, reduced) if loop.loop_var in reduced else None


def _inits(stmt: Stmt, reduced: set[n.Var]) -> Stmt | None:
    match stmt:
        case n.For():
            body = _inits(stmt.body, reduced)
            if body is None or stmt.loop_var in reduced:
                return body
            return replace(stmt, body=body)
        case n.SeqStmt():
            found = [part for part in (_inits(item, reduced) for item in stmt.seq) if part is not None]
            return seq(*found) if found else None
        case n.IfThenElse() | n.LetStmt() | n.AttrStmt():
            field = "then_case" if isinstance(stmt, n.IfThenElse) else "body"
            body = _inits(getattr(stmt, field), reduced)
            return None if body is None else replace(stmt, **{field: body})
        case n.BlockRealize() if stmt.block.init is not None:
            return _init(stmt, reduced)
    return None


def _init(realize: n.BlockRealize, reduced: set[n.Var]) -> Stmt | None:
    """None where a loop runs over data and the reduction at once: without iterations it has no data either."""
    block = realize.block
    kept = [(iv, v) for iv, v in zip(block.iter_vars, realize.iter_values) if iv.iter_type is not IterType.COMM_REDUCE]
    if any(free_vars(value) & reduced for _, value in kept):
        return None
    gone = reduced | {iv.var for iv in block.iter_vars if iv.iter_type is IterType.COMM_REDUCE}
    guard = ops.logical_and(*(c for c in conjuncts(realize.predicate) if not free_vars(c) & gone))
    assert block.init is not None
    init = n.Block(
        tuple(iv for iv, _ in kept), (), (), block.name_hint, block.init, None, block.alloc_buffers, block.match_buffers
    )
    return n.BlockRealize(tuple(value for _, value in kept), guard, init)
