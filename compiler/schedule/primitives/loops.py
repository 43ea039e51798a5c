"""Primitives that reshape loops: split, fuse, reorder, add_unit_loop.

They rewrite the loops and how blocks are bound to them; what a block computes is left alone.
"""

from __future__ import annotations

import functools
import math

from compiler.arith.analyzer import Analyzer
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.expr import TRUE, conjunction, conjuncts, rebind, variables, weighted_sum
from compiler.schedule.analysis.injective import is_reduction, repeating_loop
from compiler.schedule.analysis.tree import Path, with_body
from compiler.schedule.core.state import Illegal, StepEffect, block_path, loop_at, loop_path, replaced
from compiler.schedule.core.step import primitive
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, PrimExpr, Stmt

_MAX_EXTENT = 2**31 - 1


@primitive(
    "loop",
    "int?*",
    attrs={"preserve_unit_iters": (bool,), "disable_predication": (bool,)},
    defaults={"disable_predication": False},
    outputs="loop*",
    listed=True,
)
def split(
    func: n.PrimFunc, loop: n.Var, *factors: int | PrimExpr | None, preserve_unit_iters: bool, disable_predication: bool
) -> StepEffect:
    """Split a loop into nested loops of `factors` iterations, outermost first.

    One factor may be None and is then as large as needed. Blocks get a predicate if the product is larger than the
    extent. Without `preserve_unit_iters`, bindings do not mention loops of one iteration. `disable_predication`
    promises that the factors divide an extent that is not known here, so there is no predicate. An extent that is known
    must keep this promise. A factor may be an expression; another one is None then.

        for i in 10:              →   for i_0 in 3:
          block C: vi = i                 for i_1 in 4:
                                            block C where i_0*4 + i_1 < 10: vi = i_0*4 + i_1
    """
    path = loop_path(func, loop)
    old = loop_at(path)
    check_plain(old, "split")
    sizes = _factor_sizes(old, factors)
    new_vars = [n.Var(f"{loop.name}_{k}", loop.dtype) for k in range(len(sizes))]
    kept = [(v, s) for v, s in zip(new_vars, sizes) if not ops.is_const(s, 1)]
    count = weighted_sum([v for v, _ in kept], [s for _, s in kept]) if kept else ops.const(0, loop.dtype)
    index = weighted_sum(new_vars, sizes) if preserve_unit_iters else count
    exact = not any(isinstance(f, PrimExpr) for f in factors) and _covers_exactly(old.extent, sizes)
    if disable_predication and not exact and (extent := ops.as_int(old.extent)) is not None:
        raise Illegal(
            f"without a predicate the factors {list(factors)} would run past the {extent} iterations of loop "
            f"{loop.name!r}",
            loop,
            hint="disable_predication is for factors that divide the extent",
        )
    counted = list(zip(new_vars, sizes)) if preserve_unit_iters else kept
    guard = TRUE if exact or disable_predication else ops.less(_counted(counted, loop.dtype), old.extent)
    body = rebind(old.body, {loop: ops.add(old.min, index)}, guard)
    zero = ops.const(0, loop.dtype)
    for var, size in zip(reversed(new_vars), reversed(sizes)):
        body = n.For(var, zero, size, ForKind.SERIAL, body)
    return StepEffect(replaced(func, path, body), tuple(new_vars))


def _counted(loops: list[tuple[n.Var, PrimExpr]], dtype: str) -> PrimExpr:
    """The iteration of nested loops with these sizes, counted from the outermost: (a * E1 + b) * E2 + c."""
    total: PrimExpr = ops.const(0, dtype)
    for var, size in loops:
        total = ops.add(ops.mul(total, size), var)
    return total


