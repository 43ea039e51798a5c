"""Put a tensor intrinsic in the place of loops that compute the same.

    for i_outer, j_outer in 8, 8:             for i_outer, j_outer in 8, 8:
      for i_inner, j_inner, k in 4, 4, 16:      block C: intrinsic on
        block C: C[vi, vj] += ...         →       C[i_outer*4 : +4, j_outer*4 : +4],
                                                  A[i_outer*4 : +4, 0 : 16], ...

Both sides are compared as blocks. The replaced loops must run over as many points as the intrinsic has. At each point
the block must do what the intrinsic does. The indices may differ by an offset that the outer loops decide.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from compiler.arith.analyzer import Analyzer
from compiler.ir.base import Node
from compiler.ir.structural import structural_equal
from compiler.ir.visit import map_children, replace, walk
from compiler.lower.analysis.conditions import conjuncts
from compiler.lower.analysis.rename import renamed
from compiler.schedule.analysis import tree
from compiler.schedule.core.state import Illegal
from compiler.te.layouts import addressed, fresh_view, over_buffers
from compiler.te.prim_func import build_func
from compiler.te.tensor_intrin import TensorIntrin
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType, PrimExpr, Stmt
from compiler.tir.visit import free_vars, substitute

Access = n.BufferLoad | n.BufferStore


class TensorizedPart(enum.Enum):
    """The statement of the intrinsic that replaces the loops: the whole, or one half of a reduction."""

    BODY = "body"
    RESET = "reduce_init"
    UPDATE = "reduce_update"


def tensorized(loop: n.For, around: Sequence[n.For], intrin: TensorIntrin, part: TensorizedPart) -> n.BlockRealize:
    """Return the block that computes `loop`, inside the loops `around`, with `part` of `intrin`.
    Raises Illegal."""
    return _Tile(loop, around, intrin, part).call()


@dataclass(frozen=True, slots=True)
class _Point:
    """One point of the intrinsic: its axes and its statements, over buffers of its own."""

    axes: tuple[n.IterVar, ...]
    statements: tuple[Stmt, ...]
    buffers: tuple[n.Buffer, ...]


def _point_of(intrin: TensorIntrin, part: TensorizedPart) -> _Point:
    built = build_func(intrin.tensors, intrin.name)
    assert isinstance(built.func.body, n.BlockRealize)
    (realize,) = tree.realizes(built.func.body.block.body)
    block = realize.block
    data = tuple(iv for iv in block.iter_vars if iv.iter_type is IterType.DATA_PAR)
    whole = (block.body,) if block.init is None else (block.init, block.body)
    axes, statements = {
        TensorizedPart.BODY: (block.iter_vars, whole),
        TensorizedPart.RESET: (data, whole[:1]),
        TensorizedPart.UPDATE: (block.iter_vars, whole[-1:]),
    }[part]
    return _Point(axes, statements, tuple(built.buffers[tensor] for tensor in intrin.tensors))


class _Tile:
    """The loops to be replaced, and how their block's variables follow from the intrinsic's axes.
    Axes of one iteration count on neither side."""

    def __init__(self, loop: n.For, around: Sequence[n.For], intrin: TensorIntrin, part: TensorizedPart) -> None:
        self.loop, self.intrin, self.part = loop, intrin, part
        found = tree.realizes(loop)
        if len(found) != 1:
            names = ", ".join(r.block.name_hint for r in found)
            raise Illegal(f"loop {loop.loop_var.name!r} holds several blocks: {names}", loop.loop_var)
        self.realize = found[0]
        self.block = self.realize.block
        self.point = _point_of(intrin, part)
        self.analyzer = Analyzer()
        self.inner = {f.loop_var: (f.min, f.extent) for f in tree.loops_around(loop, self.realize)}
        for node in (*around, *tree.loops_around(loop, self.realize)):
            self.analyzer.bind(node.loop_var, n.Range(node.min, node.extent))
        for axis in self.point.axes:
            assert axis.dom is not None
            self.analyzer.bind(axis.var, axis.dom)

    def _refuse(self, why: str, hint: str | None = None) -> NoReturn:
        raise Illegal(f"{self.intrin.name!r} does not fit here: {why}", self.loop.loop_var, hint)

    def call(self) -> n.BlockRealize:
        stmt = getattr(self.intrin, self.part.value)
        if stmt is None:
            self._refuse(
                f"it has no {self.part.value}",
                hint="return (body, reduce_init, reduce_update), or keep all reduction loops inside the tensorized one",
            )
        inside = set(self.inner)
        if any(free_vars(c) & inside for c in conjuncts(self.realize.predicate)):
            self._refuse("the tile hangs over the edge", hint="split by factors that divide the extents")
        start = {var: low for var, (low, _) in self.inner.items()}
        values = tuple(self.analyzer.simplify(substitute(v, start)) for v in self.realize.iter_values)
        regions = self._regions(self._axes_of_intrinsic(values))
        return self._realize(stmt, values, regions)

    # ------------------------------------------------------------------------ the variables

    def _axes_of_intrinsic(self, starts: Sequence[PrimExpr]) -> dict[n.Var, PrimExpr]:
        """The block's variables: their value at the tile's start plus the intrinsic's axes."""
        inside = set(self.inner)
        moving = [
            (iv, ops.sub(value, start))
            for iv, value, start in zip(self.block.iter_vars, self.realize.iter_values, starts)
            if free_vars(value) & inside
        ]
        meaning: dict[n.Var, PrimExpr] = {}
        for kind, what in ((IterType.DATA_PAR, "data"), (IterType.COMM_REDUCE, "reduction")):
            mine = [(iv, local) for iv, local in moving if iv.iter_type is kind and self._extent(local) != 1]
            theirs = [axis for axis in self.point.axes if axis.iter_type is kind and not _is_unit(axis)]
            if len(mine) != len(theirs):
                self._refuse(f"it has {len(theirs)} {what} axes, the loops run over {len(mine)}")
            for (iv, local), axis in zip(mine, theirs):
                self._check_extent(iv, local, axis)
                meaning[iv.var] = ops.add(iv.var, axis.var)
        points = [ops.as_int(extent) for _, extent in self.inner.values()]
        wanted = [ops.as_int(axis.dom.extent) for axis in self.point.axes if axis.dom is not None]
        if _product(points) != _product(wanted):
            self._refuse(f"it has {_product(wanted)} points, the loops {_product(points)}")
        return meaning

    def _extent(self, local: PrimExpr) -> int | None:
        """Return how many values `local`, which starts at 0, takes in the tile; None if that is not known."""
        span = self.analyzer.int_set(local, self.inner)
        last = None if span is None else ops.as_int(self.analyzer.simplify(span[1]))
        return None if last is None else last + 1

    def _check_extent(self, iv: n.IterVar, local: PrimExpr, axis: n.IterVar) -> None:
        assert axis.dom is not None
        found, extent = self._extent(local), ops.as_int(axis.dom.extent)
        if found is None or found != extent:
            runs = "an unknown number of" if found is None else str(found)
            self._refuse(
                f"along axis {iv.var.name!r} of block {self.block.name_hint!r} the loops run over {runs} elements, its "
                f"axis {axis.var.name!r} over {extent}"
            )

    # -------------------------------------------------------------------------- the regions

    def _regions(self, meaning: Mapping[n.Var, PrimExpr]) -> dict[n.Buffer, n.BufferRegion]:
        """The region that stands for each buffer of the intrinsic.
        Raises Illegal if the block does something else than the intrinsic."""
        init = () if self.block.init is None else (self.block.init,)
        mine = [substitute(stmt, meaning) for stmt in (*init, self.block.body)]
        theirs = self.point.statements
        pairs = list(zip(_accesses(mine), _accesses(theirs)))
        regions: dict[n.Buffer, n.BufferRegion] = {}
        for access, wanted in pairs:
            region = self._region(access, wanted)
            known = regions.setdefault(wanted.buffer, region)
            if known.buffer is not region.buffer or not all(
                self.analyzer.can_prove_equal(a.min, b.min) for a, b in zip(known.region, region.region)
            ):
                self._refuse(f"{wanted.buffer.name!r} would stand for different parts of memory")
        local = {access: wanted.buffer for access, wanted in pairs}
        shown = [self._localised(stmt, local, regions) for stmt in mine]
        same = len(shown) == len(theirs) and all(
            structural_equal(a, self._localised(b, {}, {})) for a, b in zip(shown, theirs)
        )
        if not same:
            self._refuse(f"block {self.block.name_hint!r} computes something else")
        return regions

    def _region(self, access: Access, wanted: Access) -> n.BufferRegion:
        """Where the intrinsic's buffer begins in the block's, given one access of each."""
        extra = len(access.indices) - len(wanted.indices)
        if extra < 0 or access.buffer.dtype != wanted.buffer.dtype:
            self._refuse(f"{access.buffer.name!r} cannot stand for {wanted.buffer.name!r}")
        own = {axis.var for axis in self.point.axes}
        zero = ops.const(0)
        ranges: list[n.Range] = []
        indices = (*[zero] * extra, *wanted.indices)
        sizes = (*[ops.const(1)] * extra, *wanted.buffer.shape)
        for index, local, size in zip(access.indices, indices, sizes):
            offset = self.analyzer.simplify(ops.sub(index, local))
            if free_vars(offset) & own:
                self._refuse(f"{access.buffer.name!r} is read in another order than {wanted.buffer.name!r}")
            ranges.append(n.Range(offset, ops.cast(offset.dtype, size)))
        return n.BufferRegion(access.buffer, tuple(ranges))

    def _localised(
        self, stmt: Stmt, local: Mapping[Access, n.Buffer], regions: Mapping[n.Buffer, n.BufferRegion]
    ) -> Stmt:
        """`stmt` with its accesses made to the intrinsic's buffers, and all indices in normal form."""

        def go(node: Node) -> Node:
            rebuilt = map_children(node, go)
            if not isinstance(rebuilt, n.BufferLoad | n.BufferStore):
                return rebuilt
            buffer, indices = rebuilt.buffer, rebuilt.indices
            if node in local:
                buffer = local[node]  # type: ignore[index]
                region = regions[buffer].region[len(indices) - len(buffer.shape) :]
                indices = indices[len(indices) - len(buffer.shape) :]
                indices = tuple(ops.sub(index, side.min) for index, side in zip(indices, region))
            return replace(rebuilt, buffer=buffer, indices=tuple(map(self.analyzer.simplify, indices)))

        result = go(stmt)
        assert isinstance(result, Stmt)
        return result

    # ----------------------------------------------------------------------------- the call

    def _realize(
        self, stmt: Stmt, values: tuple[PrimExpr, ...], regions: Mapping[n.Buffer, n.BufferRegion]
    ) -> n.BlockRealize:
        views: dict[n.Buffer, n.Buffer] = {}
        matches: list[n.MatchBufferRegion] = []
        reads: list[n.BufferRegion] = []
        outputs = self.point.buffers[len(self.intrin.inputs) :]
        for buffer, local in zip(self.intrin.buffers, self.point.buffers):
            if local in regions:
                region = regions[local]
                view = fresh_view(buffer, region.buffer.scope)
                views[buffer] = view
                matches.append(n.MatchBufferRegion(view, region))
                if local not in outputs or self.part is TensorizedPart.UPDATE:
                    reads.append(region)
        own = {t: n.decl_buffer(t.shape, t.dtype, t.name, scope=t.scope) for t in self.intrin.temporaries}
        body = over_buffers(renamed(stmt), views | own)
        used = {node.buffer for node in walk(body) if isinstance(node, n.BufferLoad | n.BufferStore)}
        held = addressed(body)
        for buffer in self.intrin.buffers:
            if buffer in used or buffer.data in held:
                self._refuse(f"its {self.part.value} uses {buffer.name!r}, which this part does not touch")
        block = n.Block(
            self.block.iter_vars, tuple(reads), tuple(regions[b] for b in outputs), self.block.name_hint, body,
            None, tuple(own.values()), tuple(matches), self.block.annotations, self.block.span,
        )  # fmt: skip
        return n.BlockRealize(values, self.realize.predicate, block, self.realize.span)


def _is_unit(axis: n.IterVar) -> bool:
    return axis.dom is not None and ops.is_const(axis.dom.extent, 1)


def _accesses(stmts: Sequence[Stmt]) -> list[Access]:
    return [node for stmt in stmts for node in walk(stmt) if isinstance(node, n.BufferLoad | n.BufferStore)]


def _product(sizes: Sequence[int | None]) -> int:
    result = 1
    for size in sizes:
        result *= size or 0
    return result
