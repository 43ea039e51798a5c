"""Primitives that say how a loop runs: parallel, vectorize, unroll, bind; and annotations."""

from __future__ import annotations

from typing import Any

from compiler.ir.visit import replace
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import is_parameter
from compiler.schedule.analysis.expr import variables
from compiler.schedule.analysis.injective import is_reduction, undetermined
from compiler.schedule.analysis.tree import Path
from compiler.schedule.core.state import Illegal, StepEffect, block_path, loop_at, loop_path, realize_at, replaced
from compiler.schedule.core.step import primitive
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType

_TAGS = (*(f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx") for axis in "xyz"), "vthread")


@primitive("loop")
def parallel(func: n.PrimFunc, loop: n.Var) -> StepEffect:
    """Share the iterations of a loop among threads.

    No reduction may run along the loop, and no other parallel loop may stand outside or inside it.

        for i in 64: ...          →   for i in T.parallel(64): ...
    """
    path = loop_path(func, loop)
    _check_independent(func, path, "parallel")
    _check_not_nested(path, ForKind.PARALLEL)
    return _with_kind(func, path, ForKind.PARALLEL)


@primitive("loop")
def vectorize(func: n.PrimFunc, loop: n.Var) -> StepEffect:
    """Run the iterations of a loop as lanes of vector instructions.

    The extent must be constant; no reduction may run along the loop, and no loop in it may be vectorised or
    parallel.

        for i in 8: ...           →   for i in T.vectorized(8): ...
    """
    path = loop_path(func, loop)
    _check_constant(loop_at(path), "vectorize")
    _check_independent(func, path, "vectorized")
    _check_not_nested(path, ForKind.VECTORIZED)
    for inside in tree.loops_in(loop_at(path).body):
        if inside.kind is ForKind.PARALLEL:
            raise Illegal(f"loop {inside.loop_var.name!r} inside loop {loop.name!r} is parallel", loop)
    return _with_kind(func, path, ForKind.VECTORIZED)


@primitive("loop")
def unroll(func: n.PrimFunc, loop: n.Var) -> StepEffect:
    """Write out the iterations of a loop one after another. The extent must be constant.

    for i in 4: ...           →   for i in T.unroll(4): ...
    """
    path = loop_path(func, loop)
    _check_constant(loop_at(path), "unroll")
    return _with_kind(func, path, ForKind.UNROLLED)


@primitive("loop", attrs={"thread_axis": (str,)})
def bind(func: n.PrimFunc, loop: n.Var, thread_axis: str) -> StepEffect:
    """Run each iteration of a loop on a device thread of its own.

    `thread_axis` is "blockIdx.x" to ".z", "threadIdx.x" to ".z" or "vthread". A reduction may run along threadIdx only:
    lowering makes the threads of a block add up what each has. A loop bound to the threadIdx of a loop around it shares
    its work among those threads. So its results must be the same for each of them, in memory that they share.

        for i in 32: ...          →   for i in T.thread_binding(32, thread="threadIdx.x"): ...
    """
    path, thread = loop_path(func, loop), thread_axis
    if thread not in _TAGS and not thread.startswith("vthread."):
        raise Illegal(f"there is no thread axis {thread!r}", loop, hint=f"there are {', '.join(_TAGS)}")
    _check_independent(func, path, f"bound to {thread}", reduces=thread.startswith("threadIdx."))
    old = loop_at(path)
    for outer in path[:-1]:
        if isinstance(outer, n.For) and _tag(outer) == thread and not _shares_work(outer, old):
            raise Illegal(f"loop {outer.loop_var.name!r} around it is bound to {thread} already", loop)
    for inside in tree.loops_in(old.body):
        if _tag(inside) == thread and not _shares_work(old, inside):
            raise Illegal(f"loop {inside.loop_var.name!r} in it is bound to {thread} already", loop)
    axis = n.IterVar(None, n.Var(thread, loop.dtype), IterType.THREAD_INDEX, thread)
    new = replace(old, kind=ForKind.THREAD_BINDING, thread_binding=axis)
    return StepEffect(replaced(func, path, new))


def _shares_work(outer: n.For, inner: n.For) -> bool:
    """Whether the threads of `outer` may share the iterations of `inner`, bound to the same axis.
    No iteration may depend on its thread of `outer`, and every thread must see all that they write."""
    if _tag(outer) == "vthread" or _tag(inner) == "vthread":
        return True
    return all(
        outer.loop_var not in {v for value in (*realize.iter_values, realize.predicate) for v in variables(value)}
        and all(write.buffer.scope.startswith(("shared", "global")) for write in realize.block.writes)
        for realize in tree.realizes(inner.body)
    )


def _tag(loop: n.For) -> str:
    return loop.thread_binding.thread_tag if loop.thread_binding is not None else ""


def _with_kind(func: n.PrimFunc, path: Path, kind: ForKind) -> StepEffect:
    old = loop_at(path)
    if old.kind is ForKind.THREAD_BINDING:
        raise Illegal(f"loop {old.loop_var.name!r} is bound to {_tag(old)}", old.loop_var)
    new = n.For(old.loop_var, old.min, old.extent, kind, old.body, None, old.annotations, old.span)
    return StepEffect(replaced(func, path, new))


def _check_constant(loop: n.For, verb: str) -> None:
    if ops.as_int(loop.extent) is None:
        name = loop.loop_var.name
        raise Illegal(f"cannot {verb} loop {name!r}: its extent is not constant", loop.loop_var)


def _check_independent(func: n.PrimFunc, path: Path, how: str, reduces: bool = False) -> None:
    """The iterations of the loop may run at once.
    Every block under it uses the loop in data axes only, or, where `reduces`, in reduced axes of a block that still has
    its init."""
    loop = loop_at(path)
    var = loop.loop_var
    for realize in tree.realizes(loop.body):
        for iter_var, value in zip(realize.block.iter_vars, realize.iter_values):
            if iter_var.iter_type is IterType.DATA_PAR or var not in variables(value):
                continue
            if reduces and iter_var.iter_type is IterType.COMM_REDUCE and realize.block.init is not None:
                continue
            block, axis = realize.block.name_hint, iter_var.var.name
            if iter_var.iter_type is IterType.COMM_REDUCE:
                raise Illegal(
                    f"loop {var.name!r} cannot be {how}: the reduction axis {axis!r} of block {block!r} runs along it",
                    var,
                    hint="rfactor the loop first, or take a loop over a data axis",
                )
            raise Illegal(f"loop {var.name!r} cannot be {how}: axis {axis!r} of block {block!r} is ordered", var)
        if is_reduction(realize.block) and not ops.is_const(loop.extent, 1):
            _check_shared_reduction(path, realize, func, how)


def _check_shared_reduction(path: Path, realize: n.BlockRealize, func: n.PrimFunc, how: str) -> None:
    """Check that iterations which add to the same elements each have a buffer of their own.
    Such elements are the overlap of two windows. They have one if nothing outside the loop uses it."""
    loop, block = loop_at(path), realize.block
    data = [v for iv, v in zip(block.iter_vars, realize.iter_values) if iv.iter_type is IterType.DATA_PAR]
    around = [node for node in path[:-1] if isinstance(node, n.For)]
    inside = tree.loops_around(loop, realize)
    reduced = {v for iv, value in zip(block.iter_vars, realize.iter_values)
               if iv.iter_type is IterType.COMM_REDUCE for v in variables(value)}  # fmt: skip
    moving = [f for f in inside if f.loop_var not in reduced]
    if loop not in undetermined(data, moving, [*around, *inside], realize.predicate):
        return
    scope = path[tree.scope_of(path)]
    assert isinstance(scope, n.BlockRealize)
    under = tree.realizes(loop)
    outside = [r for r in tree.realizes(scope.block.body) if not any(r is u for u in under)]
    for buffer in (w.buffer for w in block.writes):
        users = [r for r in outside if any(x.buffer is buffer for x in (*r.block.reads, *r.block.writes))]
        if users or is_parameter(func, buffer):
            raise Illegal(
                f"loop {loop.loop_var.name!r} cannot be {how}: its iterations add to the same elements of "
                f"{buffer.name!r}, the result of block {block.name_hint!r}",
                loop.loop_var,
            )


def _check_not_nested(path: Path, kind: ForKind) -> None:
    loop = loop_at(path)
    around = [node for node in path[:-1] if isinstance(node, n.For) and node.kind in (kind, ForKind.VECTORIZED)]
    inside = [node for node in tree.all_loops_in(loop.body) if node.kind is kind]
    for other in (*around, *inside):
        name = other.loop_var.name
        where = "around" if other in around else "in"
        raise Illegal(f"loop {name!r} {where} loop {loop.loop_var.name!r} is {other.kind.value} already", loop.loop_var)


# -------------------------------------------------------------------------------- annotations


def _spell_annotate(inputs: list[str], attrs: dict[str, Any]) -> str:
    value = attrs["ann_val"]
    shown = inputs[1] if len(inputs) > 1 else repr(list(value)) if isinstance(value, tuple) else repr(value)
    return f"{inputs[0]}, ann_key={attrs['ann_key']!r}, ann_val={shown}"


@primitive(
    "block|loop",
    "int*",
    attrs={"ann_key": (str,), "ann_val": (str, int, float, bool, tuple, type(None))},
    spell=_spell_annotate,
)
def annotate(func: n.PrimFunc, where: n.Var | str, *sampled: int, ann_key: str, ann_val: Any) -> StepEffect:
    """Note `ann_key`: `ann_val` on a loop or a block, for passes and the code generator.

    The value is plain data, or one that was sampled.

        for i in 64: ...          →   for i in T.serial(64, annotations={"pragma_unroll": 4}): ...
    """
    if len(sampled) > 1 or (sampled and ann_val is not None):
        raise Illegal("an annotation has one value", where)
    value = sampled[0] if sampled else ann_val
    return _annotations(func, where, lambda old: {**old, ann_key: value})


@primitive("block|loop", attrs={"ann_key": (str,)})
def unannotate(func: n.PrimFunc, where: n.Var | str, ann_key: str) -> StepEffect:
    """Take the note `ann_key` off a loop or a block.

    for i in T.serial(64, annotations={"pragma_unroll": 4}): ...   →   for i in 64: ...
    """

    def without(old: dict[str, Any]) -> dict[str, Any]:
        if ann_key not in old:
            raise Illegal(f"it has no annotation {ann_key!r}", where, hint=f"it has: {', '.join(old) or 'none'}")
        return {k: v for k, v in old.items() if k != ann_key}

    return _annotations(func, where, without)


def _annotations(func: n.PrimFunc, where: n.Var | str, change: Any) -> StepEffect:
    if isinstance(where, n.Var):
        path = loop_path(func, where)
        loop = loop_at(path)
        return StepEffect(replaced(func, path, replace(loop, annotations=change(dict(loop.annotations)))))
    path = block_path(func, where)
    realize = realize_at(path)
    block = replace(realize.block, annotations=change(dict(realize.block.annotations)))
    return StepEffect(replaced(func, path, tree.with_block(realize, block)))
