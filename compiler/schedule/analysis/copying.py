"""Copy statements, so that they may stand beside the originals, or in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace
from compiler.schedule.analysis.dataflow import fresh_block_name
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr

Base = tuple[PrimExpr, ...]
Places = Mapping[n.Buffer, tuple[n.Buffer, Base]]


class Copier:
    """Copies statements: every variable, block and buffer that they define is new.
    `places` maps buffers to the parts of other buffers that stand for them. `name` gives the copy of a block its name.
    A number is added if that is taken."""

    def __init__(self, func: n.PrimFunc, places: Places | None = None, name: Callable[[str], str] = str) -> None:
        self._func = func
        self._names: set[str] = set()
        self._name = name
        self._places = places or {}
        self._buffers: dict[n.Buffer, n.Buffer] = {}
        self._vars: dict[n.Var, PrimExpr] = {}
        for view, (buffer, start) in self._places.items():
            self._vars[view.data] = buffer.data
            strides = _strides(buffer)
            for stride, own in zip(view.strides, strides[len(strides) - len(view.strides) :]):
                if isinstance(stride, n.Var):
                    self._vars[stride] = own
            if isinstance(view.elem_offset, n.Var):
                offset: PrimExpr = ops.const(0, view.elem_offset.dtype)
                for index, size in zip(start, strides):
                    offset = ops.add(offset, ops.mul(index, size))
                self._vars[view.elem_offset] = offset

    def allocate(self, buffer: n.Buffer) -> n.Buffer:
        """A new buffer for one that the implementation allocates."""
        data = n.Var(buffer.data.name, buffer.data.dtype)
        self._vars[buffer.data] = data
        new = self._buffers[buffer] = replace(buffer, data=data)
        return new

    def copy(self, node: Node) -> Node:
        if isinstance(node, n.Var):
            return self._vars.get(node, node)
        self._define(node)
        rebuilt = map_children(node, self.copy)
        match rebuilt:
            case n.For() | n.Let() | n.LetStmt():
                field = "loop_var" if isinstance(rebuilt, n.For) else "var"
                return replace(rebuilt, **{field: self._vars[getattr(rebuilt, field)]})
            case n.Allocate():
                return replace(rebuilt, buffer_var=self._vars[rebuilt.buffer_var])
            case n.BufferLoad() | n.BufferStore():
                buffer, indices = self._moved(rebuilt.buffer, rebuilt.indices)
                return replace(rebuilt, buffer=buffer, indices=indices)
            case n.Block():
                return self._block(rebuilt)
            case n.BinaryOp():
                return ops.binary(type(rebuilt), rebuilt.a, rebuilt.b)
        return rebuilt

    def _define(self, node: Node) -> None:
        match node:
            case n.For():
                self._fresh(node.loop_var)
            case n.Let() | n.LetStmt():
                self._fresh(node.var)
            case n.Allocate():
                self._fresh(node.buffer_var)
            case n.Block():
                for iv in node.iter_vars:
                    self._fresh(iv.var)
                for buffer in node.alloc_buffers:
                    self.allocate(buffer)
                self.enter(node.match_buffers)
            case _:
                pass

    def _view(self, buffer: n.Buffer) -> None:
        """A new buffer for a view of a region; the sizes that are bound where it is seen are new too."""
        self._fresh(buffer.data)
        for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(size, n.Var) and size not in self._vars:
                self._fresh(size)
        moved = {name: tuple(self.expr(e) for e in getattr(buffer, name)) for name in ("shape", "strides")}
        offset = None if buffer.elem_offset is None else self.expr(buffer.elem_offset)
        self._buffers[buffer] = replace(buffer, data=self._vars[buffer.data], elem_offset=offset, **moved)

    def views(self, matches: Iterable[n.MatchBufferRegion]) -> tuple[n.MatchBufferRegion, ...]:
        """The matches of a block that was entered, over the new buffers."""
        return tuple(n.MatchBufferRegion(self._buffers[m.buffer], self._region(m.source)) for m in matches)

    def enter(self, matches: Iterable[n.MatchBufferRegion]) -> None:
        """Define the views of a block whose body is copied by itself."""
        for match in matches:
            self._view(match.buffer)

    def expr(self, expr: PrimExpr) -> PrimExpr:
        copied = self.copy(expr)
        assert isinstance(copied, PrimExpr)
        return copied

    def _fresh(self, var: n.Var) -> None:
        self._vars[var] = type(var)(var.name, var.dtype)

    def _moved(self, buffer: n.Buffer, indices: tuple[PrimExpr, ...]) -> tuple[n.Buffer, tuple[PrimExpr, ...]]:
        place = self._places.get(buffer)
        if place is None:
            return self._buffers.get(buffer, buffer), indices
        target, start = place
        skipped = len(start) - len(indices)
        return target, (*start[:skipped], *(_added(s, i) for s, i in zip(start[skipped:], indices)))

    def _block(self, block: n.Block) -> n.Block:
        name = fresh_block_name(self._func, self._name(block.name_hint), self._names)
        self._names.add(name)
        return replace(
            block,
            iter_vars=tuple(replace(iv, var=self._vars[iv.var]) for iv in block.iter_vars),
            reads=tuple(map(self._region, block.reads)),
            writes=tuple(map(self._region, block.writes)),
            name_hint=name,
            alloc_buffers=tuple(self._buffers[b] for b in block.alloc_buffers),
            match_buffers=self.views(block.match_buffers),
        )

    def _region(self, region: n.BufferRegion) -> n.BufferRegion:
        buffer, lows = self._moved(region.buffer, tuple(self.expr(r.min) for r in region.region))
        extents = [ops.const(1)] * (len(lows) - len(region.region)) + [self.expr(r.extent) for r in region.region]
        return n.BufferRegion(buffer, tuple(n.Range(low, extent) for low, extent in zip(lows, extents)))


def _added(start: PrimExpr, index: PrimExpr) -> PrimExpr:
    """The index `start` further on; a vector's lanes all move."""
    if isinstance(index, n.Ramp):
        return replace(index, base=ops.add(start, index.base))
    return ops.add(start, index)


def _strides(buffer: n.Buffer) -> list[PrimExpr]:
    """Elements from one index to the next, a dimension each."""
    if buffer.strides:
        return list(buffer.strides)
    strides: list[PrimExpr] = []
    size: PrimExpr = ops.const(1)
    for extent in reversed(buffer.shape):
        strides.insert(0, size)
        size = ops.mul(size, extent)
    return strides
