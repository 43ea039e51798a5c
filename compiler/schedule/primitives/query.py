"""Primitives that change nothing: they find blocks and loops, so that a trace can name them."""

from __future__ import annotations

from compiler.schedule.analysis import tree
from compiler.schedule.core.state import Illegal, StepEffect, block_path, loop_at, loop_path, realize_at
from compiler.schedule.core.step import FUNC_NAME, primitive
from compiler.tir import nodes as n


@primitive(attrs={"name": (str,), FUNC_NAME: (str, type(None))}, defaults={FUNC_NAME: None}, outputs="block")
def get_block(func: n.PrimFunc, name: str) -> StepEffect:
    """The block called `name`, in the function that is worked on or in `func_name`."""
    block_path(func, name)
    return StepEffect(func, (name,))


@primitive("block", outputs="loop*")
def get_loops(func: n.PrimFunc, block: str) -> StepEffect:
    """The loops around a block, outermost first."""
    return StepEffect(func, tuple(loop.loop_var for loop in tree.loops_of(block_path(func, block))))


@primitive("block|loop", outputs="block*")
def get_child_blocks(func: n.PrimFunc, where: n.Var | str) -> StepEffect:
    """The blocks right inside a block or a loop, in program order."""
    if isinstance(where, n.Var):
        inside = loop_at(loop_path(func, where)).body
    else:
        inside = realize_at(block_path(func, where)).block.body
    return StepEffect(func, tuple(r.block.name_hint for r in tree.realizes(inside)))


@primitive("block", outputs="block*")
def get_producers(func: n.PrimFunc, block: str) -> StepEffect:
    """The blocks beside this one that write what it reads, in program order."""
    me, others = _beside(func, block)
    read = {region.buffer for region in me.reads}
    return StepEffect(func, tuple(b.name_hint for b in others if any(w.buffer in read for w in b.writes)))


@primitive("block", outputs="block*")
def get_consumers(func: n.PrimFunc, block: str) -> StepEffect:
    """The blocks beside this one that read what it writes, in program order."""
    me, others = _beside(func, block)
    written = {region.buffer for region in me.writes}
    return StepEffect(func, tuple(b.name_hint for b in others if any(r.buffer in written for r in b.reads)))


def _beside(func: n.PrimFunc, name: str) -> tuple[n.Block, list[n.Block]]:
    path = block_path(func, name)
    scope = path[tree.scope_of(path)]
    if len(path) == 1 or not isinstance(scope, n.BlockRealize):
        raise Illegal("the root block has no other block beside it", name)
    siblings = [r.block for r in tree.realizes(scope.block.body)]
    return realize_at(path).block, [b for b in siblings if b.name_hint != name]


@primitive("block", outputs="block*")
def get_output_blocks(func: n.PrimFunc, block: str) -> StepEffect:
    """The blocks right inside a block that write an argument of the function, in program order."""
    inside = tree.realizes(realize_at(block_path(func, block)).block.body)
    arguments = set(func.buffer_map.values())
    return StepEffect(
        func, tuple(r.block.name_hint for r in inside if any(w.buffer in arguments for w in r.block.writes))
    )


@primitive()
def enter_postproc(func: n.PrimFunc) -> StepEffect:
    """Mark in the trace where the steps of a search end and those that finish its result begin.

    Changes nothing.

    sch.enter_postproc()   →   the trace has the step; the function is as before
    """
    return StepEffect(func)
