"""Replay the stages' records of a te schedule on the schedule engine.

The function starts as one loop nest an operation. Inlined operations go first. Then every stage, consumers before
producers, is moved to where it is attached. That makes its loops anew, over just the region its consumer needs there.
Its splits, fusions and reorderings are done on these loops. Loops of hardware threads are bound, because the work
inside depends on which threads share its memory. Reductions are then split into init and update at their outermost
reduction loop. Last, loops become parallel, vectorised or unrolled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import assert_never

from compiler.errors import ScheduleError
from compiler.ir.base import Node, Span
from compiler.ir.visit import map_children, replace, walk
from compiler.schedule.core.schedule import Factor, LoopRV
from compiler.schedule.core.schedule import Schedule as Engine
from compiler.schedule.core.state import block_path, realize_at
from compiler.schedule.primitives.loops import loop_roles
from compiler.te.prim_func import Arg, build_func, identifier
from compiler.te.schedule.finish import Finisher
from compiler.te.schedule.nest import StageNest, loop_of
from compiler.te.schedule.relations import AttachType, Fuse, IterVarAttr, Relation, Reorder, Singleton, Split, Step
from compiler.te.schedule.scan_stage import check_parts, is_scan, scan_nests
from compiler.te.schedule.schedule import Schedule, computed_stages
from compiler.te.schedule.stage import Stage
from compiler.te.tensor import PlaceholderOp, Tensor, topological
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import IterType


def schedule_to_func(
    schedule: Schedule,
    args: Sequence[Arg],
    name: str = "main",
    binds: Mapping[Tensor, n.Buffer] | None = None,
    ranges: dict[n.IterVar, n.Range] | None = None,
) -> n.PrimFunc:
    """The TensorIR function of `args` computed as `schedule` says; `ranges` takes the range of each axis.

    `args` are tensors, buffers and variables in calling order. `binds` chooses the buffer of a tensor, which stands for
    that tensor in `args`. Raises ScheduleError, naming the stage, for a step that is illegal on this computation.
    Raises IRError for arguments that do not fit it.
    """
    check_parts(schedule)
    bound = {_current(schedule, tensor): buffer for tensor, buffer in (binds or {}).items()}
    held = {buffer: tensor for tensor, buffer in bound.items()}
    current = [held.get(a, a) if isinstance(a, n.Buffer) else a for a in args]
    current = [_current(schedule, a) if isinstance(a, Tensor) else a for a in current]
    scopes = {stage.op: _memory_scope(stage) for stage in schedule.stages}
    built = build_func(current, name, scopes, bound)
    wanted = set(topological([a for a in current if isinstance(a, Tensor)]))
    stages = [stage for stage in computed_stages(schedule) if stage.op in wanted and not is_scan(stage)]
    engine = Engine(built.func)
    nests = {stage: StageNest(stage, engine.get_block(built.blocks[stage.op])) for stage in stages}
    scans = scan_nests(schedule, engine, nests)

    def scheduled() -> tuple[n.PrimFunc, Mapping[n.Var, n.IterVar]]:
        return engine.func, {old: axis for axis, old in _loops_of_axes(engine, nests.values())}

    naming = partial(_naming, scheduled)
    for stage in stages:
        if stage.attach_type is AttachType.INLINE:
            with naming(stage, stage.attach_span):
                engine.compute_inline(nests.pop(stage).block)
    for nest in reversed(nests.values()):
        with naming(nest.stage, nest.stage.attachment().attach_span):
            _place(engine, nest, {**nests, **scans})
        _note_ranges(engine, nest, ranges)
        for step in nest.stage.steps:
            with naming(nest.stage, step.span):
                _apply(engine, nest, step)
        _note_ranges(engine, nest, ranges)
        _bind_threads(engine, nest, naming)
    for nest in nests.values():
        with naming(nest.stage):
            _decompose(engine, nest)
    for nest in nests.values():
        if nest.stage.rolled:
            with naming(nest.stage, nest.stage.said_at["rolling_buffer"]):
                engine.rolling_buffer(nest.block, 0)
    everything = {**nests, **scans}
    for nest in everything.values():
        _finish(engine, nest, naming)
    func, names = _with_axis_names(engine, list(everything.values()))
    finisher = Finisher(schedule, engine, everything, built.buffers, names)
    axes = {names[old]: axis for axis, old in _loops_of_axes(engine, everything.values())}
    naming = partial(_naming, lambda: (func, axes))
    for nest in nests.values():
        with naming(nest.stage):
            func = finisher.finish(func, nest)
    return func


@contextmanager
def _naming(
    current: Callable[[], tuple[n.PrimFunc, Mapping[n.Var, n.IterVar]]], stage: Stage, span: Span | None = None
) -> Iterator[None]:
    """Turns errors into ones that name the stage, the user's line, and loops by their axes.
    `current` gives the present function and the axis of each of its loops."""
    try:
        yield
    except ScheduleError as error:
        func, axes = current()
        names = {var: axis.var.name for var, axis in axes.items()}
        first, newline, nest = in_axis_names(error.message, func, names).partition("\n")
        message = f"stage {stage.name!r}: {first}{at(span)}{newline}{nest}"
        raise ScheduleError(message, hint=error.hint, detail=error.detail) from error


def _current(schedule: Schedule, tensor: Tensor) -> Tensor:
    if tensor not in schedule and isinstance(tensor.op, PlaceholderOp):
        return tensor  # an argument that the computation does not use
    return schedule.current(tensor)


def _memory_scope(stage: Stage) -> str:
    """Return the memory of a stage's result: what the threads around it share.

    That is its own scope, else "local" in a loop over threads, "shared" in one over blocks, "global" elsewhere.
    """
    if stage.scope:
        return stage.scope
    tags = list(_threads_around(stage))
    if any(tag.startswith(("threadIdx", "vthread")) for tag in tags):
        return "local"
    return "shared" if tags else "global"


def _threads_around(stage: Stage) -> Iterator[str]:
    """The thread axes of the loops that the stage is computed in, those of the stages around it too."""
    where = stage.attachment()
    while where.attach_type is AttachType.SCOPE and where.attach_stage is not None:
        parent, axis = where.attach_stage, where.attach_ivar
        leaves = list(parent.leaves)
        inmost = None if axis is None else parent.loop_made_of(axis)
        held = leaves[: next((i + 1 for i, leaf in enumerate(leaves) if leaf is inmost), 0)]
        for leaf in held:
            attr = parent.iter_var_attrs.get(leaf)
            if attr is not None and attr.bind_thread is not None:
                yield attr.bind_thread.thread_tag
        where = parent.attachment()


# ------------------------------------------------------------------------------------- place


def _place(engine: Engine, nest: StageNest, nests: Mapping[Stage, StageNest]) -> None:
    """Move the block to where its stage is attached, and find the loop of each axis."""
    stage, where = nest.stage, nest.stage.attachment()
    if where.attach_type is AttachType.SCOPE:
        assert where.attach_stage is not None
        assert where.attach_ivar is not None
        loop = loop_of(nests, where.attach_stage, where.attach_ivar, "compute_at", stage)
        engine.compute_at(nest.block, loop, preserve_unit_loops=True)
    axes = [*stage.op.axis, *stage.op.reduce_axis]
    loops = engine.get_loops(nest.block)
    nest.depth = len(loops) - len(axes)
    nest.loops = dict(zip(axes, loops[nest.depth :]))


def _note_ranges(engine: Engine, nest: StageNest, ranges: dict[n.IterVar, n.Range] | None) -> None:
    if ranges is not None:
        for axis, name in nest.loops.items():
            loop = engine.get(name)
            ranges[axis] = n.Range(loop.min, loop.extent)


def _apply(engine: Engine, nest: StageNest, step: Step) -> None:
    loops = nest.loops
    match step:
        case Split():
            size = _factor(engine, step.factor if step.nparts is None else step.nparts)
            parts = [None, size] if step.nparts is None else [size, None]
            loops[step.outer], loops[step.inner] = engine.split(
                loops.pop(step.parent), parts, disable_predication=step.disable_predication
            )
        case Fuse():
            loops[step.fused] = engine.fuse(loops.pop(step.outer), loops.pop(step.inner))
        case Singleton():
            own = engine.get_loops(nest.block)[nest.depth :]
            loops[step.iter] = engine.add_unit_loop(own[0] if own else nest.block)
        case Reorder():
            if step.axes:
                engine.reorder(*(loops[axis] for axis in step.axes))
        case _:
            assert_never(step)


def _factor(engine: Engine, size: n.PrimExpr | None) -> Factor:
    """A factor as a step takes it.
    A factor that is only known at run time gets a name, as a decision has."""
    assert size is not None
    known = ops.as_int(size)
    return engine.name_size(size) if known is None else known


def _bind_threads(engine: Engine, nest: StageNest, naming: Callable[..., AbstractContextManager[None]]) -> None:
    for leaf, attr in nest.stage.iter_var_attrs.items():
        if attr.bind_thread is not None and leaf in nest.loops:
            with naming(nest.stage, attr.span):
                engine.bind(nest.loops[leaf], attr.bind_thread.thread_tag)


# ------------------------------------------------------------------------------------ finish


def _decompose(engine: Engine, nest: StageNest) -> None:
    """Put the reduction's init right before the outermost reduction loop."""
    stage = nest.stage
    leaves = stage.leaves
    if not stage.op.reduce_axis or any(_mixed(relation) or _of_any_size(relation) for relation in stage.relations):
        return
    first = next(i for i, leaf in enumerate(leaves) if leaf.iter_type is IterType.COMM_REDUCE)
    if any(stage.tensorized(leaf) for leaf in leaves[: first + 1]):
        return  # the intrinsic does all of the reduction
    if any(leaf.iter_type is IterType.COMM_REDUCE and _thread_of(stage, leaf) for leaf in leaves):
        return  # threads reduce together, which is lowered as a whole
    realize = realize_at(block_path(engine.func, engine.get(nest.block).name_hint))
    in_data, _ = loop_roles(realize)
    data = [leaf for leaf in leaves[first:] if engine.get(nest.loops[leaf]).loop_var in in_data]
    nest.init = engine.decompose_reduction(nest.block, nest.loops[leaves[first]])
    loops = engine.get_loops(nest.init)
    nest.init_loops = dict(zip(data, loops[len(loops) - len(data) :]))


