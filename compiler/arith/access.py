"""The regions that a block reads and writes, found from its body.

Loops inside the block are covered whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compiler.arith.analyzer import Analyzer, simplify
from compiler.ir.base import Node
from compiler.ir.visit import children, walk
from compiler.tir import hooks, ops
from compiler.tir import nodes as n
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.regions import read_regions, write_regions
from compiler.tir.visit import free_vars

Regions = tuple[n.BufferRegion, ...]
Found = dict[n.Buffer, list[tuple[n.Range, ...]]]


def accesses(block: n.Block) -> tuple[Regions, Regions]:
    """(reads, writes) of `block`: one region a buffer, in order of first use.

    Buffers made in the block are left out. A reduction's reads leave out the buffers that it writes.
    """
    stmts = [stmt for stmt in (block.init, block.body) if stmt is not None]
    views = {match.buffer: match.source for match in block.match_buffers}
    inner = any(isinstance(node, n.For | n.Block | n.LetStmt | n.Let) for stmt in stmts for node in walk(stmt))
    if inner or views:
        reads, writes = _Accesses(views).of(stmts)
    else:
        reads, writes = read_regions(stmts), write_regions(stmts)
    own = {*block.alloc_buffers}
    written = {region.buffer for region in writes}
    hidden = own | written if block.init is not None else own
    return (
        tuple(region for region in reads if region.buffer not in hidden),
        tuple(region for region in writes if region.buffer not in own),
    )


class _Accesses:
    """Collects regions with the variables of inner loops replaced by their whole ranges."""

    def __init__(self, views: Mapping[n.Buffer, n.BufferRegion]) -> None:
        self._views = dict(views)
        self._domains: dict[n.Var, tuple[PrimExpr, PrimExpr]] = {}
        self._hidden: set[n.Var] = set()  # variables defined inside, without a known range
        self._made: set[n.Buffer] = set()
        self._reads: Found = {}
        self._writes: Found = {}

    def of(self, stmts: Iterable[Stmt]) -> tuple[Regions, Regions]:
        for stmt in stmts:
            self._visit(stmt)
        return self._closed(self._reads), self._closed(self._writes)

    def _visit(self, node: Node) -> None:
        match node:
            case n.For():
                self._domains[node.loop_var] = (node.min, node.extent)
            case n.LetStmt() | n.Let():
                self._hidden.add(node.var)
            case n.BufferLoad():
                self._add(self._reads, node.buffer, _points(node.indices))
            case n.BufferStore():
                self._add(self._writes, node.buffer, _points(node.indices))
            case n.BlockRealize():
                self._block(node)
                return
            case _:
                pass
        for child in children(node):
            self._visit(child)

    def _block(self, node: n.BlockRealize) -> None:
        for axis in node.block.iter_vars:
            if axis.dom is not None:
                self._domains[axis.var] = (axis.dom.min, axis.dom.extent)
            else:
                self._hidden.add(axis.var)
        self._made.update(node.block.alloc_buffers)
        for region in node.block.reads:
            self._add(self._reads, region.buffer, region.region)
        for region in node.block.writes:
            self._add(self._writes, region.buffer, region.region)
        for value in node.iter_values:
            self._visit(value)

    def _add(self, found: Found, buffer: n.Buffer, dims: tuple[n.Range, ...]) -> None:
        view = self._views.get(buffer)
        if view is not None:
            buffer, dims = view.buffer, view.region
        if buffer not in self._made:
            found.setdefault(buffer, []).append(dims)

    def _closed(self, found: Found) -> Regions:
        return tuple(
            n.BufferRegion(
                buffer, tuple(self._hull([dims[i] for dims in places], size) for i, size in enumerate(buffer.shape))
            )
            for buffer, places in found.items()
        )

    def _hull(self, places: list[n.Range], size: PrimExpr) -> n.Range:
        """The least range found to hold `places`, or the whole dimension."""
        whole = n.Range(ops.const(0, size.dtype), size)
        analyzer = Analyzer()
        low = high = None
        for place in places:
            ends = self._ends(analyzer, place)
            if ends is None:
                return whole
            if low is None or high is None:
                low, high = ends
                continue
            if not analyzer.can_prove(low <= ends[0]):
                if not analyzer.can_prove(ends[0] <= low):
                    return whole
                low = ends[0]
            if not analyzer.can_prove(high >= ends[1]):
                if not analyzer.can_prove(ends[1] >= high):
                    return whole
                high = ends[1]
        assert low is not None
        assert high is not None
        return n.Range(low, analyzer.simplify(high - low + 1))

    def _ends(self, analyzer: Analyzer, place: n.Range) -> tuple[PrimExpr, PrimExpr] | None:
        """(least, greatest) index in `place` over all iterations inside; None where it is not known."""
        first, last = place.min, place.min + place.extent - 1
        used = free_vars(first) | free_vars(last)
        if used & self._hidden or any(isinstance(x, n.BufferLoad) for e in (first, last) for x in walk(e)):
            return None
        if not used & self._domains.keys():
            return first, analyzer.simplify(last)
        low, high = analyzer.int_set(first, self._domains), analyzer.int_set(last, self._domains)
        if low is None or high is None:
            return None
        ends = low[0], high[1]
        return None if any(free_vars(e) & self._domains.keys() for e in ends) else ends


def _points(indices: tuple[PrimExpr, ...]) -> tuple[n.Range, ...]:
    return tuple(_point(index) for index in indices)


def _point(index: PrimExpr) -> n.Range:
    if isinstance(index, n.Ramp):
        return n.Range(index.base, index.stride * (index.lanes - 1) + 1)
    return n.Range(index, ops.const(1, index.dtype))


class _Arithmetic:
    """The arithmetic that the reader of a text needs."""

    simplify = staticmethod(simplify)
    accesses = staticmethod(accesses)


hooks.provide(_Arithmetic())
