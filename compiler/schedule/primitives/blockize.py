"""Making a block of loops and the blocks in them: blockize.

An axis bound to `io*16 + ii`, with `ii` inside, becomes an axis `vo` of the new block, bound to `io`, and inside it is
bound to `vo*16 + ii`. So each iteration of the new block is a tile, and what was in the loops stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.arith.analyzer import Analyzer
from compiler.arith.linear import expr_key
from compiler.ir.visit import replace
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import Member, check_unordered, common_prefix, fresh_block_name, scope_around
from compiler.schedule.analysis.expr import TRUE, conjunction, conjuncts, rebind, subst, variables
from compiler.schedule.analysis.injective import repeating_loop, terms_of
from compiler.schedule.analysis.placement import PlacedAccess, access, analyzer_of, hull
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core.state import Illegal, StepEffect, loop_at, loop_path, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.reduction import init_nest
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt
from compiler.tir.visit import seq


@primitive("block|loop*", attrs={"preserve_unit_iters": (bool,)}, outputs="block", listed=True)
def blockize(func: n.PrimFunc, *targets: n.Var | str, preserve_unit_iters: bool) -> StepEffect:
    """Make one block of a loop and all in it, or of neighbouring blocks and the loops around only them.

    The loop must hold a single block, whose axes divide into a part outside and a part inside. A reduction's init
    goes to the new block. Without `preserve_unit_iters` the new block has no axes of one iteration.

        for i_0, j_0 in 8, 8:             →   for i_0, j_0 in 8, 8:
          for i_1, j_1 in 4, 4:                 block C_o: vi_o = i_0, vj_o = j_0
            block C: vi = i_0*4 + i_1             for i_1, j_1 in 4, 4:
                     vj = j_0*4 + j_1               block C: vi = vi_o*4 + i_1, vj = vj_o*4 + j_1
    """
    match targets:
        case (n.Var() as loop,):
            new, name = _of_loop(func, loop, preserve_unit_iters)
        case (str(), *_) if all(isinstance(t, str) for t in targets):
            new, name = _of_blocks(func, [t for t in targets if isinstance(t, str)], preserve_unit_iters)
        case _:
            raise Illegal("it takes one loop, or one or more blocks")
    return StepEffect(new, (name,))


# ------------------------------------------------------------------------------------- a loop


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of the new block. `stride` is how many iterations of the old axis one of its own holds."""

    iter_var: n.IterVar
    value: PrimExpr
    stride: int


def _of_loop(func: n.PrimFunc, loop: n.Var, preserve_unit_iters: bool) -> tuple[n.PrimFunc, str]:
    path = loop_path(func, loop)
    inside, realize = _single_nest(path)
    block = realize.block
    check_unordered(block)
    around = [*tree.loops_of(path), *inside]
    moving = {f.loop_var for f in inside}
    for inner in inside:
        if variables(inner.extent) - moving or variables(inner.min) - moving:
            raise Illegal(f"the range of loop {inner.loop_var.name!r} hangs on a loop around it", loop)
    analyzer = analyzer_of(around)
    axes: list[_Axis] = []
    values: list[PrimExpr] = []
    for iv, value in zip(block.iter_vars, realize.iter_values):
        axis, rest = _divided(analyzer, block, iv, value, moving, loop)
        axes.append(axis)
        values.append(ops.add(ops.mul(axis.iter_var.var, axis.stride), rest))
    if block.init is not None and (again := repeating_loop(realize, around, len(around) - len(inside))) is not None:
        raise Illegal(f"loop {again.loop_var.name!r} visits iterations of block {block.name_hint!r} again", loop)
    outside, guard = _parted_predicate(realize, axes, moving, loop)
    outside = ops.logical_and(outside, *(_in_domain(analyzer, a) for a in axes))
    kept = [a for a in axes if preserve_unit_iters or not ops.is_const(_extent(a), 1)]
    gone = [a.iter_var.var for a in axes if not preserve_unit_iters and ops.is_const(_extent(a), 1)]
    dropped: dict[n.Var, PrimExpr] = {var: ops.const(0, var.dtype) for var in gone}
    guard = ops.logical_and(guard, *_past_domain(inside, block, axes, values, guard))
    tile = n.BlockRealize(tuple(subst(v, dropped) for v in values), subst(guard, dropped), block, realize.span)
    name = fresh_block_name(func, f"{block.name_hint}_o")
    outer = _tile_block(func, name, [a.iter_var for a in kept], tile, inside)
    new = n.BlockRealize(tuple(a.value for a in kept), outside, outer)
    return replaced(func, path, new), name


