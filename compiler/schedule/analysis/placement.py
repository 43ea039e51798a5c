"""Find which part of a buffer a place in the loops touches, and make loops over just that part.

A `Box` is one (least, extent) a dimension, in terms of the loops outside the place. Boxes may be larger than
what is touched, never smaller; `exact` says when they are not larger either.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.ir.visit import replace
from compiler.schedule.analysis.expr import TRUE, conjunction, conjuncts, subst, variables
from compiler.schedule.core.state import Illegal
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt

Side = tuple[PrimExpr, PrimExpr]  # least, extent
Box = tuple[Side, ...]


@dataclass(frozen=True, slots=True)
class PlacedAccess:
    """A region that a block touches.
    `values` are the values of its iteration variables. `moving` are the loops (or iteration variables) that run during
    one visit of the place, with their (least, extent)."""

    region: n.BufferRegion
    values: Mapping[n.Var, PrimExpr]
    moving: Mapping[n.Var, Side]


def access(region: n.BufferRegion, realize: n.BlockRealize, loops: Iterable[n.For]) -> PlacedAccess:
    """`region` of the block of `realize` while `loops` run."""
    values = {iv.var: v for iv, v in zip(realize.block.iter_vars, realize.iter_values)}
    return PlacedAccess(region, values, {f.loop_var: (f.min, f.extent) for f in loops})


def whole_access(region: n.BufferRegion, block: n.Block) -> PlacedAccess:
    """`region` of `block` over all of its iterations."""
    domains = {iv.var: (iv.dom.min, iv.dom.extent) for iv in block.iter_vars if iv.dom is not None}
    return PlacedAccess(region, {}, domains)


def analyzer_of(loops: Iterable[n.For]) -> Analyzer:
    """An analyzer that knows the ranges of `loops`, given outermost first."""
    analyzer = Analyzer()
    for loop in loops:
        analyzer.bind(loop.loop_var, n.Range(loop.min, loop.extent))
    return analyzer


def hull(analyzer: Analyzer, accesses: Sequence[PlacedAccess], buffer: n.Buffer) -> Box:
    """The least box that can be shown to hold all the accesses; not clipped to the buffer."""
    return tuple(
        _side(analyzer, [(a, a.region.region[d]) for a in accesses], size) for d, size in enumerate(buffer.shape)
    )


def _side(analyzer: Analyzer, ranges: Sequence[tuple[PlacedAccess, n.Range]], size: PrimExpr) -> Side:
    least: PrimExpr | None = None
    most: PrimExpr | None = None
    for item, interval in ranges:
        found = _interval(analyzer, item, interval)
        if found is None:
            return ops.const(0, size.dtype), size
        least = found[0] if least is None else _extreme(analyzer, ops.minimum, least, found[0])
        most = found[1] if most is None else _extreme(analyzer, ops.maximum, most, found[1])
    assert least is not None
    assert most is not None
    extent = analyzer.simplify(ops.add(ops.sub(most, least), 1))
    if ops.as_int(extent) is None:
        bound = analyzer.const_int_bound(extent)[1]
        whole = ops.as_int(size)
        if bound is None or (whole is not None and bound >= whole):
            if ops.as_int(size) is not None or variables(extent) & {v for a, _ in ranges for v in a.moving}:
                return ops.const(0, size.dtype), size
        else:
            extent = ops.const(bound, extent.dtype)
    return least, extent


def _interval(analyzer: Analyzer, item: PlacedAccess, interval: n.Range) -> Side | None:
    """(least, greatest) element of a region's side."""
    low = subst(interval.min, item.values)
    first = analyzer.int_set(low, item.moving)
    if first is None or ops.is_const(interval.extent, 1):
        return first
    high = ops.sub(ops.add(low, subst(interval.extent, item.values)), 1)
    last = analyzer.int_set(high, item.moving)
    return None if last is None else (first[0], last[1])


def _extreme(analyzer: Analyzer, choose, a: PrimExpr, b: PrimExpr) -> PrimExpr:  # type: ignore[no-untyped-def]
    return a if a is b else analyzer.simplify(choose(a, b))


def needed(box: Box, shape: Sequence[PrimExpr]) -> Box:
    """Clip `box`, of elements that are read, to the bounds of the buffer if both are constant.
    Elsewhere it may reach outside. A box as large as the buffer becomes the whole buffer."""
    return tuple(clipped(side, _all_of(size), widen=True) for side, size in zip(box, shape))


