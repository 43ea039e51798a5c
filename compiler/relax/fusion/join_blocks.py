"""Join blocks of a kernel that compute element by element from one another.

    block sigmoid:   y[i, j] = sigmoid(x[i, j])            block multiply:
    block multiply:  z[i, j] = x[i, j] * y[i, j]     →       z[i, j] = let y = sigmoid(x[i, j]) in x[i, j] * y

    block reshape:   y[i] = x[i // 4, i % 4]               block tanh:
    block tanh:      z[i, j] = tanh(y[i * 4 + j])    →       z[i, j] = tanh(x[i, j])

A value that is read more than once gets a name. So nothing is computed twice, and however the values branch, the block
grows only by what is joined. A block is joined to its one reader if that computes it no more often: at the same places,
or at as many or fewer others. Sums, and what sums read, stay blocks of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.arith.linear import same_expr
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, walk
from compiler.relax.fusion.kernel_pattern import (
    BlockNest,
    Reads,
    elements,
    is_reduction,
    is_unit,
    is_unscheduled,
    nests_of,
    reads_at,
)
from compiler.schedule.analysis.dataflow import with_regions
from compiler.schedule.analysis.expr import subst
from compiler.schedule.analysis.tree import edit, with_block
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import PrimExpr
from compiler.tir.visit import seq


def joined(func: n.PrimFunc) -> n.PrimFunc:
    """Return `func` with element-wise blocks joined.
    It stays if there are none, or its body is no list of blocks."""
    nests = nests_of(func)
    body = func.body
    if nests is None or len(nests) < 2 or not isinstance(body, n.BlockRealize):
        return func
    own = set(body.block.alloc_buffers)
    left = _Joiner(nests, own).run()
    if len(left) == len(nests):
        return func
    made = {region.buffer for nest in left for region in nest.block.writes}
    local = tuple(buffer for buffer in body.block.alloc_buffers if buffer in made)
    root = replace(body.block, body=seq(*(nest.stmt for nest in left)), alloc_buffers=local)
    return func.with_body(replace(body, block=root))


@dataclass(slots=True)
class _Block:
    """A block as it is now. `store` is None for a block that nothing can be joined to."""

    nest: BlockNest
    store: n.BufferStore | None
    loads: dict[n.Buffer, list[n.BufferLoad]]
    changed: bool = False


class _Joiner:
    def __init__(self, nests: Sequence[BlockNest], own: set[n.Buffer]) -> None:
        self._own = own
        self._blocks: list[_Block | None] = [_described(nest) for nest in nests]
        self._readers: dict[n.Buffer, set[int]] = {}
        self._writers: dict[n.Buffer, int] = {}
        for place, block in enumerate(self._blocks):
            assert block is not None
            for buffer in block.loads:
                self._readers.setdefault(buffer, set()).add(place)
            for region in block.nest.block.writes:
                self._writers[region.buffer] = self._writers.get(region.buffer, 0) + 1

    def run(self) -> list[BlockNest]:
        """The nests that are left, in order."""
        for place in range(len(self._blocks) - 1, -1, -1):
            self._try(place)
        return [_rebuilt(block) for block in self._blocks if block is not None]

    def _try(self, place: int) -> None:
        """Put the block `place` into its reader, if that may be."""
        source = self._blocks[place]
        if source is None or source.store is None or not is_unscheduled(source.nest):
            return
        buffer = source.store.buffer
        readers = self._readers.get(buffer, set())
        if buffer not in self._own or self._writers[buffer] != 1 or len(readers) != 1 or place in readers:
            return
        [at] = readers
        reader = self._blocks[at]
        if reader is None or reader.store is None or at < place:
            return
        loads = reader.loads[buffer]
        first = loads[0].indices
        if any(not all(map(same_expr, load.indices, first)) for load in loads[1:]):
            return
        if len(loads) > 1 and _is_place(reader.store, buffer):
            return
        values = _values_at(source.nest.block, source.store, first)
        if values is None or not _is_worth(source.store, reader.store, loads):
            return
        value = subst(source.store.value, values)
        pointwise = reads_at(reader.store.buffer, reader.store.indices, buffer, first) is Reads.POINT
        if not pointwise:
            value = _simpler(value, reader.nest.block)
        reader.store = replace(reader.store, value=_with_value(reader.store.value, buffer, value, len(loads)))
        reader.changed = True
        self._blocks[place] = None
        for gone in source.loads:
            self._readers[gone].discard(place)
        reader.loads = _loads(reader.store)
        for held in reader.loads:
            self._readers.setdefault(held, set()).add(at)
        self._readers.pop(buffer, None)


def _described(nest: BlockNest) -> _Block:
    block = nest.block
    store = block.body if isinstance(block.body, n.BufferStore) and not is_reduction(block) else None
    if store is None:
        parts = [part for part in (block.init, block.body) if part is not None]
        return _Block(nest, None, _loads(*parts))
    return _Block(nest, store, _loads(store))


def _loads(*parts: Node) -> dict[n.Buffer, list[n.BufferLoad]]:
    found: dict[n.Buffer, list[n.BufferLoad]] = {}
    for part in parts:
        for node in walk(part):
            if isinstance(node, n.BufferLoad):
                found.setdefault(node.buffer, []).append(node)
    return found


def _values_at(block: n.Block, store: n.BufferStore, indices: Sequence[PrimExpr]) -> dict[n.Var, PrimExpr] | None:
    """Return what the axes of a block are at a place of its result.
    None where that is not an axis an index."""
    found: dict[n.Var, PrimExpr] = {}
    for axis, index in zip(store.indices, indices):
        if isinstance(axis, n.Var):
            found[axis] = ops.cast(axis.dtype, index)
        elif not isinstance(axis, n.IntImm):
            return None
    for iter_var in block.iter_vars:
        if iter_var.var not in found:
            if iter_var.dom is None or not is_unit(iter_var.dom.extent):
                return None
            found[iter_var.var] = ops.const(0, iter_var.var.dtype)
    return found


def _is_place(store: n.BufferStore, buffer: n.Buffer) -> bool:
    """Whether elements of `buffer` are used as positions, where a name for them would not be allowed."""
    places = [index for node in walk(store) if isinstance(node, n.BufferLoad) for index in node.indices]
    return any(isinstance(node, n.BufferLoad) and node.buffer is buffer for index in places for node in walk(index))


def _is_worth(source: n.BufferStore, reader: n.BufferStore, loads: Sequence[n.BufferLoad]) -> bool:
    """Whether a value is computed no more often in its reader than in its own block."""
    how = reads_at(reader.buffer, reader.indices, source.buffer, loads[0].indices)
    if how is Reads.POINT:
        return True
    return elements(reader.buffer.shape) <= elements(source.buffer.shape)


def _with_value(expr: PrimExpr, buffer: n.Buffer, value: PrimExpr, loads: int) -> PrimExpr:
    """Put `value` in the place of loads from `buffer`, under a name if there are several."""
    named = loads > 1 and not isinstance(value, n.IntImm | n.FloatImm | n.BufferLoad | n.Var)
    var = n.Var(buffer.name, value.dtype)

    def go(node: Node) -> Node:
        if isinstance(node, n.BufferLoad) and node.buffer is buffer:
            return var if named else value
        return map_children(node, go)

    made = go(expr)
    assert isinstance(made, PrimExpr)
    return n.Let(var, value, made) if named else made


def _simpler(value: PrimExpr, around: n.Block) -> PrimExpr:
    """Simplify indices in `value` by the axes of the block that it goes to."""
    analyzer = Analyzer()
    for axis in around.iter_vars:
        if axis.dom is not None:
            analyzer.bind(axis.var, axis.dom)

    def go(node: Node) -> Node:
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.BufferLoad):
            return replace(rebuilt, indices=tuple(map(analyzer.simplify, rebuilt.indices)))
        return rebuilt

    made = go(value)
    assert isinstance(made, PrimExpr)
    return made


def _rebuilt(block: _Block) -> BlockNest:
    if not block.changed or block.store is None:
        return block.nest
    inner = with_regions(replace(block.nest.block, body=block.store))
    realize = with_block(block.nest.realize, inner)
    assert isinstance(realize, n.BlockRealize)
    stmt = edit(block.nest.stmt, {block.nest.realize: realize})
    assert isinstance(stmt, n.Stmt)
    return BlockNest(stmt, realize)
