"""A kernel's use of its arguments, as fusion needs to know it.

    B[i, j] = A[i, j] * 2            ELEMWISE       element i, j reads element i, j: POINT
    C[i, j] = A[i, j] + b[j]         BROADCAST      b is read at some of the coordinates: BROADCAST
    D[j, i] = A[i, j]                INJECTIVE      each element reads one of A: INJECTIVE
    s[i] += A[i, k]                  COMM_REDUCE    A must be there as an array: REDUCED
    P[i, j] += A[i, k] * W[k, j]     OUT_ELEMWISE_FUSABLE

All follows from the blocks of the function. Several blocks are followed from the results back to the arguments.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler.arith.linear import same_expr
from compiler.ir.base import Node
from compiler.ir.visit import child_list, walk
from compiler.relax.op.core.registry import OpPatternKind
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr

ASSUMED_SIZE = 64
"""What a dimension that is not known is taken for where work is estimated."""
_CALL_WORK = 8
_MOST_LOADS = 1 << 20


class Reads(enum.IntEnum):
    """How an element of a result reads an argument."""

    POINT = 0
    BROADCAST = 1
    INJECTIVE = 2
    REDUCED = 3


@dataclass(frozen=True, slots=True)
class InputUse:
    """How a kernel reads an argument: its least regular read, and the number of reads for each result."""

    reads: Reads
    loads: float


@dataclass(frozen=True, slots=True)
class KernelPattern:
    """The facts that fusion needs of a kernel.

    `inputs` has an entry for each array that is read, in order. `work` counts the operations of a call. `rows` is the
    number of leading dimensions that a sum of rows keeps; it reduces all others, which lie last in its argument.
    """

    kind: OpPatternKind
    inputs: tuple[InputUse, ...]
    outputs: int
    work: float
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class BlockNest:
    """Loops around one block without blocks inside of it."""

    stmt: n.Stmt
    realize: n.BlockRealize

    @property
    def block(self) -> n.Block:
        return self.realize.block


def nests_of(func: n.PrimFunc) -> list[BlockNest] | None:
    """The nests that a function's body is a list of; None where it is made otherwise."""
    body = func.body
    if not isinstance(body, n.BlockRealize) or body.block.iter_vars or body.block.match_buffers or body.block.init:
        return None
    if any(buffer.strides or buffer.elem_offset is not None for buffer in func.buffer_map.values()):
        return None
    found = []
    for stmt in body.block.body.seq if isinstance(body.block.body, n.SeqStmt) else (body.block.body,):
        inner: n.Stmt = stmt
        while isinstance(inner, n.For):
            inner = inner.body
        if not isinstance(inner, n.BlockRealize) or not inner.block.iter_vars or inner.block.match_buffers:
            return None
        if any(isinstance(node, n.BlockRealize | n.While) for node in walk(inner.block.body)):
            return None
        found.append(BlockNest(stmt, inner))
    return found


def is_unscheduled(nest: BlockNest) -> bool:
    """Whether each axis of a block is one plain loop over all of it, as te makes them."""
    loops: list[n.Var] = []
    stmt: n.Stmt = nest.stmt
    while isinstance(stmt, n.For):
        if stmt.kind is not n.ForKind.SERIAL or stmt.annotations:
            return False
        loops.append(stmt.loop_var)
        stmt = stmt.body
    values = nest.realize.iter_values
    whole = ops.is_const(nest.realize.predicate, 1) and not nest.block.annotations
    return whole and len(loops) == len(values) and all(a is b for a, b in zip(loops, values))


def nest_work(nest: BlockNest) -> float:
    """Count the operations of a nest. Unknown dimensions count as `ASSUMED_SIZE`."""
    extents = [axis.dom.extent for axis in nest.block.iter_vars if axis.dom is not None]
    return elements(extents) * max(1, sum(value_work(store.value) for store in _stores(nest.block.body)))


