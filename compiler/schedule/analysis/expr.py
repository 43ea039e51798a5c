"""Small helpers on index expressions: substitution that folds constants, conjunctions, loop bindings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, transform, walk
from compiler.schedule.analysis.tree import with_body
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt

TRUE = ops.const(True)
Mapped = Mapping[n.Var, PrimExpr]


def subst(expr: PrimExpr, mapping: Mapped) -> PrimExpr:
    """`expr` with variables replaced and constants folded where that changed something."""
    cls = type(expr)
    if cls is n.Var or cls is n.SizeVar:
        return mapping.get(expr, expr)  # type: ignore[call-overload,no-any-return]
    if cls is n.IntImm:
        return expr
    if isinstance(expr, n.BinaryOp):
        a, b = subst(expr.a, mapping), subst(expr.b, mapping)
        return expr if a is expr.a and b is expr.b else ops.binary(cls, a, b)  # type: ignore[arg-type]

    def go(child: Node) -> Node:
        assert isinstance(child, PrimExpr)
        return subst(child, mapping)

    return map_children(expr, go)


def subst_tree(node: Stmt, mapping: Mapped) -> Stmt:
    """`subst` in every expression under `node`."""

    def go(child: Node) -> Node:
        return subst(child, mapping) if isinstance(child, PrimExpr) else map_children(child, go)

    result = go(node)
    assert isinstance(result, Stmt)
    return result


def relocated(node: Stmt, mapping: Mapped, analyzer: Analyzer) -> Stmt:
    """Substitute as `subst_tree`, and simplify places in buffers with `analyzer`.
    No 1 - 1 stays in them."""

    def plain(child: Node) -> Node | None:
        if not isinstance(child, n.BufferLoad | n.BufferStore):
            return None
        indices = tuple(map(analyzer.simplify, child.indices))
        return None if all(a is b for a, b in zip(indices, child.indices)) else replace(child, indices=indices)

    result = transform(subst_tree(node, mapping), post=plain)
    assert isinstance(result, Stmt)
    return result


def rebind(stmt: Stmt, mapping: Mapped, guard: PrimExpr = TRUE) -> Stmt:
    """Return `stmt` with loop variables replaced in loop bounds and bindings, and `guard` in predicates.

    Block bodies are not entered: they use their own iteration variables only.
    """
    if isinstance(stmt, n.BlockRealize):
        values = tuple(subst(v, mapping) for v in stmt.iter_values)
        predicate = ops.logical_and(subst(stmt.predicate, mapping), guard)
        return n.BlockRealize(values, predicate, stmt.block, stmt.span)
    if isinstance(stmt, n.For):
        low, extent = subst(stmt.min, mapping), subst(stmt.extent, mapping)
        body = rebind(stmt.body, mapping, guard)
        if low is stmt.min and extent is stmt.extent:
            return with_body(stmt, body)
        return n.For(stmt.loop_var, low, extent, stmt.kind, body, stmt.thread_binding, stmt.annotations, stmt.span)

    def go(child: Node) -> Node:
        if isinstance(child, PrimExpr):
            return subst(child, mapping)
        assert isinstance(child, Stmt)
        return rebind(child, mapping, guard)

    return map_children(stmt, go)


def conjuncts(predicate: PrimExpr) -> list[PrimExpr]:
    """The conditions that `predicate` is the conjunction of; none for true."""
    if isinstance(predicate, n.And):
        return conjuncts(predicate.a) + conjuncts(predicate.b)
    return [] if ops.is_const(predicate, 1) else [predicate]


def conjunction(conditions: Iterable[PrimExpr]) -> PrimExpr:
    return ops.logical_and(*conditions)


def variables(expr: PrimExpr) -> set[n.Var]:
    """The variables in `expr`."""
    cls = type(expr)
    if cls is n.Var:
        return {expr}  # type: ignore[arg-type]
    if cls is n.IntImm:
        return set()
    if isinstance(expr, n.BinaryOp):
        return variables(expr.a) | variables(expr.b)
    return {node for node in walk(expr) if isinstance(node, n.Var)}


def uses(expr: PrimExpr, var: n.Var) -> bool:
    return var in variables(expr)


def weighted_sum(loops: Sequence[n.Var], extents: Sequence[PrimExpr]) -> PrimExpr:
    """The index that counts nested loops of these extents: ((a * E1 + b) * E2 + c) ..., written flat."""
    total: PrimExpr | None = None
    stride: PrimExpr = ops.const(1, loops[-1].dtype)
    terms: list[PrimExpr] = []
    for var, extent in zip(reversed(loops), reversed(extents)):
        terms.append(ops.mul(var, stride))
        stride = ops.mul(stride, extent)
    for term in reversed(terms):
        total = term if total is None else ops.add(total, term)
    assert total is not None
    return total
