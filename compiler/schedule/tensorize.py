"""Replacing a tile of computation by a tensor intrinsic: tensorize."""

from __future__ import annotations

from collections.abc import Mapping

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node
from compiler.schedule import tree
from compiler.schedule.blockize import blockize
from compiler.schedule.dataflow import fresh_block_name
from compiler.schedule.matching import Mismatch, match_body
from compiler.schedule.state import Effect, Illegal, block_path, realize_at, replaced
from compiler.schedule.step import primitive
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr, Stmt
from compiler.tir.tensor_intrin import TensorIntrin, parameters
from compiler.tir.visit import map_children, replace

Base = tuple[PrimExpr, ...]


@primitive("block|loop", attrs={"tensor_intrin": (str,), "preserve_unit_iters": (bool,)})
def tensorize(func: n.PrimFunc, target: n.Var | str, tensor_intrin: str, preserve_unit_iters: bool) -> Effect:
    """Let a tensor intrinsic do what a loop, or a block that holds loops, does.

    The loop becomes a block first (`blockize`). Its body must be the intrinsic's description: the same loops, and the
    same stores at the same places from some start on. The implementation takes its place; the init stays.

        for i_1, j_1, k_1 in 4, 4, 4:     →   block C_o: ...
          block C: C[vi, vj] += ...             body of the implementation, at C[vi_o*4:, vj_o*4:]
    """
    intrin = TensorIntrin.get(tensor_intrin, allow_missing=True)
    if intrin is None:
        raise Illegal(f"there is no tensor intrinsic {tensor_intrin[:60]!r}", target, hint="TensorIntrin.register it")
    name = target
    if isinstance(target, n.Var):
        effect = blockize(func, target, preserve_unit_iters=preserve_unit_iters)
        func, [made] = effect.func, effect.outputs
        assert isinstance(made, str)
        name = made
    assert isinstance(name, str)
    path = block_path(func, name)
    realize = realize_at(path)
    if len(path) == 1:
        raise Illegal("the root block cannot be tensorized", name)
    root = intrin.desc.body
    assert isinstance(root, n.BlockRealize)
    analyzer = Analyzer()
    for iv in realize.block.iter_vars:
        if iv.dom is not None:
            analyzer.bind(iv.var, iv.dom)
    try:
        starts, buffers = match_body(analyzer, root.block.body, realize.block.body)
        missing = [b.name for b in parameters(intrin.desc) if b not in buffers]
        if missing:
            raise Mismatch(f"the description never uses its argument {missing[0]!r}")
    except Mismatch as differs:
        raise Illegal(
            f"block {name!r} is not what {tensor_intrin!r} describes: {differs}",
            target,
            hint="split and reorder the loops so that the inner ones are those of the description",
        ) from None
    pairs = zip(parameters(intrin.desc), parameters(intrin.impl))
    places = {impl: (buffers[desc], starts[desc]) for desc, impl in pairs}
    block = _implemented(func, realize.block, intrin.impl, places)
    return Effect(replaced(func, path, tree.with_block(realize, block)))


Places = Mapping[n.Buffer, tuple[n.Buffer, Base]]


def _implemented(func: n.PrimFunc, block: n.Block, impl: n.PrimFunc, places: Places) -> n.Block:
    """`block` with the body of `impl`, whose buffers stand at `places`."""
    root = impl.body
    if isinstance(root, n.BlockRealize):
        inner = root.block
        body, own = inner.body, inner.alloc_buffers
    else:
        body, own = root, ()
    copier = _Copier(func, places)
    allocated = tuple(copier.allocate(b) for b in own)
    new = copier.copy(body)
    assert isinstance(new, Stmt)
    return replace(block, body=new, alloc_buffers=allocated)


class _Copier:
    """Copies an implementation: every variable, block and buffer it defines is new, and its arguments are parts of
    the caller's buffers."""

    def __init__(self, func: n.PrimFunc, places: Places) -> None:
        self._func = func
        self._names: set[str] = set()
        self._places = places
        self._buffers: dict[n.Buffer, n.Buffer] = {}
        self._vars: dict[n.Var, PrimExpr] = {}
        for view, (buffer, start) in places.items():
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
                if node.match_buffers:
                    raise Illegal(f"the implementation's block {node.name_hint!r} matches buffers")
            case _:
                pass

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
        name = fresh_block_name(self._func, block.name_hint)
        while name in self._names:
            name += "_1"
        self._names.add(name)
        return replace(
            block,
            iter_vars=tuple(replace(iv, var=self._vars[iv.var]) for iv in block.iter_vars),
            reads=tuple(map(self._region, block.reads)),
            writes=tuple(map(self._region, block.writes)),
            name_hint=name,
            alloc_buffers=tuple(self._buffers[b] for b in block.alloc_buffers),
        )

    def _region(self, region: n.BufferRegion) -> n.BufferRegion:
        buffer, lows = self._moved(region.buffer, tuple(r.min for r in region.region))
        extents = [ops.const(1)] * (len(lows) - len(region.region)) + [r.extent for r in region.region]
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