def made(box: Box, shape: Sequence[PrimExpr]) -> Box:
    """Clip `box`, of elements that are written, in the same way, but never enlarge it."""
    return tuple(clipped(side, _all_of(size), widen=False) for side, size in zip(box, shape))


def _all_of(size: PrimExpr) -> n.Range:
    return n.Range(ops.const(0, size.dtype), size)


def clipped(side: Side, dom: n.Range, widen: bool) -> Side:
    """Return `side` cut at the ends of `dom`, where all is constant.

    With `widen`, a side as large as `dom` becomes all of `dom`.
    """
    low, extent = ops.as_int(side[0]), ops.as_int(side[1])
    first, whole = ops.as_int(dom.min), ops.as_int(dom.extent)
    if extent is None or first is None or whole is None:
        return side
    if low is None:
        return (dom.min, dom.extent) if widen and extent >= whole else side
    start, stop = max(low, first), min(low + extent, first + whole)
    dtype = dom.extent.dtype
    return ops.const(start, dtype), ops.const(max(stop - start, 0), dtype)


def visited(realize: n.BlockRealize, loops: Sequence[n.For]) -> n.Block:
    """Restrict the block's domains to the iterations that `loops`, all those around it, visit.
    A block has fewer after a loop was split into parts, or after it moved to where a part of it is used. Raises Illegal
    where the loops leave gaps in a reduction."""
    analyzer = analyzer_of(loops)
    with analyzer.constraint(realize.predicate):
        axes = tuple(_cut_axis(analyzer, iv, v) for iv, v in zip(realize.block.iter_vars, realize.iter_values))
    for iv, value in zip(axes, realize.iter_values):
        _check_no_gaps(realize.block, iv, value, loops)
    same = all(new is old for new, old in zip(axes, realize.block.iter_vars))
    return realize.block if same else replace(realize.block, iter_vars=axes)


def _check_no_gaps(block: n.Block, iv: n.IterVar, value: PrimExpr, loops: Sequence[n.For]) -> None:
    extents = [ops.as_int(f.extent) for f in loops if f.loop_var in variables(value)]
    wanted = None if iv.dom is None else ops.as_int(iv.dom.extent)
    if is_data(iv) or wanted is None or None in extents:
        return
    if math.prod(e for e in extents if e is not None) < wanted:
        raise Illegal(
            f"the loops of block {block.name_hint!r} skip iterations of its reduction over axis {iv.var.name!r}",
            block.name_hint,
        )


def _cut_axis(analyzer: Analyzer, iv: n.IterVar, value: PrimExpr) -> n.IterVar:
    low, high = analyzer.const_int_bound(value)
    if low is None or high is None or iv.dom is None:
        return iv
    first, count = clipped((ops.const(low), ops.const(high - low + 1)), iv.dom, widen=False)
    known = ops.as_int(count)
    if known == ops.as_int(iv.dom.extent) or known is None or known < 1:
        return iv
    return replace(iv, dom=n.Range(first, count))


def is_exact(analyzer: Analyzer, item: PlacedAccess, box: Box) -> bool:
    """Return whether the iterations of a block touch all of `box`.
    It compares their number with the box's elements, of which each touches another."""
    used = {v for r in item.region.region for v in variables(subst(r.min, item.values))}
    count: PrimExpr = ops.const(1)
    for var, (_, extent) in item.moving.items():
        if var in used:
            count = ops.mul(count, extent)
    volume: PrimExpr = ops.const(1)
    for _, extent in box:
        volume = ops.mul(volume, extent)
    return analyzer.can_prove_equal(count, volume)


def conditions_outside(realize: n.BlockRealize, outside: Sequence[n.For], inside: Sequence[n.For]) -> PrimExpr | None:
    """Return the part of a block's predicate that decides by the loops `outside` whether it runs at all.
    It is for one visit of a place with the loops `inside`. None if the rest skips more than iterations outside the
    domains. Axes along which nothing is written do not count, because skipping them does not show in the result."""
    conditions = conjuncts(realize.predicate)
    if not conditions:
        return TRUE
    analyzer = analyzer_of((*outside, *inside))
    domain = TRUE
    shown = {v for region in realize.block.writes for side in region.region for v in variables(side.min)}
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        assert iv.dom is not None
        if is_data(iv) and iv.var not in shown:
            continue
        end = ops.add(iv.dom.min, iv.dom.extent)
        domain = ops.logical_and(domain, ops.greater_equal(value, iv.dom.min), ops.less(value, end))
    moving = {f.loop_var for f in inside}
    with analyzer.constraint(domain):
        left = [c for c in conditions if not analyzer.can_prove(c)]
    return None if any(variables(c) & moving for c in left) else conjunction(left)


