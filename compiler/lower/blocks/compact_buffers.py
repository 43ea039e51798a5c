"""Intermediate buffers shrink to the region touched while they live.

    for i in 8:                                    for i in 8:
      alloc B[32, 16]                                alloc B[4, 16]
      for j in 4, k: B[i*4 + j, k] = ...      →      for j in 4, k: B[j, k] = ...
      for j in 4, k: C[...] = B[i*4 + j, k]          for j in 4, k: C[...] = B[j, k]

A packed panel is then contiguous, and a register tile is a small array with indices of its own. Rows of a register tile
are whole vectors, though the last lanes may lie over the edge. Shared memory keeps what any thread touches, although it
is allocated in their loops. The region disregards conditions. It may reach over the original's edge, where nothing is
ever touched.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.arith.analyzer import Analyzer
from compiler.dtype import lanes_of
from compiler.ir.base import Node
from compiler.ir.visit import children, map_children, replace
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass


@dataclass(slots=True)
class _Uses:
    """How deep in loops a buffer is allocated, and every access with the loops around it."""

    depth: int
    accesses: list[tuple[tuple[PrimExpr, ...], tuple[n.For, ...]]] = field(default_factory=list)
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class _Compact:
    """The smaller buffer and where it starts in the old one."""

    buffer: n.Buffer
    start: tuple[PrimExpr, ...]


@tir_pass("CompactBufferAllocation")
def compact_buffers(func: n.PrimFunc) -> n.PrimFunc:
    """Shrink each temporary to the part of it that is used at a time.

    Its indices then count from the start of that part.
    """
    analyzer = Analyzer()
    uses: dict[n.Buffer, _Uses] = {}
    _collect(func.body, (), uses, {}, analyzer)
    plans = {
        buffer: plan
        for buffer, use in uses.items()
        if not use.opaque and (plan := _plan(buffer, use, analyzer)) is not None
    }
    return func.with_body(_rewrite(func.body, plans, analyzer)) if plans else func


def _collect(
    node: Node,
    loops: tuple[n.For, ...],
    uses: dict[n.Buffer, _Uses],
    by_data: dict[n.Var, n.Buffer],
    analyzer: Analyzer,
) -> None:
    match node:
        case n.IntImm():
            return
        case n.BinaryOp():
            _collect(node.a, loops, uses, by_data, analyzer)
            _collect(node.b, loops, uses, by_data, analyzer)
            return
        case n.For():
            analyzer.bind(node.loop_var, n.Range(node.min, node.extent))
            loops = (*loops, node)
        case n.Block():
            for buffer in node.alloc_buffers:
                uses[buffer] = _Uses(len(loops))
                by_data[buffer.data] = buffer
        case n.BufferLoad() | n.BufferStore():
            use = uses.get(node.buffer)
            if use is not None:
                shared = [loop for loop in loops[: use.depth] if _shares(loop, node.buffer.scope)]
                use.accesses.append((node.indices, (*shared, *loops[use.depth :])))
        case n.Var() if node in by_data:
            uses[by_data[node]].opaque = True
        case _:
            pass
    for child in children(node):
        _collect(child, loops, uses, by_data, analyzer)


def _shares(loop: n.For, scope: str) -> bool:
    """Whether the iterations of `loop` are threads that see one and the same buffer of `scope`."""
    if loop.thread_binding is None or not scope.startswith(("shared", "global")):
        return False
    return scope.startswith("global") or not loop.thread_binding.thread_tag.startswith("blockIdx")


def _plan(buffer: n.Buffer, use: _Uses, analyzer: Analyzer) -> _Compact | None:
    starts: list[PrimExpr] = []
    shape: list[PrimExpr] = []
    scalar = len(buffer.shape) - _vector_dims(buffer, use)
    for dim, whole in enumerate(buffer.shape):
        found = _interval(dim, use, analyzer) if dim < scalar else None
        size = ops.as_int(whole)
        beyond = size is not None and found is not None and size < found[1] <= 4 * size
        if beyond and buffer.scope == "local" and dim == len(buffer.shape) - 1:
            assert found is not None
            starts.append(found[0])
            shape.append(ops.const(found[1], whole.dtype))
        elif found is None or (size is not None and found[1] >= size):
            starts.append(ops.const(0, whole.dtype))
            shape.append(whole)
        else:
            starts.append(found[0])
            shape.append(ops.const(found[1], whole.dtype))
    if all(a is b for a, b in zip(shape, buffer.shape)):
        return None
    smaller = replace(buffer, shape=tuple(shape), strides=(), elem_offset=None)
    return _Compact(smaller, tuple(starts))


def _vector_dims(buffer: n.Buffer, use: _Uses) -> int:
    """Return how many of the last dimensions vectors reach over that are longer than a row.
    A tensor intrinsic reads several rows at once. Vectors within rows are intervals like any other."""
    lanes = max((lanes_of(index.dtype) for indices, _ in use.accesses for index in indices), default=1)
    dims = 0
    while lanes > 1 and dims < len(buffer.shape):
        dims += 1
        lanes = -(-lanes // (ops.as_int(buffer.shape[-dims]) or 1))
    return dims if dims > 1 else 0


def _interval(dim: int, use: _Uses, analyzer: Analyzer) -> tuple[PrimExpr, int] | None:
    """Return the start and length of what is touched along one dimension; None if that is not known."""
    low: PrimExpr | None = None
    high: PrimExpr | None = None
    for indices, loops in use.accesses:
        ranges = {loop.loop_var: (loop.min, loop.extent) for loop in loops}
        first, last = _ends(indices[dim])
        touched = analyzer.int_set(first, ranges)
        if touched is None:
            return None
        touched = (touched[0], ops.add(touched[1], last))
        low = _extreme(touched[0], low, analyzer, lower=True)
        high = _extreme(touched[1], high, analyzer, lower=False)
        if low is None or high is None:
            return None
    if low is None or high is None:
        return None
    length = analyzer.const_int_bound(ops.sub(high, low))[1]
    return None if length is None else (analyzer.simplify(low), length + 1)


def _ends(index: PrimExpr) -> tuple[PrimExpr, int]:
    """An index, or that of a vector's first lane, and how far behind it the last lane is."""
    match index:
        case n.Ramp(base=base, stride=n.IntImm(value=stride), lanes=lanes) if stride > 0:
            return base, stride * (lanes - 1)
    return index, 0


