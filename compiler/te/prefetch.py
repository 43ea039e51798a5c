"""Statements that prefetch what a later iteration of a loop will read."""

from __future__ import annotations

from compiler.arith.analyzer import Analyzer
from compiler.dtype import parse_dtype
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.placement import access, analyzer_of, hull
from compiler.schedule.core.state import loop_at
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin import intrin
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import substitute

CACHE_LINE = 64  # bytes: what one prefetch fetches


def fetch_ahead(path: tree.Path, buffer: n.Buffer, offset: int) -> Stmt | None:
    """Prefetch what the loop of `path` will read of `buffer` `offset` iterations later.
    A loop that does not read `buffer`, but computes a tensor of its shape, prefetches the places that it will write.
    None if neither holds. A cache line is fetched once; nothing outside the buffer is."""
    loop = loop_at(path)
    read = [
        access(region, realize, tree.loops_around(loop, realize)[1:])
        for realize in tree.realizes(loop)
        for region in realize.block.reads
        if region.buffer is buffer
    ]
    uses = read or [
        access(n.BufferRegion(buffer, region.region), realize, tree.loops_around(loop, realize)[1:])
        for realize in tree.realizes(loop)
        for region in realize.block.writes
        if _same_shape(region.buffer, buffer)
    ]
    if not uses:
        return None
    to_write = 0 if read else 1
    around = [node for node in path[:-1] if isinstance(node, n.For)]
    boxes = hull(analyzer_of(around), uses, buffer)  # not knowing the loop's range: one of one iteration counts
    analyzer = analyzer_of([*around, loop])
    later = {loop.loop_var: ops.add(loop.loop_var, offset)}
    line = max(CACHE_LINE * 8 // parse_dtype(buffer.dtype).bits, 1)
    loops: list[tuple[n.Var, PrimExpr]] = []
    point: list[PrimExpr] = []
    last = len(buffer.shape) - 1
    for dim, (low, extent) in enumerate(boxes):
        step = line if dim == last else 1
        index = substitute(low, later)
        count = ops.ceildiv(extent, step)
        if not ops.is_const(count, 1):
            var = n.Var(f"p{dim}", count.dtype)
            loops.append((var, count))
            analyzer.bind(var, n.Range(ops.const(0, count.dtype), count))
            index = ops.add(index, ops.mul(var, step))
        point.append(analyzer.simplify(index))
    fetch: Stmt = n.Evaluate(intrin.call("tir.prefetch", "int32", n.BufferLoad(buffer, tuple(point)), to_write, 3, 1))
    inside = _inside(analyzer, point, buffer)
    if not ops.is_const(inside, 1):
        fetch = n.IfThenElse(inside, fetch)
    for var, count in reversed(loops):
        fetch = n.For(var, ops.const(0, var.dtype), count, ForKind.SERIAL, fetch)
    return fetch


def _same_shape(one: n.Buffer, other: n.Buffer) -> bool:
    equal = Analyzer().can_prove_equal
    return len(one.shape) == len(other.shape) and all(map(equal, one.shape, other.shape))


def _inside(analyzer: Analyzer, point: list[PrimExpr], buffer: n.Buffer) -> PrimExpr:
    """The condition for `point` to be an element of `buffer`; true where that is certain."""
    result = ops.const(True)
    for index, size in zip(point, buffer.shape):
        for condition in (ops.greater_equal(index, 0), ops.less(index, size)):
            if not analyzer.can_prove(condition):
                result = ops.logical_and(result, condition)
    return result
