"""A tuner's view of a function's blocks: which can be tiled, which inlined, and what is reused where."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from compiler.arith.affine import as_affine
from compiler.dtype import holds_all_of
from compiler.ir.visit import walk
from compiler.tir import nodes as n
from compiler.tir.ops import as_int, is_const
from compiler.tir.visit import free_vars


@dataclass(frozen=True)
class BlockAxis:
    """An iteration variable of a block. `position` counts within the block's axes."""

    name: str
    extent: int
    position: int
    reduce: bool


@dataclass(frozen=True)
class BlockAccess:
    """One buffer a block touches: the axes in each of its dimensions' indices.
    `steps`: how far apart in its last dimension neighbours along an axis are, where the index is a sum of multiples
    of axes. `used_as`: the dtype its elements are cast to wherever the block loads them, if there is one that holds
    them all. `straight`: whether each index is one axis, or 0."""

    buffer: n.Buffer
    axes_by_dim: tuple[frozenset[int], ...]
    steps: tuple[tuple[int, int], ...] = ()
    used_as: str | None = None
    straight: bool = True

    @property
    def axes(self) -> frozenset[int]:
        return frozenset().union(*self.axes_by_dim)

    @property
    def innermost(self) -> frozenset[int]:
        return self.axes_by_dim[-1] if self.axes_by_dim else frozenset()


@dataclass(frozen=True)
class BlockInfo:
    """A leaf block: its axes in order, its one output, its inputs (the output itself left out)."""

    name: str
    axes: tuple[BlockAxis, ...]
    output: BlockAccess
    inputs: tuple[BlockAccess, ...]
    conditional: bool

    @property
    def spatial(self) -> tuple[BlockAxis, ...]:
        return tuple(a for a in self.axes if not a.reduce)

    @property
    def reduced(self) -> tuple[BlockAxis, ...]:
        return tuple(a for a in self.axes if a.reduce)

    @property
    def points(self) -> int:
        """How often the block's body runs."""
        return math.prod(a.extent for a in self.axes)

    @property
    def injective(self) -> bool:
        return not self.reduced

    @property
    def contraction(self) -> bool:
        """Whether the block reduces a product-like body of two or more operands.
        That pays for a register tile and packing."""
        return bool(self.reduced) and len(self.inputs) >= 2


def blocks_of(func: n.PrimFunc) -> tuple[BlockInfo, ...]:
    """The leaf blocks in program order. Blocks with symbolic extents or several outputs are left out."""
    found = []
    for node in walk(func.body):
        if isinstance(node, n.Block) and node.iter_vars and len(node.writes) == 1:
            info = _describe(node)
            if info is not None:
                found.append(info)
    return tuple(found)


def _describe(block: n.Block) -> BlockInfo | None:
    axes = []
    for position, iv in enumerate(block.iter_vars):
        extent = None if iv.dom is None else as_int(iv.dom.extent)
        if extent is None:
            return None
        axes.append(BlockAxis(iv.var.name, extent, position, iv.iter_type == n.IterType.COMM_REDUCE))
    index = {iv.var: i for i, iv in enumerate(block.iter_vars)}
    output = _access(block.writes[0], index)
    inputs = tuple(
        replace(_access(r, index), used_as=_used_as(block, r.buffer))
        for r in block.reads
        if r.buffer is not output.buffer
    )
    conditional = any(
        isinstance(e, n.Call) and getattr(e.op, "name", "") == "tir.if_then_else" for e in walk(block.body)
    )
    return BlockInfo(block.name_hint, tuple(axes), output, inputs, conditional)


def _access(region: n.BufferRegion, index: dict[n.Var, int]) -> BlockAccess:
    dims = tuple(frozenset(index[v] for v in free_vars(r.min) if v in index) for r in region.region)
    places = [as_affine(r.min, tuple(index)) for r in region.region]
    last = places[-1] if places else None
    steps = () if last is None else tuple((index[v], step) for v, step in zip(index, last[0]) if step)
    straight = all(
        place is not None and is_const(place[1], 0) and [c for c in place[0] if c] in ([], [1]) for place in places
    )
    return BlockAccess(region.buffer, dims, steps, straight=straight)


def _used_as(block: n.Block, buffer: n.Buffer) -> str | None:
    nodes = list(walk(block.body))
    loads = [e for e in nodes if isinstance(e, n.BufferLoad) and e.buffer is buffer]
    casts = [e for e in nodes if isinstance(e, n.Cast) and any(e.value is load for load in loads)]
    dtypes = {cast.dtype for cast in casts}
    if len(dtypes) != 1 or len(casts) != len(loads):
        return None
    [dtype] = dtypes
    return dtype if holds_all_of(dtype, buffer.dtype) else None


def consumers(info: BlockInfo, blocks: tuple[BlockInfo, ...]) -> tuple[BlockInfo, ...]:
    """Blocks that read what `info` writes."""
    return tuple(b for b in blocks if any(i.buffer is info.output.buffer for i in b.inputs))


def is_pointwise(info: BlockInfo, of: n.Buffer) -> bool:
    """Whether `info` reads `of` at exactly the indices it writes: an elementwise consumer.
    Padding is none, because some places read nothing of it, and neither is an inner part."""
    reads = [i for i in info.inputs if i.buffer is of]
    written = _long(info, info.output.axes_by_dim)
    made = math.prod(as_int(size) or 0 for size in of.shape)
    same = all(_long(info, r.axes_by_dim) == written and r.straight for r in reads)
    return info.injective and bool(reads) and same and info.points <= made


def epilogue_of(func: n.PrimFunc, main: BlockInfo, blocks: tuple[BlockInfo, ...]) -> str | None:
    """The name of the elementwise block that is the only reader of what `main` writes, if there is one."""
    if main.output.buffer in func.buffer_map.values():
        return None
    users = consumers(main, blocks)
    return users[0].name if len(users) == 1 and is_pointwise(users[0], main.output.buffer) else None


def _long(info: BlockInfo, dims: tuple[frozenset[int], ...]) -> tuple[frozenset[int], ...]:
    """The axes in each dimension.
    Axes of one iteration are left out, because their index may be written 0. Dimensions that one axis is spread
    over, as pixels are over the rows of an image, count as one."""
    long = [frozenset(a for a in dim if info.axes[a].extent > 1) for dim in dims]
    return tuple(axes for axes, _ in itertools.groupby(long))