def _in_domain(analyzer: Analyzer, axis: _Axis) -> PrimExpr:
    """The condition that an outer axis is in its domain.
    Loops that were split to run further do nothing there."""
    inside = ops.less(axis.value, _extent(axis))
    return TRUE if analyzer.can_prove(inside) else inside


def _past_domain(
    inside: list[n.For], block: n.Block, axes: list[_Axis], values: list[PrimExpr], guard: PrimExpr
) -> list[PrimExpr]:
    """Return the condition that keeps the last tile in the domains of `block`, where `guard` does not.
    The loops that are there may never get as far, but loops that run over all of the new block's axes would."""
    analyzer = analyzer_of(inside)
    for axis in axes:
        assert axis.iter_var.dom is not None
        analyzer.bind(axis.iter_var.var, axis.iter_var.dom)
    ends = [ops.add(iv.dom.min, iv.dom.extent) for iv in block.iter_vars if iv.dom is not None]
    within = [ops.less(value, end) for value, end in zip(values, ends)]
    with analyzer.constraint(guard):
        return [condition for condition in within if not analyzer.can_prove(condition)]


def _extent(axis: _Axis) -> PrimExpr:
    assert axis.iter_var.dom is not None
    return axis.iter_var.dom.extent


def _single_nest(path: Path) -> tuple[list[n.For], n.BlockRealize]:
    """The loops from the one `path` leads to down to the single block in it."""
    inside: list[n.For] = []
    stmt: Stmt = loop_at(path)
    top = loop_at(path).loop_var
    while isinstance(stmt, n.For):
        if stmt.kind is ForKind.THREAD_BINDING:
            raise Illegal(f"loop {stmt.loop_var.name!r} is bound to a thread", stmt.loop_var)
        inside.append(stmt)
        stmt = stmt.body
    if not isinstance(stmt, n.BlockRealize):
        names = ", ".join(r.block.name_hint for r in tree.realizes(stmt)) or "none"
        raise Illegal(f"loop {top.name!r} does not hold a single block: {names}", top, hint="give the blocks instead")
    return inside, stmt


def _divided(
    analyzer: Analyzer, block: n.Block, iv: n.IterVar, value: PrimExpr, moving: set[n.Var], loop: n.Var
) -> tuple[_Axis, PrimExpr]:
    """The outer axis of `iv`, and the part of its value that stays inside."""
    for form in (value, analyzer.simplify(value)):
        inner, outer = _parts(form, moving)
        if inner is None:
            continue
        low, high = analyzer.const_int_bound(inner)
        if low != 0 or high is None:
            continue
        stride = high + 1
        if all(c % stride == 0 for c, _ in _terms_and_constant(outer)):
            quotient = _quotient(outer, stride, iv.var.dtype)
            assert iv.dom is not None
            dom = iv.dom if stride == 1 else _tiles(analyzer, iv.dom, stride, quotient)
            axis = n.IterVar(dom, n.Var(f"{iv.var.name}_o", iv.var.dtype), iv.iter_type)
            return _Axis(axis, quotient, stride), inner
    raise Illegal(
        f"axis {iv.var.name!r} of block {block.name_hint!r}, bound to {value!r}, does not divide into loops outside "
        f"and loops inside loop {loop.name!r}",
        loop,
        hint="split its loops so that the inner ones count a whole tile",
    )


