"""Taking the init of a reduction out: decompose_reduction."""

from __future__ import annotations

from collections.abc import Sequence

from compiler.ir.visit import replace
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import fresh_block_name, scope_around, with_regions
from compiler.schedule.analysis.expr import Mapped, conjunction, conjuncts, subst, subst_tree, variables
from compiler.schedule.analysis.injective import repeating_loop
from compiler.schedule.core.state import Illegal, StepEffect, loop_path, replaced
from compiler.schedule.core.step import primitive
from compiler.schedule.primitives.loops import loop_roles
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType, PrimExpr, Stmt
from compiler.tir.visit import seq


@primitive("block", "loop", outputs="block")
def decompose_reduction(func: n.PrimFunc, block: str, loop: n.Var) -> StepEffect:
    """Move the init of a reduction into a separate block right before `loop`.

    No loop outside `loop` may run along a reduction axis. The blocks are then called C_init and C_update.

        for i:                            →   for i:
          for k:                                block C_init: C[vi] = 0
            block C:                            for k:
              init: C[vi] = 0                     block C_update: C[vi] = C[vi] + A[vi, vk]
              C[vi] = C[vi] + A[vi, vk]
    """
    me, _ = scope_around(func, block)
    path, realize = me.path, me.realize
    if realize.block.init is None:
        raise Illegal(f"block {block!r} has no init to take out", block)
    around = tree.loops_of(path)
    position = next((i for i, f in enumerate(around) if f.loop_var is loop), None)
    if position is None:
        loop_path(func, loop)
        raise Illegal(f"loop {loop.name!r} is not around block {block!r}", loop)
    data, reduced = loop_roles(realize)
    for outer in around[:position]:
        if outer.loop_var in reduced:
            raise Illegal(
                f"loop {outer.loop_var.name!r} outside loop {loop.name!r} runs along a reduction axis of block "
                f"{block!r}: the init would run once for each of its iterations",
                loop,
                hint=f"decompose at loop {outer.loop_var.name!r}",
            )
    inside = around[position:]
    for inner in inside:
        if inner.loop_var in data and inner.loop_var in reduced:
            raise Illegal(
                f"loop {inner.loop_var.name!r} runs along a data axis and a reduction axis at once", inner.loop_var
            )
    repeating = repeating_loop(realize, around, position)
    if repeating is not None:
        raise Illegal(
            f"loop {repeating.loop_var.name!r} visits elements of block {block!r} again: with the init outside of it "
            "they would be added more than once",
            repeating.loop_var,
            hint="decompose at a loop inside it",
        )
    check_separable(realize, around, position, data, "init")
    _check_alone(realize, inside[0])
    init_name = fresh_block_name(func, f"{block}_init")
    update_name = fresh_block_name(func, f"{block}_update")
    init = init_nest(realize, inside, data, init_name)
    update_block = replace(realize.block, name_hint=update_name, init=None)
    if tree.realizes(update_block.body):  # its regions are in the axes of blocks inside: take those that are known
        own_reads = tuple(w for w in update_block.writes if not any(r.buffer is w.buffer for r in update_block.reads))
        update_block = replace(update_block, reads=(*own_reads, *update_block.reads))
    else:
        update_block = with_regions(update_block)
    loop_depth = path.index(inside[0])
    update = tree.replace_at(path[loop_depth:], tree.with_block(realize, update_block))
    new = replaced(func, path[: loop_depth + 1], seq(init, update))
    return StepEffect(new, (init_name,), {block: update_name})


def _check_alone(realize: n.BlockRealize, loop: n.For) -> None:
    """Check that no other block in the loop writes what the reduction does, or reads it before.
    The init would be in its way."""
    own = {w.buffer for w in realize.block.writes}
    behind = False
    for other in tree.realizes(loop):
        if other is realize:
            behind = True
            continue
        touched = {r.buffer for r in (other.block.writes if behind else (*other.block.writes, *other.block.reads))}
        if own & touched:
            name = realize.block.name_hint
            raise Illegal(f"block {other.block.name_hint!r} in the loop uses what block {name!r} writes", loop.loop_var)


def check_separable(
    realize: n.BlockRealize, around: Sequence[n.For], position: int, data: set[n.Var], part: str
) -> None:
    """Check that part of the block can run before loop `around[position]`, in data loops alone.
    No condition may tie those loops to outer ones."""
    outside = {f.loop_var for f in around[:position]}
    dropped = {f.loop_var for f in around[position:]} - data
    if any(variables(c) & dropped and variables(c) & outside for c in conjuncts(realize.predicate)):
        raise Illegal(
            f"whether block {realize.block.name_hint!r} runs hangs on loops on both sides of the place of its {part}",
            around[position].loop_var,
            hint="decompose at a loop further out",
        )


def init_nest(realize: n.BlockRealize, inside: list[n.For], data: set[n.Var], name: str) -> Stmt:
    """The init in new loops like those of `inside` that run along data axes.
    Conditions on the reduction loops do not apply to it. All other loops have one iteration."""
    block = realize.block
    loops = [f for f in inside if f.loop_var in data]
    fresh: dict[n.Var, PrimExpr] = {f.loop_var: f.min for f in inside if ops.is_const(f.extent, 1)}
    dropped = {f.loop_var for f in inside} - data - fresh.keys()
    new_loops = {f.loop_var: n.Var(f"{f.loop_var.name}_init", f.loop_var.dtype) for f in loops}
    fresh.update(new_loops)
    kept = [(iv, v) for iv, v in zip(block.iter_vars, realize.iter_values) if iv.iter_type is not IterType.COMM_REDUCE]
    new_vars = {iv.var: n.Var(iv.var.name, iv.var.dtype) for iv, _ in kept}
    assert block.init is not None
    own = n.Block(
        tuple(replace(iv, var=new_vars[iv.var]) for iv, _ in kept),
        (), (), name, subst_tree(block.init, new_vars), span=block.span,
    )  # fmt: skip
    if tree.realizes(own.body):
        own = replace(own, writes=tuple(_in_axes(w, new_vars) for w in block.writes))
    else:
        own = with_regions(own)
    conditions = [c for c in conjuncts(realize.predicate) if not variables(c) & dropped]
    body: Stmt = n.BlockRealize(tuple(subst(v, fresh) for _, v in kept), subst(conjunction(conditions), fresh), own)
    for loop in reversed(loops):
        kind = loop.kind if loop.kind is ForKind.THREAD_BINDING else ForKind.SERIAL
        binding = loop.thread_binding if kind is ForKind.THREAD_BINDING else None
        body = n.For(new_loops[loop.loop_var], subst(loop.min, fresh), subst(loop.extent, fresh), kind, body, binding)
    return body


def _in_axes(region: n.BufferRegion, axes: Mapped) -> n.BufferRegion:
    return n.BufferRegion(
        region.buffer, tuple(n.Range(subst(side.min, axes), subst(side.extent, axes)) for side in region.region)
    )