def pattern_of(func: n.PrimFunc) -> KernelPattern | None:
    """Describe a kernel that takes arrays and then its results, as `call_tir` calls it.
    None if its blocks do not tell: its kind is OPAQUE."""
    nests = nests_of(func)
    if nests is None:
        return None
    buffers = [func.buffer_map[param] for param in func.params if param in func.buffer_map]
    written = {region.buffer for nest in nests for region in nest.block.writes}
    inputs = [buffer for buffer in buffers if buffer not in written]
    outputs = [buffer for buffer in buffers if buffer in written]
    if not outputs or buffers != [*inputs, *outputs] or len(outputs) + len(inputs) != len(buffers):
        return None
    return _Description(nests, inputs, outputs).pattern()


def is_unit(size: PrimExpr) -> bool:
    """Whether a dimension has one element."""
    return isinstance(size, n.IntImm) and size.value == 1


def is_reduction(block: n.Block) -> bool:
    return block.init is not None or any(axis.iter_type is not IterType.DATA_PAR for axis in block.iter_vars)


def elements(shape: Sequence[PrimExpr]) -> float:
    """Count the elements of a shape. Unknown dimensions count as `ASSUMED_SIZE`."""
    known = [ops.as_int(size) for size in shape]
    return math.prod(float(ASSUMED_SIZE if size is None else size) for size in known)


def reads_at(target: n.Buffer, at: Sequence[PrimExpr], source: n.Buffer, indices: Sequence[PrimExpr]) -> Reads:
    """How a store to `target[at]` reads `source[indices]`. Dimensions of one element do not count."""
    stored = [(i, size) for i, size in zip(at, target.shape) if not is_unit(size)]
    loaded = [(i, size) for i, size in zip(indices, source.shape) if not is_unit(size)]
    if len(stored) == len(loaded) and all(_same(a, b) for a, b in zip(stored, loaded)):
        return Reads.POINT
    left = iter(stored)
    if all(isinstance(one[0], n.Var) and any(_same(one, other) for other in left) for one in loaded):
        return Reads.BROADCAST
    return Reads.INJECTIVE


def _same(a: tuple[PrimExpr, PrimExpr], b: tuple[PrimExpr, PrimExpr]) -> bool:
    return same_expr(a[0], b[0]) and _same_size(a[1], b[1])


def _same_size(a: PrimExpr, b: PrimExpr) -> bool:
    known = ops.as_int(a), ops.as_int(b)
    return known[0] == known[1] if None not in known else same_expr(a, b)


def value_work(value: Node) -> int:
    """Count the operations of an expression, without those that compute positions in arrays."""
    total, stack = 0, [value]
    while stack:
        node = stack.pop()
        if isinstance(node, n.BufferLoad):
            continue
        if isinstance(node, n.Call):
            total += 1 if getattr(node.op, "name", "") == "tir.if_then_else" else _CALL_WORK
        elif isinstance(node, n.BinaryOp | n.Select):
            total += 1
        stack += child_list(node)
    return total


