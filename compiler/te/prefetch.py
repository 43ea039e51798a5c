"""Statements that ask memory for what a later iteration of a loop will read."""

from __future__ import annotations

from compiler.arith.analyzer import Analyzer
from compiler.dtype import parse_dtype
from compiler.schedule import tree
from compiler.schedule.placement import access, analyzer_of, hull
from compiler.schedule.state import loop_at
from compiler.tir import intrin, ops
from compiler.tir import nodes as n
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import substitute

CACHE_LINE = 64  # bytes: what one prefetch fetches


def fetch_ahead(path: tree.Path, buffer: n.Buffer, offset: int) -> Stmt | None:
    """Prefetches of what the loop that `path` leads to will read of `buffer` `offset` iterations later; None when it
    reads none of it. A line of the cache is fetched once; nothing outside the buffer is."""
    loop = loop_at(path)
    uses = [
        access(region, realize, tree.loops_around(loop, realize)[1:])
        for realize in tree.realizes(loop)
        for region in realize.block.reads
        if region.buffer is buffer
    ]
    if not uses:
        return None
    analyzer = analyzer_of(node for node in path if isinstance(node, n.For))
    later = {loop.loop_var: ops.add(loop.loop_var, offset)}
    line = max(CACHE_LINE * 8 // parse_dtype(buffer.dtype).bits, 1)
    loops: list[tuple[n.Var, PrimExpr]] = []
    point: list[PrimExpr] = []
    last = len(buffer.shape) - 1
    for dim, (low, extent) in enumerate(hull(analyzer, uses, buffer)):
        step = line if dim == last else 1
        index = substitute(low, later)
        count = ops.ceildiv(extent, step)
        if not ops.is_const(count, 1):
            var = n.Var(f"p{dim}", count.dtype)
            loops.append((var, count))
            analyzer.bind(var, n.Range(ops.const(0, count.dtype), count))
            index = ops.add(index, ops.mul(var, step))
        point.append(analyzer.simplify(index))
    fetch: Stmt = n.Evaluate(intrin.call("tir.prefetch", "int32", n.BufferLoad(buffer, tuple(point)), 0, 3, 1))
    inside = _inside(analyzer, point, buffer)
    if not ops.is_const(inside, 1):
        fetch = n.IfThenElse(inside, fetch)
    for var, count in reversed(loops):
        fetch = n.For(var, ops.const(0, var.dtype), count, ForKind.SERIAL, fetch)
    return fetch


def _inside(analyzer: Analyzer, point: list[PrimExpr], buffer: n.Buffer) -> PrimExpr:
    """The condition for `point` to be an element of `buffer`; true where that is certain."""
    result = ops.const(True)
    for index, size in zip(point, buffer.shape):
        for condition in (ops.greater_equal(index, 0), ops.less(index, size)):
            if not analyzer.can_prove(condition):
                result = ops.logical_and(result, condition)
    return result