def _thread_of(stage: Stage, leaf: n.IterVar) -> str:
    """The thread axis a leaf is bound to, "" for none."""
    attr = stage.iter_var_attrs.get(leaf)
    return attr.bind_thread.thread_tag if attr is not None and attr.bind_thread is not None else ""


def _of_any_size(relation: Relation) -> bool:
    """Whether it splits by a size that is only known at run time; no analysis follows such an index."""
    match relation:
        case Split(factor=factor, nparts=nparts):
            return ops.as_int(nparts if factor is None else factor) is None
    return False


def _mixed(relation: Relation) -> bool:
    return isinstance(relation, Fuse) and relation.outer.iter_type is not relation.inner.iter_type


def _finish(engine: Engine, nest: StageNest, naming: Callable[..., AbstractContextManager[None]]) -> None:
    stage = nest.stage
    for leaf, attr in stage.iter_var_attrs.items():
        with naming(stage, attr.span):
            if leaf not in stage.leaves:
                raise ScheduleError(
                    f"axis {leaf.var.name!r} was given a kind and then split or fused away",
                    hint="set the kinds of loops after splitting them",
                )
            for loops in (nest.loops, nest.init_loops):
                if leaf in loops:
                    _set_kind(engine, loops[leaf], attr)
    with naming(stage):
        if stage.double_buffered:
            engine.annotate(nest.block, "double_buffer_scope", 0)
        if stage.alignments:
            roots = [axis.var for axis in stage.op.axis]
            sides = tuple((0, roots.index(axis.var), *amounts) for axis, amounts in stage.alignments.items())
            engine.annotate(nest.block, "buffer_dim_align", sides)