def _tiles(analyzer: Analyzer, dom: n.Range, stride: int, visited: PrimExpr) -> n.Range:
    """The domain of an axis of tiles of `stride` iterations.
    It goes to the end of `dom`, or of what the loops visit."""
    count = ops.floordiv(ops.add(ops.add(dom.min, dom.extent), stride - 1), stride)
    last = analyzer.const_int_bound(visited)[1]
    if last is not None and last >= 0 and analyzer.can_prove(ops.less(last, count)):
        count = ops.const(last + 1, dom.extent.dtype)
    return n.Range(ops.const(0, dom.extent.dtype), count)


def _terms_and_constant(expr: PrimExpr) -> list[tuple[int, PrimExpr]]:
    """The terms of a sum, its constant as the multiple of 1."""
    return [*terms_of(expr, 1), (_constant(expr), ops.const(1, expr.dtype))]


def _constant(expr: PrimExpr) -> int:
    """The constant that `terms_of` leaves out of a sum."""
    match expr:
        case n.IntImm():
            return expr.value
        case n.Add(a, b):
            return _constant(a) + _constant(b)
        case n.Sub(a, b):
            return _constant(a) - _constant(b)
        case n.Mul(a, n.IntImm(value=value)):
            return _constant(a) * value
    return 0


def _sum(terms: Sequence[tuple[int, PrimExpr]], dtype: str) -> PrimExpr:
    total: PrimExpr = ops.const(0, dtype)
    for coefficient, atom in terms:
        total = ops.add(total, ops.mul(atom, coefficient))
    return total


def _parts(value: PrimExpr, moving: set[n.Var]) -> tuple[PrimExpr | None, PrimExpr]:
    """`value` as a part of the loops `moving` and a part of the others; None where one term has both."""
    inner: list[tuple[int, PrimExpr]] = []
    outer: list[tuple[int, PrimExpr]] = []
    for term in _terms_and_constant(value):
        used = variables(term[1])
        if used & moving and used - moving:
            return None, value
        (inner if used & moving else outer).append(term)
    return _sum(inner, value.dtype), _sum(outer, value.dtype)


