"""Read a sketch's loop nest off its schedule.

A sketch is replayed once, at one of its points. The steps of its trace tell which splits and fusions made a loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from compiler.arith.affine import as_affine
from compiler.dtype import parse_dtype
from compiler.errors import TunefarmError
from compiler.ir.base import Node
from compiler.ir.visit import children
from compiler.lower.blocks.split_preproc import PREPROC
from compiler.lower.loops.inject_prefetch import SOFTWARE_PREFETCH
from compiler.lower.loops.prefetch_group import NEXT_GROUP
from compiler.schedule.core.moves import Move
from compiler.schedule.core.rv import RV, ExprRV, LoopRV
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.step import Step
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from compiler.tir.visit import free_vars
from tuner.model.errors import FeatureError
from tuner.model.nest import Dim, FusedLoops, LoopPart, LoopSplit, Nest, NestAccess, NestAxis, NestLoop
from tuner.model.types import Ints
from tuner.space.repair import repair
from tuner.space.sketch import Sketch
from tuner.space.traced import TracedSketch
from tuner.task import value_ops


def nest_of(sketch: Sketch, func: n.PrimFunc, example: Sequence[int] | None = None, wide: bool = False) -> Nest:
    """Return the nest of `sketch`, a sketch of `func`, as it is at the point `example`.
    By default that is an allowed one near the middle. With `wide`, the axis of a loop that was fused is also told by
    what was split off beside it. Raises FeatureError when it has none that can be described."""
    if len(sketch.trace.sampling_steps) != len(sketch.decisions):
        raise FeatureError(f"{sketch.name}: its decisions are not those of a schedule")
    if any(step.prim == "tensorize" for step in sketch.trace.steps):
        raise FeatureError(f"{sketch.name}: what its instructions for groups of numbers do is not described")
    point = example if example is not None else _allowed_point(sketch)
    if point is None:
        raise FeatureError(f"{sketch.name}: no allowed point was found")
    try:
        return _Reader(sketch, func, point, wide).read()
    except FeatureError:
        raise
    except (TunefarmError, AttributeError, KeyError) as error:
        raise FeatureError(f"{sketch.name}: its loops cannot be described: {error}") from None


def _allowed_point(sketch: Sketch) -> tuple[int, ...] | None:
    """A point near the middle, or near smaller values. The middle can be far from what a cache holds."""
    begins = ([len(d.values) // part for d in sketch.decisions] for part in (2, 4, 8, 1 << 30))
    return next((point for begin in begins if (point := repair(sketch, begin)) is not None), None)


@dataclass
class _Leaf:
    realize: n.BlockRealize
    path: tuple[n.For, ...]

    @property
    def block(self) -> n.Block:
        return self.realize.block


@dataclass
class _Reader:
    sketch: Sketch
    func: n.PrimFunc
    point: Sequence[int]
    wide: bool
    lineage: list[LoopSplit | FusedLoops] = field(default_factory=list)
    constants: dict[n.Var, int] = field(default_factory=dict)
    roots: dict[n.Var, n.Var] = field(default_factory=dict)  # the loop of the unscheduled function each comes from
    whole: dict[n.Var, tuple[n.Var, ...]] = field(default_factory=dict)  # what a fused loop was before

    def read(self) -> Nest:
        schedule, tables = self._replay()
        leaves = _leaves(schedule.func.body)
        if not leaves:
            raise FeatureError(f"{self.sketch.name}: no block is left to describe")
        main = max(leaves, key=lambda leaf: _work(leaf.block))
        axes = tuple(_axis(iv) for iv in main.block.iter_vars)
        originals = _original_axes(self.func, main.block)
        loops = tuple(self._loop(loop, main, originals) for loop in main.path)
        fillers = {w.buffer: leaf for leaf in leaves if leaf is not main for w in leaf.block.writes}
        users = [leaf for leaf in leaves if leaf is not main and _reads(leaf.block, main.block.writes[0].buffer)]
        accesses = [self._access(region, main, fillers, users, written) for region, written in _regions(main.block)]
        counts: dict[str, int] = {}
        for step in self.sketch.trace.steps:
            counts[step.prim] = counts.get(step.prim, 0) + 1
        return Nest(
            loops=loops, axes=axes, accesses=tuple(accesses), ops=max(1, _ops(main.block)),
            dtype=main.block.writes[0].buffer.dtype, lineage=tuple(self.lineage), constants=self.constants,
            tables=tables, steps=counts, blocks=len(leaves), writes_result=self._writes_result(main, leaves),
        )  # fmt: skip

    def _writes_result(self, main: _Leaf, leaves: list[_Leaf]) -> bool:
        """Whether the main block or the one that copies its tiles writes an argument."""
        [made] = [region.buffer for region in main.block.writes]
        copying = [leaf for leaf in leaves if leaf is not main and _reads(leaf.block, made)]
        results = set(self.func.buffer_map.values())
        return any(write.buffer in results for leaf in (main, *copying) for write in leaf.block.writes)

    # -- the trace, once

    def _replay(self) -> tuple[Schedule, tuple[Ints, ...]]:
        chosen = _decisions(self.sketch, self.point)
        schedule = Schedule(self.func, seed=0)
        tables: list[Ints] = []
        outputs: dict[RV, tuple[int, int]] = {}

        def take(move: Move) -> Sequence[RV]:
            step = move.step
            before = [schedule.loop_var(i) if isinstance(i, LoopRV) else None for i in move.here.inputs]
            if move.is_drawn:
                taken = move._replace(decision=chosen[len(tables)]).take_on(schedule)
                outputs.update({rv: (len(tables), place) for place, rv in enumerate(step.outputs)})
                tables.append(_table(self.sketch, len(tables), step))
            else:
                taken = move.take_on(schedule)
                self._note(step, before, [schedule.get(rv) for rv in taken if isinstance(rv, LoopRV)], outputs)
            return taken

        self.sketch.trace.play(take)
        return schedule, tuple(tables)

    def _note(
        self, step: Step, before: Sequence[n.Var | None], made: Sequence[n.For], outputs: dict[RV, tuple[int, int]]
    ) -> None:
        """Note where loops come from, as a step says."""
        parts = tuple(loop.loop_var for loop in made)
        match step.prim, before:
            case "split", [n.Var() as parent, *_] if all(_plain(f) for f in step.inputs[1:]):
                self._seen(parent, None)
                factors = tuple(outputs[f] if isinstance(f, ExprRV) else f for f in step.inputs[1:])
                self.lineage.append(LoopSplit(parent, factors, parts))  # type: ignore[arg-type]
                self.roots.update(dict.fromkeys(parts, self.roots.get(parent, parent)))
            case "fuse", _:
                fused = tuple(v for v in before if v is not None)
                for var in fused:
                    self._seen(var, None)
                self.lineage.append(FusedLoops(fused, parts[0]))
                self.whole[parts[0]] = tuple(p for v in fused for p in self.whole.get(v, (v,)))
            case _:
                for loop in made:
                    self._seen(loop.loop_var, as_int(loop.extent))

    def _seen(self, var: n.Var, extent: int | None) -> None:
        known = var in self.constants or var in self.roots or var in self.whole
        if not known:
            if extent is None:
                raise FeatureError(f"{self.sketch.name}: nothing tells the extent of loop {var.name}")
            self.constants[var] = extent

    # -- the result

    def _loop(self, loop: n.For, main: _Leaf, originals: dict[n.Var, int]) -> NestLoop:
        parts = []
        for var in self.whole.get(loop.loop_var, (loop.loop_var,)):
            self._seen(var, as_int(loop.extent))
            axis = originals.get(self.roots.get(var, var))
            axis = _bound_axis(var, main) if axis is None else axis
            parts.append(LoopPart(var, self._axis_of_others(var, main) if axis is None and self.wide else axis))
        return NestLoop(tuple(parts), loop.kind)

    def _axis_of_others(self, var: n.Var, main: _Leaf) -> int | None:
        """The axis of what was split off the same loop: `var` itself was fused, and no index has it any more."""
        root = self.roots.get(var)
        others = (other for other, of in self.roots.items() if root is not None and of is root)
        return next((axis for other in others if (axis := _bound_axis(other, main)) is not None), None)

    def _access(
        self, region: n.BufferRegion, main: _Leaf, fillers: dict[n.Buffer, _Leaf], users: Sequence[_Leaf], written: bool
    ) -> NestAccess:
        axes = [iv.var for iv in main.block.iter_vars]
        dims = []
        for index, extent in zip(region.region, region.buffer.shape):
            strides = _strides(index.min, axes)
            dims.append(Dim(tuple((a, c) for a, c in enumerate(strides) if c), as_int(extent) or 1))
        filler = None if written else fillers.get(region.buffer)
        shared = None if filler is None else _common(filler.path, main.path)
        turned = filler is not None and _is_turned(filler)
        summed = _summed(region, main, users) if written else frozenset()
        ahead = filler is not None and PREPROC in filler.block.annotations
        handed = filler is not None and shared == 0 and not ahead
        fetched = ahead and any(loop.annotations.get(SOFTWARE_PREFETCH) == NEXT_GROUP for loop in main.path)
        size = parse_dtype(region.buffer.dtype).bytes
        return NestAccess(tuple(dims), size, written, shared, turned, summed, handed, fetched, ahead)


def _plain(factor: object) -> bool:
    return factor is None or isinstance(factor, int | ExprRV)


def _decisions(sketch: Sketch, point: Sequence[int]) -> list[int | tuple[int, ...]]:
    if isinstance(sketch, TracedSketch):
        return [domain[at] for domain, at in zip(sketch.domains, point, strict=True)]
    return list(point)


def _table(sketch: Sketch, number: int, step: Step) -> Ints:
    """Return what the decisions of a sampling step make of its outputs."""
    if step.prim == "sample_categorical":
        return np.array(dict(step.attrs)["candidates"], np.int64)[:, None]
    if step.prim == "sample_perfect_tile" and isinstance(sketch, TracedSketch):
        return np.array(sketch.domains[number], np.int64)
    raise FeatureError(f"{sketch.name}: what {step.prim} decides is no part of the features")


def _leaves(body: n.Stmt) -> list[_Leaf]:
    """The blocks that hold no others, each with the loops around it."""
    found: list[_Leaf] = []

    def visit(node: Node, path: tuple[n.For, ...]) -> None:
        if isinstance(node, n.BlockRealize) and node.block.iter_vars:
            before = len(found)
            visit(node.block.body, path)
            if len(found) > before:
                raise FeatureError(f"block {node.block.name_hint} holds other blocks")
            found.append(_Leaf(node, path))
            return
        inner = (*path, node) if isinstance(node, n.For) else path
        for child in children(node):
            visit(child, inner)

    visit(body, ())
    return found


def _axis(iv: n.IterVar) -> NestAxis:
    extent = None if iv.dom is None else as_int(iv.dom.extent)
    if extent is None:
        raise FeatureError(f"axis {iv.var.name} has no constant extent")
    return NestAxis(extent, iv.iter_type == n.IterType.COMM_REDUCE)


def _ops(block: n.Block) -> int:
    return sum(value_ops(s.value) for s in _stores(block.body))


def _stores(node: Node) -> list[n.BufferStore]:
    own = [node] if isinstance(node, n.BufferStore) else []
    return own + [store for child in children(node) for store in _stores(child)]


def _work(block: n.Block) -> int:
    return (1 + _ops(block)) * math.prod(_axis(iv).extent for iv in block.iter_vars)


def _regions(block: n.Block) -> list[tuple[n.BufferRegion, bool]]:
    output = block.writes[0].buffer
    reads = [(region, False) for region in block.reads if region.buffer is not output]
    return [*reads, (block.writes[0], True)]


def _original_axes(func: n.PrimFunc, main: n.Block) -> dict[n.Var, int]:
    """For the block `main` as it was before scheduling: the axis that each loop around it runs along."""
    for leaf in _leaves(func.body):
        name = leaf.block.name_hint
        same = main.name_hint == name or main.name_hint.startswith(f"{name}_")
        if same and len(leaf.block.iter_vars) == len(main.iter_vars):
            values = leaf.realize.iter_values
            return {v: axis for axis, v in enumerate(values) if isinstance(v, n.Var)}
    return {}


def _strides(index: n.PrimExpr, axes: Sequence[n.Var]) -> list[float]:
    """How far `index` moves on when each of the axes does."""
    affine = as_affine(index, tuple(axes))
    if affine is not None:
        return [float(abs(c)) for c in affine[0]]
    match index:
        case n.FloorDiv(a=tiled, b=n.IntImm(value=size)) if size > 0:
            return [stride / size for stride in _strides(tiled, axes)]
        case n.FloorMod(a=tiled):
            return _strides(tiled, axes)
    used = free_vars(index)
    return [float(v in used) for v in axes]


def _bound_axis(var: n.Var, main: _Leaf) -> int | None:
    """The axis whose value the loop is part of."""
    return next((axis for axis, value in enumerate(main.realize.iter_values) if var in free_vars(value)), None)


def _reads(block: n.Block, buffer: n.Buffer) -> bool:
    return any(region.buffer is buffer for region in block.reads)


def _is_turned(copy: _Leaf) -> bool:
    """Whether a block that copies at each call transposes.
    It takes neighbours from different rows of an array, or puts them there."""
    if PREPROC in copy.block.annotations or not copy.path:
        return False
    axes = [iv.var for iv in copy.block.iter_vars]
    inner = [copy.path[-1].loop_var]
    steps = [_strides(value, inner)[0] for value in copy.realize.iter_values]

    def moves(index: n.PrimExpr) -> bool:
        return any(step and stride for step, stride in zip(steps, _strides(index, axes)))

    regions = (*copy.block.reads, *copy.block.writes)
    places = [[moves(dim.min) for dim in region.region] for region in regions]
    return any(any(place) and not place[-1] for place in places)


def _summed(written: n.BufferRegion, main: _Leaf, users: Sequence[_Leaf]) -> frozenset[int]:
    """The dimensions that the single reader of a buffer adds up, inside of all loops that both share."""
    if len(users) != 1:
        return frozenset()
    [user] = users
    added = [iv.var for iv in user.block.iter_vars if iv.iter_type is n.IterType.COMM_REDUCE]
    around = [loop.loop_var for loop in main.path[: _common(user.path, main.path)]]
    own = {iv.var: value for iv, value in zip(main.block.iter_vars, main.realize.iter_values)}
    read = next(region for region in user.block.reads if region.buffer is written.buffer)
    found = set()
    for dim, (taken, made) in enumerate(zip(read.region, written.region)):
        inside = not any(free_vars(own[var]) & set(around) for var in free_vars(made.min) if var in own)
        if inside and any(var in free_vars(taken.min) for var in added):
            found.add(dim)
    return frozenset(found)


def _common(a: Sequence[n.For], b: Sequence[n.For]) -> int:
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] is b[shared]:
        shared += 1
    return shared