def _factor_sizes(loop: n.For, factors: tuple[int | PrimExpr | None, ...]) -> list[PrimExpr]:
    """The extents of the new loops, the inferred one filled in."""
    name, dtype = loop.loop_var.name, loop.loop_var.dtype
    if not factors:
        raise Illegal(f"no factors for loop {name!r}", loop.loop_var)
    if any(isinstance(f, PrimExpr) for f in factors):
        return _sizes_of_expressions(loop, factors)
    given = [f for f in factors if isinstance(f, int)]
    if len(factors) - len(given) > 1:
        raise Illegal(f"more than one factor of loop {name!r} is None", loop.loop_var)
    if any(f < 1 for f in given):
        raise Illegal(f"factors of loop {name!r} must be positive, got {list(factors)}", loop.loop_var)
    product = math.prod(given)
    if product > _MAX_EXTENT:
        raise Illegal(f"the factors {list(factors)} of loop {name!r} are too large", loop.loop_var)
    extent = ops.as_int(loop.extent)
    if len(given) < len(factors):
        rest = ops.const(max(1, -(-extent // product)), dtype) if extent is not None else _ceil(loop.extent, product)
    elif extent is None:
        raise Illegal(f"one factor of loop {name!r}, whose extent is symbolic, must be None", loop.loop_var)
    elif product < extent:
        raise Illegal(
            f"the factors {list(factors)} make {product} of the {extent} iterations of loop {name!r}",
            loop.loop_var,
            hint="their product must cover the extent; None in place of a factor makes it fit",
        )
    return [ops.const(f, dtype) if isinstance(f, int) else rest for f in factors]


def _sizes_of_expressions(loop: n.For, factors: tuple[int | PrimExpr | None, ...]) -> list[PrimExpr]:
    """The extents of the new loops where a factor is only known when the function runs."""
    dtype = loop.loop_var.dtype
    given = [_of_dtype(ops.as_expr(f), dtype) for f in factors if f is not None]
    if len(given) != len(factors) - 1:
        raise Illegal(
            f"of the factors of loop {loop.loop_var.name!r} one must be None, as another one is an expression",
            loop.loop_var,
        )
    product = functools.reduce(ops.mul, given)
    rest = ops.floordiv(ops.sub(ops.add(loop.extent, product), ops.const(1, dtype)), product)
    sizes = iter(given)
    return [rest if f is None else next(sizes) for f in factors]


def _of_dtype(size: PrimExpr, dtype: str) -> PrimExpr:
    return size if size.dtype == dtype else n.Cast(dtype, size)


def _ceil(extent: PrimExpr, size: int) -> PrimExpr:
    return ops.floordiv(ops.add(extent, size - 1), size)


def _covers_exactly(extent: PrimExpr, sizes: list[PrimExpr]) -> bool:
    known = [ops.as_int(s) for s in sizes]
    total = ops.as_int(extent)
    if total is not None:
        return math.prod(k for k in known if k is not None) == total
    return all(k in (None, 1) for k in known)


def loop_roles(realize: n.BlockRealize) -> tuple[set[n.Var], set[n.Var]]:
    """The loops that run along data axes, and those that run along reduction axes, of a block."""
    data: set[n.Var] = set()
    reduced: set[n.Var] = set()
    for iv, value in zip(realize.block.iter_vars, realize.iter_values):
        (reduced if iv.iter_type is n.IterType.COMM_REDUCE else data).update(variables(value))
    return data, reduced


def check_plain(loop: n.For, verb: str) -> None:
    """Only serial loops without annotations can be reshaped: their meaning would be lost."""
    name = loop.loop_var.name
    if loop.kind is not ForKind.SERIAL:
        raise Illegal(
            f"loop {name!r} is {loop.kind.value} and cannot be {_PAST[verb]} any more",
            loop.loop_var,
            hint="reshape loops first, then say how they run",
        )
    if loop.annotations:
        raise Illegal(f"loop {name!r} is annotated and cannot be {_PAST[verb]} any more", loop.loop_var)


_PAST = {"split": "split", "fuse": "fused", "partition": "partitioned", "merge": "merged"}


@primitive("loop*", attrs={"preserve_unit_iters": (bool,)}, outputs="loop")
def fuse(func: n.PrimFunc, *loops: n.Var, preserve_unit_iters: bool) -> StepEffect:
    """Make one loop of loops nested right inside one another, given outermost first.

    One loop alone stays as it is.

    for i in 4:               →   for i_j_fused in 24:
      for j in 6:                     block C: vi = i_j_fused // 6, vj = i_j_fused % 6
        block C: vi = i, vj = j
    """
    if not loops:
        raise Illegal("no loops given")
    path = loop_path(func, loops[0])
    chain = [loop_at(path)]
    for var in loops[1:]:
        loop_path(func, var)
        below = chain[-1].body
        if not (isinstance(below, n.For) and below.loop_var is var):
            outer = chain[-1].loop_var.name
            raise Illegal(f"loop {var.name!r} is not right and alone inside loop {outer!r}", var)
        chain.append(below)
    if len(chain) == 1:
        return StepEffect(func, (loops[0],))
    for loop in chain:
        check_plain(loop, "fuse")
        if variables(loop.extent) & set(loops) or not ops.is_const(loop.min, 0):
            raise Illegal(f"loop {loop.loop_var.name!r} does not run over a fixed range from 0", loop.loop_var)
    dtype = "int64" if any(var.dtype == "int64" for var in loops) else loops[0].dtype
    fused = n.Var("_".join(v.name for v in loops) + "_fused", dtype)
    mapping: dict[n.Var, PrimExpr] = {}
    total: PrimExpr = ops.const(1, dtype)  # iterations of the loops inside the one at hand
    for position in range(len(chain) - 1, -1, -1):
        loop = chain[position]
        inside, total = total, ops.mul(loop.extent, total)
        unit = not preserve_unit_iters and ops.is_const(loop.extent, 1)
        value = ops.floordiv(fused if position == 0 else ops.floormod(fused, total), inside)
        mapping[loop.loop_var] = ops.cast(loop.loop_var.dtype, ops.const(0, dtype) if unit else value)
    iterations = math.prod(ops.as_int(loop.extent) or 0 for loop in chain)
    if fused.dtype == "int32" and iterations >= 1 << 31:
        raise Illegal(
            f"the fused loop would have {iterations} iterations, more than its int32 variable counts",
            loops[0],
            hint="fuse fewer loops, or give the shape int64 extents",
        )
    body = rebind(chain[-1].body, mapping)
    around = [node for node in path[:-1] if isinstance(node, n.For)]
    new = n.For(fused, ops.const(0, dtype), total, ForKind.SERIAL, body)
    edits: dict[Stmt, Stmt | None] = {r: _simplified(r, around, new) for r in tree.realizes(body)}
    return StepEffect(replaced(func, path, with_body(new, tree.edit(body, edits) or body)), (fused,))


def _simplified(realize: n.BlockRealize, around: list[n.For], top: n.For) -> n.BlockRealize:
    """`realize` with quotients and remainders that undo each other taken out of its bindings."""
    analyzer = Analyzer(keep_unit_vars=True)
    for loop in (*around, *tree.loops_around(top, realize)):
        analyzer.bind(loop.loop_var, n.Range(loop.min, loop.extent))

    def plain(expr: PrimExpr) -> PrimExpr:
        """Rewrite it without any quotient or remainder, or else leave it as it was.

        Half done, it would be harder to read.
        """
        simple = analyzer.simplify(expr) if _divides(expr) else expr
        return expr if _divides(simple) else simple

    values = tuple(map(plain, realize.iter_values))
    conditions = map(plain, conjuncts(realize.predicate))
    return n.BlockRealize(values, conjunction(conditions), realize.block, realize.span)


def _divides(expr: PrimExpr) -> bool:
    if isinstance(expr, n.BinaryOp):
        return isinstance(expr, n.FloorDiv | n.FloorMod) or _divides(expr.a) or _divides(expr.b)
    return False


@primitive("loop*")
def reorder(func: n.PrimFunc, *loops: n.Var) -> StepEffect:
    """Put loops in the given order, outermost first; other loops between them keep their places.

    for i:                    →   for k:
      for j:                        for j:
        for k: ...                    for i: ...        (reorder k, i)
    """
    if len(set(loops)) < len(loops):
        raise Illegal("a loop is given twice", next(v for i, v in enumerate(loops) if v in loops[:i]))
    if len(loops) < 2:
        return StepEffect(func)
    path, chain = _chain(func, loops)
    wanted = iter(loops)
    by_var = {loop.loop_var: loop for loop in chain}
    order = [by_var[next(wanted)] if loop.loop_var in loops else loop for loop in chain]
    _check_order(path, chain, order, loops)
    body: Stmt = chain[-1].body
    for loop in reversed(order):
        body = with_body(loop, body)
    return StepEffect(replaced(func, path, body))


def _chain(func: n.PrimFunc, loops: tuple[n.Var, ...]) -> tuple[Path, list[n.For]]:
    """The loops from the outermost to the innermost of `loops`, and the path to the first of them.

    Raises Illegal unless all stand on one path with nothing but loops between them.
    """
    deepest = max((loop_path(func, var) for var in loops), key=len)
    positions = {node.loop_var: at for at, node in enumerate(deepest) if isinstance(node, n.For)}
    for var in loops:
        if var not in positions:
            inner = loop_at(deepest).loop_var
            raise Illegal(f"loops {var.name!r} and {inner.name!r} are not nested in one another", var)
    first = min(positions[var] for var in loops)
    between = deepest[first:]
    for node in between:
        if not isinstance(node, n.For):
            what = "a block" if isinstance(node, n.BlockRealize) else "more than one statement"
            raise Illegal(f"between the loops to reorder stands {what}, not only loops", loops[0])
    return deepest[: first + 1], [node for node in between if isinstance(node, n.For)]


def _check_order(path: Path, chain: list[n.For], order: list[n.For], loops: tuple[n.Var, ...]) -> None:
    for loop in chain:
        if loop.loop_var in loops:
            _check_order_independent(loop)
    for realize in tree.realizes(chain[-1].body):
        _check_reduction_order(realize, chain, order, path)
    seen: set[n.Var] = set()
    inside = {loop.loop_var for loop in chain}
    for loop in order:
        needs = (variables(loop.extent) | variables(loop.min)) & inside
        if needs - seen:
            name = next(iter(needs - seen)).name
            raise Illegal(f"the range of loop {loop.loop_var.name!r} depends on loop {name!r}", loop.loop_var)
        seen.add(loop.loop_var)


def _check_reduction_order(realize: n.BlockRealize, chain: list[n.For], order: list[n.For], path: Path) -> None:
    """A reduction is still begun by its init, and adds each element once."""
    if not is_reduction(realize.block):
        return
    data, reduced = loop_roles(realize)
    both = data & reduced
    before, after = [f.loop_var for f in chain if f.loop_var in both], [f.loop_var for f in order if f.loop_var in both]
    name = realize.block.name_hint
    if realize.block.init is not None and before != after:
        raise Illegal(
            f"several loops run along data axes and reduction axes of block {name!r} at once: in another order "
            "its init would come too late",
            before[0],
        )
    around = [node for node in path[:-1] if isinstance(node, n.For)]
    inside = tree.loops_around(chain[-1], realize)[1:]
    loops = [*around, *order, *inside]
    first = next((i for i, f in enumerate(loops) if f.loop_var in reduced), len(loops))
    repeating = repeating_loop(realize, loops, first)
    if repeating is not None:
        raise Illegal(
            f"loop {repeating.loop_var.name!r} visits elements of block {name!r} again: inside its reduction loops "
            "they would be added more than once",
            repeating.loop_var,
        )


def _check_order_independent(loop: n.For) -> None:
    """Every block under `loop` may run its iterations in any order."""
    for realize in tree.realizes(loop.body):
        for iter_var, value in zip(realize.block.iter_vars, realize.iter_values):
            free = iter_var.iter_type in (n.IterType.DATA_PAR, n.IterType.COMM_REDUCE)
            if not free and loop.loop_var in variables(value):
                raise Illegal(
                    f"block {realize.block.name_hint!r} needs the iterations of loop {loop.loop_var.name!r} in "
                    "their order",
                    loop.loop_var,
                )


@primitive("block|loop", outputs="loop")
def add_unit_loop(func: n.PrimFunc, where: n.Var | str) -> StepEffect:
    """A new loop of one iteration, right around a loop or a block.

    block C                   →   for u in 1:
                                      block C
    """
    path = loop_path(func, where) if isinstance(where, n.Var) else block_path(func, where)
    if isinstance(where, str) and len(path) == 1:
        raise Illegal("the root block has no loops", where)
    var = n.Var("u")
    new = n.For(var, ops.const(0), ops.const(1), ForKind.SERIAL, path[-1])
    return StepEffect(replaced(func, path, new), (var,))