class _Description:
    """Goes through the blocks of a kernel, last to first."""

    def __init__(self, nests: Sequence[BlockNest], inputs: Sequence[n.Buffer], outputs: Sequence[n.Buffer]) -> None:
        self._nests = nests
        self._inputs = inputs
        self._outputs = outputs
        self._reads: dict[n.Buffer, Reads] = dict.fromkeys(outputs, Reads.POINT)
        self._loads: dict[n.Buffer, int] = dict.fromkeys(outputs, 1)

    def pattern(self) -> KernelPattern | None:
        reductions: list[n.Block] = []
        work = 0.0
        for nest in reversed(self._nests):
            block = nest.block
            stores = list(_stores(block.body))
            if not stores or not all(_at_point(block, store) for store in stores):
                return None
            work += nest_work(nest)
            reduced = is_reduction(block)
            if reduced:
                reductions.append(block)
            elif len(stores) > 1:
                return None
            for store in stores:
                self._follow(block, store, reduced)
        uses = [
            InputUse(self._reads.get(buffer, Reads.POINT), self._loads.get(buffer, 0) / len(self._outputs))
            for buffer in self._inputs
        ]
        if not reductions:
            kind = OpPatternKind(max((min(use.reads, Reads.INJECTIVE) for use in uses), default=Reads.INJECTIVE))
            return KernelPattern(kind, tuple(uses), len(self._outputs), work)
        if len(self._outputs) > 1:
            return None
        reduces = self._only_reduces(reductions)
        kind = OpPatternKind.COMM_REDUCE if reduces else OpPatternKind.OUT_ELEMWISE_FUSABLE
        rows = {_rows(block) for block in reductions}
        return KernelPattern(kind, tuple(uses), 1, work, rows.pop() if len(rows) == 1 else None)

    def _follow(self, block: n.Block, store: n.BufferStore, reduced: bool) -> None:
        """Take in what a store of a block that is needed reads."""
        target = store.buffer
        if target not in self._reads:
            return
        own = {region.buffer for region in block.writes}
        for node in _loads(block):
            if node.buffer in own:
                continue
            how = Reads.REDUCED
            if not reduced:
                how = max(reads_at(target, store.indices, node.buffer, node.indices), self._reads[target])
            self._reads[node.buffer] = max(self._reads.get(node.buffer, Reads.POINT), how)
            loads = self._loads.get(node.buffer, 0) + (1 if reduced else self._loads[target])
            self._loads[node.buffer] = min(loads, _MOST_LOADS)

    def _only_reduces(self, reductions: Sequence[n.Block]) -> bool:
        """Whether the result has an element for each sum, and the sums are of plain elements."""
        out = [size for size in self._outputs[0].shape if not is_unit(size)]
        for block in reductions:
            sizes = [size for size in block.writes[0].buffer.shape if not is_unit(size)]
            if len(sizes) != len(out) or not all(map(_same_size, sizes, out)):
                return False
            sources = {load.buffer for load in _loads(block)} - {region.buffer for region in block.writes}
            axes = {axis.var for axis in block.iter_vars}
            outer = [load for load in _loads(block) if load.buffer in sources]
            if any(not (i in axes or isinstance(i, n.IntImm)) for load in outer for i in load.indices):
                return False
            if len({load.buffer for load in outer if _reads_reduced(block, load)}) > 1:
                return False
        return True


def _reads_reduced(block: n.Block, load: n.BufferLoad) -> bool:
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type is not IterType.DATA_PAR}
    return any(node in reduced for index in load.indices for node in walk(index))


def _rows(block: n.Block) -> int | None:
    """How many leading dimensions of its argument a reduction keeps, where it reduces all others."""
    reduced = {axis.var for axis in block.iter_vars if axis.iter_type is not IterType.DATA_PAR}
    own = {region.buffer for region in block.writes}
    kept: set[int] = set()
    for load in _loads(block):
        if load.buffer in own or not _reads_reduced(block, load):
            continue
        if not all(isinstance(index, n.Var | n.IntImm) for index in load.indices):
            return None
        inner = [index in reduced for index in load.indices]
        if inner != sorted(inner) or sum(inner) != len(reduced):
            return None
        kept.add(len(inner) - sum(inner))
    return kept.pop() if len(kept) == 1 else None


def _stores(body: n.Stmt) -> Iterator[n.BufferStore]:
    for node in walk(body):
        if isinstance(node, n.BufferStore):
            yield node


def _loads(block: n.Block) -> Iterator[n.BufferLoad]:
    for part in (block.init, block.body):
        if part is not None:
            for node in walk(part):
                if isinstance(node, n.BufferLoad):
                    yield node


def _at_point(block: n.Block, store: n.BufferStore) -> bool:
    """Whether a store goes to the place that the block's axes count, each axis being one index."""
    axes = {axis.var for axis in block.iter_vars if axis.iter_type is IterType.DATA_PAR}
    seen: set[PrimExpr] = set()
    for index, size in zip(store.indices, store.buffer.shape):
        if is_unit(size) and isinstance(index, n.IntImm):
            continue
        if index not in axes or index in seen:
            return False
        seen.add(index)
    return True
