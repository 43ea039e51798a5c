"""Views of regions, made by `match_buffer`, become accesses of the buffers they look at.

    block B:                                          block B:
      W = match_buffer(A[vi*4 : vi*4 + 4, 0 : 8])  →
      W[j, k] = ...                                     A[vi*4 + j, k] = ...

A shape, stride or element offset of the view that is a variable is replaced by what it is in the region, and the
view's address by the buffer's. So `W.access_ptr(...)` points into `A`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from compiler.arith.analyzer import Analyzer
from compiler.errors import LoweringError
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.visit import walk_stmts


@tir_pass("LowerMatchBuffer")
def lower_match_buffer(func: n.PrimFunc) -> n.PrimFunc:
    """Replace views of regions by accesses of the buffers they view.

    Raises LoweringError for a view whose declared layout is not the region's.
    """
    if not any(isinstance(node, n.Block) and node.match_buffers for node in walk_stmts(func.body)):
        return func
    body = _Views().go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


class _Views:
    """The views in force: what each looks at and where it starts there."""

    def __init__(self) -> None:
        self._places: dict[n.Buffer, tuple[n.Buffer, tuple[PrimExpr, ...]]] = {}
        self._values: dict[n.Var, PrimExpr] = {}
        self._without_offset: dict[n.Var, n.Buffer] = {}  # data of views that start elsewhere and do not say so
        self._analyzer = Analyzer()

    def go(self, node: Node) -> Node:
        match node:
            case n.Var():
                if node in self._without_offset:
                    _refuse(
                        self._without_offset[node],
                        "its address is used, and where it starts is not declared",
                        hint="declare it with offset_factor=1, or an elem_offset that is a variable",
                    )
                return self._values.get(node, node)
            case n.Block():
                for match in node.match_buffers:
                    self._enter(match)
                return self._block(node)
            case n.BufferLoad() | n.BufferStore():
                rebuilt = map_children(node, self.go)
                buffer, indices = self._moved(rebuilt.buffer, rebuilt.indices)
                return rebuilt if buffer is rebuilt.buffer else replace(rebuilt, buffer=buffer, indices=indices)
        return map_children(node, self.go)

    def _block(self, block: n.Block) -> n.Block:
        plain = replace(block, match_buffers=()) if block.match_buffers else block
        rebuilt = map_children(plain, self.go)
        reads, writes = (tuple(map(self._region, regions)) for regions in (rebuilt.reads, rebuilt.writes))
        if reads == rebuilt.reads and writes == rebuilt.writes:
            return rebuilt
        return replace(rebuilt, reads=reads, writes=writes)

    def _moved(self, buffer: n.Buffer, indices: Sequence[PrimExpr]) -> tuple[n.Buffer, tuple[PrimExpr, ...]]:
        place = self._places.get(buffer)
        if place is None:
            return buffer, tuple(indices)
        target, start = place
        skipped = len(start) - len(indices)
        return target, (*start[:skipped], *(ops.add(s, i) for s, i in zip(start[skipped:], indices)))

    def _region(self, region: n.BufferRegion) -> n.BufferRegion:
        buffer, lows = self._moved(region.buffer, [dim.min for dim in region.region])
        if buffer is region.buffer:
            return region
        one = n.Range(lows[0], ops.const(1)) if lows else None
        extents = [one.extent] * (len(lows) - len(region.region)) if one is not None else []
        extents += [dim.extent for dim in region.region]
        return n.BufferRegion(buffer, tuple(n.Range(low, extent) for low, extent in zip(lows, extents)))

    # ---------------------------------------------------------------------------- a new view

    def _enter(self, match: n.MatchBufferRegion) -> None:
        view = match.buffer
        dims = [n.Range(self._expr(dim.min), self._expr(dim.extent)) for dim in match.source.region]
        source = self._region(n.BufferRegion(match.source.buffer, tuple(dims)))
        buffer, start = source.buffer, tuple(dim.min for dim in source.region)
        if view.dtype != buffer.dtype or len(view.shape) > len(start):
            shown = f"{view.dtype} with {len(view.shape)} dimensions"
            _refuse(view, f"it is {shown}, buffer {buffer.name!r} {buffer.dtype} with {len(start)}")
        skipped = len(start) - len(view.shape)
        strides = buffer.steps()
        self._set(view, "size", view.shape, [dim.extent for dim in source.region][skipped:])
        self._set(view, "stride", view.strides, strides[skipped:])
        offset = self._analyzer.simplify(buffer.offset_of(start)[0])
        if view.elem_offset is not None:
            self._set(view, "element offset", (view.elem_offset,), [offset])
        elif not ops.is_const(offset, 0):
            self._without_offset[view.data] = view
        self._places[view] = buffer, start
        self._values[view.data] = buffer.data

    def _set(self, view: n.Buffer, what: str, declared: Sequence[PrimExpr], found: Sequence[PrimExpr]) -> None:
        """Give the variables among `declared` their values; the others must be what the region has."""
        for wanted, value in zip(declared, found):
            if isinstance(wanted, n.Var) and wanted not in self._values:
                self._values[wanted] = ops.cast(wanted.dtype, value)
                continue
            a, b = ops.as_int(self._expr(wanted)), ops.as_int(value)
            if a is not None and b is not None and a != b:
                _refuse(view, f"it is declared with the {what} {a}, the region has {b}")

    def _expr(self, expr: PrimExpr) -> PrimExpr:
        result = self.go(expr)
        assert isinstance(result, PrimExpr)
        return self._analyzer.simplify(result)


def _refuse(view: n.Buffer, why: str, hint: str | None = None) -> NoReturn:
    raise LoweringError(f"match_buffer {view.name!r}: {why}", hint=hint)