def _set_kind(engine: Engine, loop: LoopRV, attr: IterVarAttr) -> None:
    match attr.iter_type:
        case IterType.VECTORIZED:
            engine.vectorize(loop)
        case IterType.PARALLELIZED:
            engine.parallel(loop)
        case IterType.UNROLLED:
            engine.unroll(loop)
        case _:
            pass
    for key, value in attr.pragmas:
        known = None if value is None else ops.as_int(value)
        engine.annotate(loop, f"pragma_{key}", value if known is None else known)


def _loops_of_axes(engine: Engine, nests: Iterable[StageNest]) -> Iterator[tuple[n.IterVar, n.Var]]:
    """Each axis with the variable of its loop."""
    for nest in nests:
        for axis, loop in [*nest.loops.items(), *nest.init_loops.items()]:
            yield axis, engine.get(loop).loop_var


def _with_axis_names(engine: Engine, nests: Sequence[StageNest]) -> tuple[n.PrimFunc, dict[n.Var, n.Var]]:
    """The engine's function with each loop named after its axis, and the new variable of each loop."""
    names: dict[n.Var, n.Var] = {}
    for axis, old in _loops_of_axes(engine, nests):
        names.setdefault(old, n.Var(identifier(axis.var.name), old.dtype))

    def rename(node: Node) -> Node:
        if isinstance(node, n.Var):
            return names.get(node, node)
        rebuilt = map_children(node, rename)
        if isinstance(rebuilt, n.For) and rebuilt.loop_var in names:
            return replace(rebuilt, loop_var=names[rebuilt.loop_var])
        return rebuilt

    func = engine.func
    body = rename(func.body)
    assert isinstance(body, n.Stmt)
    return func.with_body(body), names


_LOOP = re.compile(r"^(\s*for )(\S+)( in .*)$")


def in_axis_names(message: str, func: n.PrimFunc, names: Mapping[n.Var, str]) -> str:
    """`message` with the loop nest of `func` under it, and with loops called as `names` says.

    The nest is drawn in the order of the loops in `func`. If the message is about a part of them, its names stay.
    """
    first, newline, nest = message.partition("\n")
    loops = [node.loop_var for node in walk(func.body) if isinstance(node, n.For)]
    for name in {var.name for var in loops}:
        meant = {names.get(var, var.name) for var in loops if var.name == name}
        if len(meant) == 1:
            first = first.replace(f"{name!r}", f"{meant.pop()!r}")
    lines = nest.split("\n")
    drawn = [at for at, line in enumerate(lines) if _LOOP.match(line)]
    if len(drawn) == len(loops):
        for at, var in zip(drawn, loops):
            lines[at] = _renamed(lines[at], names.get(var, var.name))
    return first + newline + "\n".join(lines)


def _renamed(line: str, name: str) -> str:
    """Rename a drawn loop, and keep its arrow in the same column."""
    found = _LOOP.match(line)
    assert found is not None
    text = f"{found[1]}{name}{found[3]}"
    body, arrow, _ = text.partition("<--")
    return text if not arrow else body.rstrip().ljust(line.index("<--") - 1) + " <--"