# ---------------------------------------------------------------------------------- new loops


def new_nest(
    analyzer: Analyzer, block: n.Block, sides: Mapping[n.Var, Side], preserve_unit_loops: bool,
    predicate: PrimExpr = TRUE, domains: n.Block | None = None,
) -> Stmt:  # fmt: skip
    """Return `block` in loops of its own, one an iteration variable, in their order.
    They run over the given `sides`, by default all of the domain. If a side may reach outside the domain, the block
    gets a predicate. Loops of one iteration are left out unless `preserve_unit_loops`. `domains` is the block with less
    than its own domains."""
    loops: list[tuple[n.Var, PrimExpr]] = []
    values: list[PrimExpr] = []
    for position, iv in enumerate((block if domains is None else domains).iter_vars):
        assert iv.dom is not None
        low, extent = sides.get(iv.var, (iv.dom.min, iv.dom.extent))
        value = low
        if preserve_unit_loops or not ops.is_const(extent, 1):
            var = n.Var(f"ax{position}", iv.var.dtype)
            loops.append((var, extent))
            value = ops.add(low, var)
        values.append(value)
        predicate = ops.logical_and(predicate, _guard(analyzer, iv.dom, low, extent, value))
    nest: Stmt = n.BlockRealize(tuple(values), predicate, block)
    for var, extent in reversed(loops):
        nest = n.For(var, ops.const(0, var.dtype), extent, ForKind.SERIAL, nest)
    return nest


def _guard(analyzer: Analyzer, dom: n.Range, low: PrimExpr, extent: PrimExpr, value: PrimExpr) -> PrimExpr:
    """The condition for `value`, in [low, low + extent), to lie in the domain; true where that is certain."""
    guard = TRUE
    if low is dom.min and extent is dom.extent:
        return guard
    if not analyzer.can_prove(ops.greater_equal(low, dom.min)):
        guard = ops.greater_equal(value, dom.min)
    end = ops.add(dom.min, dom.extent)
    if not analyzer.can_prove(ops.less_equal(ops.add(low, extent), end)):
        guard = ops.logical_and(guard, ops.less(value, end))
    return guard


def narrow(
    analyzer: Analyzer, block: n.Block, write: n.BufferRegion, uses: Sequence[PlacedAccess], sides: dict[n.Var, Side]
) -> None:
    """Narrow `sides`, of the data axes of `block`, to what `uses` touch of the buffer.
    An axis keeps its domain if it is not simply an index, or if it indexes two buffers."""
    if not uses:
        return
    box = hull(analyzer, uses, write.buffer)
    for index, (low, extent) in zip(write.region, box):
        found = axis_of(index, block)
        if found is None or not is_data(found[0]):
            continue
        iv, offset = found
        assert iv.dom is not None
        side = clipped((analyzer.simplify(ops.sub(low, offset)), extent), iv.dom, widen=True)
        known = sides.get(iv.var)
        different = known is not None and not same_side(analyzer, known, side)
        sides[iv.var] = (iv.dom.min, iv.dom.extent) if different else side


def same_side(analyzer: Analyzer, a: Side, b: Side) -> bool:
    return analyzer.can_prove_equal(a[0], b[0]) and analyzer.can_prove_equal(a[1], b[1])


def axis_of(index: n.Range, block: n.Block) -> tuple[n.IterVar, int] | None:
    """Return the iteration variable v and the constant c if a region's side is the single element v + c."""
    if not ops.is_const(index.extent, 1):
        return None
    expr, offset = index.min, 0
    while isinstance(expr, n.Add | n.Sub) and isinstance(expr.b, n.IntImm):
        offset += expr.b.value if isinstance(expr, n.Add) else -expr.b.value
        expr = expr.a
    for iv in block.iter_vars:
        if iv.var is expr:
            return iv, offset
    return None


def is_data(iv: n.IterVar) -> bool:
    return iv.iter_type is IterType.DATA_PAR