def _extreme(new: PrimExpr, known: PrimExpr | None, analyzer: Analyzer, lower: bool) -> PrimExpr | None:
    """The lesser (or greater) of two bounds; None when their order is not known."""
    if known is None:
        return new
    low, high = analyzer.const_int_bound(ops.sub(new, known))
    if low is not None and low >= 0:
        return known if lower else new
    if high is not None and high <= 0:
        return new if lower else known
    return None


def _moved(index: PrimExpr, start: PrimExpr, analyzer: Analyzer) -> PrimExpr:
    if isinstance(index, n.Ramp):
        return n.Ramp(_moved(index.base, start, analyzer), index.stride, index.lanes)
    return analyzer.simplify(ops.sub(index, start))


def _rewrite(body: Stmt, plans: dict[n.Buffer, _Compact], analyzer: Analyzer) -> Stmt:
    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        match rebuilt:
            case n.BufferLoad() | n.BufferStore() if (plan := plans.get(rebuilt.buffer)) is not None:
                indices = tuple(_moved(i, s, analyzer) for i, s in zip(rebuilt.indices, plan.start))
                return replace(rebuilt, buffer=plan.buffer, indices=indices)
            case n.Block() if any(b in plans for b in rebuilt.alloc_buffers):
                smaller = tuple(plans[b].buffer if b in plans else b for b in rebuilt.alloc_buffers)
                return replace(rebuilt, alloc_buffers=smaller)
        return rebuilt

    result = go(body)
    assert isinstance(result, Stmt)
    return result