def _quotient(outer: PrimExpr, stride: int, dtype: str) -> PrimExpr:
    return _sum([(c // stride, atom) for c, atom in _terms_and_constant(outer)], dtype)


def _parted_predicate(
    realize: n.BlockRealize, axes: list[_Axis], moving: set[n.Var], loop: n.Var
) -> tuple[PrimExpr, PrimExpr]:
    """The conditions on loops outside, and those that stay inside, in the axes of the new block."""
    outside: list[PrimExpr] = []
    inside: list[PrimExpr] = []
    for condition in conjuncts(realize.predicate):
        if not variables(condition) & moving:
            outside.append(condition)
            continue
        moved = _in_axes(condition, axes, moving)
        if moved is None:
            raise Illegal(
                f"block {realize.block.name_hint!r} runs where {condition!r}, which loops on both sides of loop "
                f"{loop.name!r} decide",
                loop,
            )
        inside.append(moved)
    return conjunction(outside), conjunction(inside)


def _in_axes(condition: PrimExpr, axes: list[_Axis], moving: set[n.Var]) -> PrimExpr | None:
    """Express `condition`, a comparison of a sum, with an axis in place of its outer loops.
    None if no axis equals that part."""
    if not variables(condition) - moving:
        return condition
    if not isinstance(condition, n.CmpOp) or variables(condition.b):
        return None
    inner, outer = _parts(condition.a, moving)
    if inner is None:
        return None
    wanted = _shape_of(outer)
    for axis in axes:
        if _shape_of(ops.mul(axis.value, axis.stride)) == wanted:
            return type(condition)(ops.add(ops.mul(axis.iter_var.var, axis.stride), inner), condition.b)
    return None


def _shape_of(expr: PrimExpr) -> frozenset[object]:
    return frozenset((c, expr_key(atom)) for c, atom in _terms_and_constant(_flat(expr)) if c)


def _flat(expr: PrimExpr) -> PrimExpr:
    """A product of a sum written as a sum of products."""
    match expr:
        case n.Mul(a, n.IntImm(value=factor)):
            return _sum([(c * factor, atom) for c, atom in _terms_and_constant(a)], expr.dtype)
    return expr


def _tile_block(
    func: n.PrimFunc, name: str, axes: list[n.IterVar], tile: n.BlockRealize, inside: list[n.For]
) -> n.Block:
    """The new block: `inside` around `tile`, whose init becomes the block's own."""
    block = tile.block
    analyzer = analyzer_of(inside)
    for iv in axes:
        assert iv.dom is not None
        analyzer.bind(iv.var, iv.dom)
    reads = tuple(_touched(analyzer, r, tile, inside) for r in block.reads)
    writes = tuple(_touched(analyzer, w, tile, inside) for w in block.writes)
    init: Stmt | None = None
    if block.init is not None:
        data = {v for iv, value in zip(block.iter_vars, tile.iter_values) if iv.iter_type is IterType.DATA_PAR
                for v in variables(value)}  # fmt: skip
        init = init_nest(_without_reduced(tile, axes), inside, data, fresh_block_name(func, f"{block.name_hint}_init"))
        tile = tree.with_block(tile, replace(block, init=None, reads=(*_own_reads(block), *block.reads)))
    body: Stmt = tree.nest(inside, tile)
    if init is not None and not any(iv.iter_type is IterType.COMM_REDUCE for iv in axes):
        body, init = seq(init, body), None
    return n.Block(tuple(axes), reads, writes, name, body, init)


def _without_reduced(tile: n.BlockRealize, axes: list[n.IterVar]) -> n.BlockRealize:
    """The tile where an init happens: whatever part of a reduction it stands before."""
    reduced = {iv.var for iv in axes if iv.iter_type is IterType.COMM_REDUCE}
    kept = [c for c in conjuncts(tile.predicate) if not variables(c) & reduced]
    return replace(tile, predicate=conjunction(kept))


def _own_reads(block: n.Block) -> list[n.BufferRegion]:
    """Return what a reduction without its init reads of its own result."""
    return [w for w in block.writes if not any(r.buffer is w.buffer for r in block.reads)]


def _touched(
    analyzer: Analyzer, region: n.BufferRegion, tile: n.BlockRealize, loops: Sequence[n.For]
) -> n.BufferRegion:
    box = hull(analyzer, [access(region, tile, loops)], region.buffer)
    return n.BufferRegion(region.buffer, tuple(n.Range(low, extent) for low, extent in box))


# ---------------------------------------------------------------------------------- several blocks


def _of_blocks(func: n.PrimFunc, names: list[str], preserve_unit_iters: bool) -> tuple[n.PrimFunc, str]:
    if len(set(names)) != len(names):
        raise Illegal("a block is given twice", names[0])
    members: list[Member] = []
    scopes: list[Path] = []
    for block in names:
        me, scope = scope_around(func, block)
        check_unordered(me.block)
        members.append(me)
        scopes.append(scope.path)
    if any(s[-1] is not scopes[0][-1] for s in scopes):
        raise Illegal(f"blocks {', '.join(names)} do not stand in one block", names[0])
    holder, stmts, position = _neighbours(members)
    prefix = members[0].path[:holder]
    around = [s for s in prefix[len(scopes[0]) :] if isinstance(s, n.For)]
    chosen = seq(*stmts[position])
    used = [f for f in around if any(f.loop_var in variables(v) for m in members for v in _mentions(m))]
    kept = [f for f in used if preserve_unit_iters or not ops.is_const(f.extent, 1)]
    axes = [_loop_axis(f, members) for f in kept]
    fresh: dict[n.Var, PrimExpr] = {f.loop_var: f.min for f in used}
    fresh.update({f.loop_var: iv.var for f, iv in zip(kept, axes)})
    body = rebind(chosen, fresh)
    name = fresh_block_name(func, "_".join(names) + "_o")
    reads, writes = _regions_of(body, axes)
    tile = n.Block(tuple(axes), reads, writes, name, body)
    new = n.BlockRealize(tuple(f.loop_var for f in kept), TRUE, tile)
    where = seq(*stmts[: position.start], new, *stmts[position.stop :])
    return replaced(func, members[0].path[: holder + 1], where), name


def _mentions(member: Member) -> list[PrimExpr]:
    bounds = [b for f in tree.loops_of(member.path) for b in (f.min, f.extent)]
    return [*member.realize.iter_values, member.realize.predicate, *bounds]


def _neighbours(members: list[Member]) -> tuple[int, tuple[Stmt, ...], slice]:
    """The depth of what holds the blocks, the statements there, and which of them hold just these blocks."""
    paths = [m.path for m in members]
    if len(paths) == 1:
        depth = len(paths[0]) - 1
        return depth, (paths[0][-1],), slice(0, 1)
    depth = common_prefix(paths)
    sequence = paths[0][depth - 1]
    assert isinstance(sequence, n.SeqStmt)
    at = sorted(next(i for i, s in enumerate(sequence.seq) if s is p[depth]) for p in paths)
    chosen = sequence.seq[at[0] : at[-1] + 1]
    inside = {r.block.name_hint for s in chosen for r in tree.realizes(s)}
    strange = inside - {m.name for m in members}
    if strange:
        raise Illegal(f"block {min(strange)!r} stands among the blocks given", min(strange))
    return depth - 1, sequence.seq, slice(at[0], at[-1] + 1)


def _loop_axis(loop: n.For, members: list[Member]) -> n.IterVar:
    """The axis of the new block that `loop` binds."""
    kinds = {iv.iter_type for m in members for iv, v in zip(m.block.iter_vars, m.realize.iter_values)
             if loop.loop_var in variables(v)}  # fmt: skip
    kind = IterType.DATA_PAR if kinds <= {IterType.DATA_PAR} else IterType.COMM_REDUCE
    if kind is IterType.COMM_REDUCE:
        for m in members:
            if m.block.init is not None:
                raise Illegal(
                    f"loop {loop.loop_var.name!r} around block {m.name!r} runs along its reduction: the init cannot go "
                    "into the new block",
                    loop.loop_var,
                    hint="decompose_reduction first",
                )
    return n.IterVar(n.Range(loop.min, loop.extent), n.Var(f"v{loop.loop_var.name}", loop.loop_var.dtype), kind)


def _regions_of(body: Stmt, axes: list[n.IterVar]) -> tuple[tuple[n.BufferRegion, ...], tuple[n.BufferRegion, ...]]:
    """Return what the blocks in `body` read and write while its loops run."""
    analyzer = analyzer_of(tree.loops_in(body))
    for iv in axes:
        assert iv.dom is not None
        analyzer.bind(iv.var, iv.dom)
    sides: list[tuple[n.BufferRegion, ...]] = []
    for kind in ("reads", "writes"):
        uses: dict[n.Buffer, list[PlacedAccess]] = {}
        for realize in tree.realizes(body):
            loops = tree.loops_around(body, realize)
            for region in getattr(realize.block, kind):
                uses.setdefault(region.buffer, []).append(access(region, realize, loops))
        sides.append(tuple(
            n.BufferRegion(b, tuple(n.Range(low, extent) for low, extent in hull(analyzer, found, b)))
            for b, found in uses.items()
        ))  # fmt: skip
    return sides[0], sides[1]
