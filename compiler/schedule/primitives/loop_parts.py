"""Primitives that make several loops of one, or one of several, side by side: loop_partition, merge."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.arith.analyzer import Analyzer
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.copying import Copier
from compiler.schedule.analysis.expr import Mapped, rebind, subst
from compiler.schedule.analysis.overwrites import apart
from compiler.schedule.analysis.placement import Box, access, analyzer_of, hull
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core.state import Illegal, StepEffect, loop_at, loop_path, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.loops import check_plain, loop_roles
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.visit import seq


@primitive("loop", "int?*", attrs={"preserve_unit_iters": (bool,)}, outputs="loop*", listed=True)
def loop_partition(func: n.PrimFunc, loop: n.Var, *factors: int | None, preserve_unit_iters: bool) -> StepEffect:
    """Divide a loop into loops of `factors` iterations, one after another.

    One factor may be None and then takes the rest. Without a None the rest gets one more loop. Each part has copies of
    the blocks, named after it. Without `preserve_unit_iters`, bindings do not mention loops of one iteration. A
    reduction along the loop must have its init taken out first (decompose_reduction).

        for i in 10:              →   for i0 in 2:
          block C: vi = i                 block C_i0: vi = i0
                                      for i1 in 8:
                                          block C_i1: vi = i1 + 2      (factors 2, None)
    """
    path = loop_path(func, loop)
    old = loop_at(path)
    check_plain(old, "partition")
    for realize in tree.realizes(old.body):
        if realize.block.init is not None and loop in loop_roles(realize)[1]:
            raise Illegal(
                f"every part would begin the reduction of block {realize.block.name_hint!r} anew",
                loop,
                hint="decompose_reduction it first",
            )
    sizes = _part_sizes(old, factors)
    parts: list[n.For] = []
    start = 0
    for number, size in enumerate(sizes):
        var = n.Var(f"{loop.name}{number}", loop.dtype)
        place: PrimExpr = ops.const(0, loop.dtype) if size == 1 and not preserve_unit_iters else var
        body = _copied(func, old.body, f"{loop.name}{number}")
        body = rebind(body, {loop: ops.add(old.min, ops.add(place, start))})
        parts.append(n.For(var, ops.const(0, loop.dtype), ops.const(size, loop.dtype), ForKind.SERIAL, body))
        start += size
    return StepEffect(replaced(func, path, seq(*parts)), tuple(part.loop_var for part in parts))


def _copied(func: n.PrimFunc, body: Stmt, suffix: str) -> Stmt:
    copied = Copier(func, name=lambda name: f"{name}_{suffix}").copy(body)
    assert isinstance(copied, Stmt)
    return copied


def _part_sizes(loop: n.For, factors: tuple[int | None, ...]) -> list[int]:
    """The iterations of each part, of which the sum is the extent."""
    var, extent = loop.loop_var, ops.as_int(loop.extent)
    given = [f for f in factors if f is not None]
    if extent is None:
        raise Illegal(f"loop {var.name!r} has no constant extent to part", var)
    if not factors or len(factors) - len(given) > 1:
        raise Illegal(f"the factors of loop {var.name!r} are numbers, at least one of them, and at most one None", var)
    if any(f < 1 for f in given):
        raise Illegal(f"factors of loop {var.name!r} must be positive, got {list(factors)}", var)
    rest = extent - sum(given)
    if rest < 1:
        raise Illegal(
            f"the factors {list(factors)} leave nothing of the {extent} iterations of loop {var.name!r}",
            var,
            hint="their sum must be less than the extent",
        )
    sizes = [rest if f is None else f for f in factors]
    return sizes if None in factors else [*sizes, rest]


# ------------------------------------------------------------------------------------- merge


@primitive("loop*", outputs="loop")
def merge(func: n.PrimFunc, *loops: n.Var) -> StepEffect:
    """Make one loop of loops that stand one after another.

    The loops around them that they do not share are merged, too. The result is the innermost of the new loops. The
    nests must be neighbours, given in their order, each of loops that hold nothing else, and have the same extents. An
    element that one of them writes, another may touch in the same iteration only, so that the new loop can still run
    its iterations in any order.

        for i in 10:              →   for i_m in 10:
          block B: vi = i                 block B: vi = i_m
        for i in 10:                      block C: vi = i_m
          block C: vi = i
    """
    if len(loops) < 2:
        raise Illegal("it takes two loops or more")
    if len(set(loops)) < len(loops):
        raise Illegal("a loop is given twice", loops[0])
    paths = [loop_path(func, var) for var in loops]
    depth = _parting(paths)
    nests = [_nest(path, depth) for path in paths]
    _check_alike(nests)
    around = [node for node in paths[0][:depth] if isinstance(node, n.For)]
    for number, earlier in enumerate(nests):
        for later in nests[number + 1 :]:
            _check_independent(around, earlier, later)
    fused = [n.Var(f"{loop.loop_var.name}_m", loop.loop_var.dtype) for loop in nests[0]]
    bodies = [rebind(nest[-1].body, {f.loop_var: v for f, v in zip(nest, fused)}) for nest in nests]
    body: Stmt = seq(*bodies)
    for var, loop in zip(reversed(fused), reversed(nests[0])):
        body = n.For(var, loop.min, loop.extent, ForKind.SERIAL, body)
    return StepEffect(_in_their_place(func, paths, depth, body), (fused[-1],))


def _parting(paths: Sequence[Path]) -> int:
    """Return the position in the paths at which the statements part.
    They are neighbours, in order, in one sequence."""
    first = paths[0]
    depth = 0
    while all(depth < len(path) and path[depth] is first[depth] for path in paths):
        depth += 1
    parent = first[depth - 1]
    inner = [path[-1] for path in paths if len(path) <= depth]
    if inner or not isinstance(parent, n.SeqStmt):
        raise Illegal("one of the loops stands inside another", loop_at(paths[0]).loop_var)
    places = [next(i for i, s in enumerate(parent.seq) if s is path[depth]) for path in paths]
    if places != list(range(places[0], places[0] + len(places))):
        raise Illegal("their nests do not stand one right after another, in this order", loop_at(paths[0]).loop_var)
    return depth


def _nest(path: Path, depth: int) -> list[n.For]:
    """The loops of `path` from `depth` on, which must be all there is."""
    loops: list[n.For] = []
    var = loop_at(path).loop_var
    for node in path[depth:]:
        if not isinstance(node, n.For):
            raise Illegal(f"between loop {var.name!r} and where the nests differ stands more than loops", var)
        check_plain(node, "merge")
        loops.append(node)
    return loops


def _check_alike(nests: Sequence[list[n.For]]) -> None:
    analyzer = Analyzer()
    first = nests[0]
    for nest in nests[1:]:
        if len(nest) != len(first):
            raise Illegal(
                f"loop {nest[-1].loop_var.name!r} is the {len(nest)}. of its nest, loop {first[-1].loop_var.name!r} "
                f"the {len(first)}.",
                nest[-1].loop_var,
            )
        for a, b in zip(first, nest):
            same = analyzer.can_prove_equal(a.extent, b.extent) and analyzer.can_prove_equal(a.min, b.min)
            if not same:
                raise Illegal(
                    f"loop {b.loop_var.name!r} runs {b.extent!r} times, loop {a.loop_var.name!r} {a.extent!r} times",
                    b.loop_var,
                )


def _in_their_place(func: n.PrimFunc, paths: Sequence[Path], depth: int, merged: Stmt) -> n.PrimFunc:
    parent = paths[0][depth - 1]
    assert isinstance(parent, n.SeqStmt)
    gone = {path[depth] for path in paths[1:]}
    statements = [merged if s is paths[0][depth] else s for s in parent.seq if s not in gone]
    return replaced(func, paths[0][:depth], seq(*statements))


Nested = tuple[n.BlockRealize, list[n.For]]


def _check_independent(around: list[n.For], earlier: list[n.For], later: list[n.For]) -> None:
    """Check that different iterations of the two nests touch different parts of what either writes.
    This is shown for each loop in which they may first differ, with either one ahead."""
    for a in tree.realizes(earlier[-1].body):
        for b in tree.realizes(later[-1].body):
            for level, loop in enumerate(earlier):
                last = ops.sub(loop.extent, 1)
                for least in (ops.const(1, last.dtype), ops.sub(0, last)):
                    _check_apart(around, (a, earlier), (b, later), level, n.Range(least, last))


def _check_apart(around: list[n.For], earlier: Nested, later: Nested, level: int, ahead: n.Range) -> None:
    """Check that the nests touch different parts while the loops at `level` are `ahead` apart.
    The loops around those are the same."""
    (a, a_nest), (b, b_nest) = earlier, later
    analyzer = analyzer_of((*around, *b_nest[: level + 1]))
    distance = n.Var("distance", a_nest[level].loop_var.dtype)
    analyzer.bind(distance, ahead)
    same = {x.loop_var: y.loop_var for x, y in zip(a_nest[:level], b_nest)}
    values: Mapped = {**same, a_nest[level].loop_var: ops.add(b_nest[level].loop_var, distance)}
    for mine in (*a.block.writes, *a.block.reads):
        for other in (*b.block.writes, *b.block.reads):
            if mine.buffer is not other.buffer or not (mine in a.block.writes or other in b.block.writes):
                continue
            one = _touched(analyzer, mine, a, a_nest, level, values)
            two = _touched(analyzer, other, b, b_nest, level, {})
            if not apart(analyzer, one, two):
                raise Illegal(
                    f"blocks {a.block.name_hint!r} and {b.block.name_hint!r} meet in {mine.buffer.name!r} in different "
                    "iterations",
                    b_nest[level].loop_var,
                )


def _touched(
    analyzer: Analyzer, region: n.BufferRegion, realize: n.BlockRealize, nest: list[n.For], level: int, values: Mapped
) -> Box:
    """Return what the block touches of a buffer while the loops below `level` run.
    `values` are those of the others."""
    moving = [*nest[level + 1 :], *tree.loops_around(nest[-1].body, realize)]
    box = hull(analyzer, [access(region, realize, moving)], region.buffer)
    return tuple((analyzer.simplify(subst(low, values)), subst(extent, values)) for low, extent in box)
