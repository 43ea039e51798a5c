"""The last steps of a stage, once all its loops are fixed.

It sets the scope of memory, conditions of stores, prefetches, and threads around the stage. Each is a rewrite of the
function that changes no loop a schedule step could name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from compiler.errors import ScheduleError
from compiler.ir.base import Span
from compiler.ir.visit import replace
from compiler.lower.blocks.plan_allocation import STORE_AT
from compiler.schedule.analysis import tree
from compiler.schedule.analysis.dataflow import scope_around
from compiler.schedule.core.schedule import LoopRV
from compiler.schedule.core.schedule import Schedule as Engine
from compiler.schedule.core.state import Illegal, block_path, loop_at, loop_path, realize_at, replaced
from compiler.schedule.core.step import as_error
from compiler.te.prefetch import fetch_ahead
from compiler.te.schedule.nest import StageNest, loop_of
from compiler.te.schedule.relations import Prefetch
from compiler.te.schedule.schedule import Schedule
from compiler.te.schedule.stage import Stage
from compiler.te.schedule.tensorize import TensorizedPart, tensorized
from compiler.te.tensor import Tensor
from compiler.te.tensor_intrin import TensorIntrin
from compiler.te.where import at
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.nodes import ForKind, IterType, IterVar, PrimExpr
from compiler.tir.visit import free_vars, seq, substitute


@dataclass(frozen=True, slots=True)
class Finisher:
    """Finishes the stages of one replay.
    `engine` knows their loops, which have new variables `names` since, and `buffers` holds their tensors."""

    schedule: Schedule
    engine: Engine
    nests: Mapping[Stage, StageNest]
    buffers: Mapping[Tensor, n.Buffer]
    names: Mapping[n.Var, n.Var]

    def finish(self, func: n.PrimFunc, nest: StageNest) -> n.PrimFunc:
        """Return `func` with the scopes, predicates, prefetches and threads that the stage of `nest` asks for.
        The scopes are those of memory. Raises ScheduleError that names the primitive and the user's line."""
        for primitive, span, rewrite in self._rewrites(nest):
            try:
                func = rewrite(func)
            except Illegal as broken:
                error = as_error(primitive, func, broken)
                first, newline, loops = error.message.partition("\n")
                message = f"{first}{at(span)}{newline}{loops}"
                raise ScheduleError(message, hint=error.hint, detail=error.detail) from None
        return func

    def _rewrites(self, nest: StageNest) -> Iterator[tuple[str, Span | None, Callable[[n.PrimFunc], n.PrimFunc]]]:
        """Yield (primitive, the user's line, the rewrite) of each request of the stage, in order."""
        stage = nest.stage
        if stage.store_stage is not None:
            yield "store_at", stage.said_at.get("store_at"), lambda func: self._store_at(func, nest)
        if stage.threads:
            yield "env_threads", stage.said_at.get("env_threads"), lambda func: self._env_threads(func, nest)
        if stage.store_predicate is not None:
            said = stage.said_at.get("set_store_predicate")
            yield "set_store_predicate", said, lambda func: self._store_predicate(func, nest)
        for request in stage.prefetches:
            yield "prefetch", request.span, partial(self._prefetch, nest=nest, request=request)
        for axis, attr in stage.iter_var_attrs.items():
            if attr.tensor_intrin is not None:
                yield "tensorize", attr.span, partial(self._tensorize, nest=nest, axis=axis, intrin=attr.tensor_intrin)

    def _var(self, loop: LoopRV) -> n.Var:
        return self.names[self.engine.get(loop).loop_var]

    def _paths(self, func: n.PrimFunc, nest: StageNest) -> list[tree.Path]:
        """The paths to the stage's blocks."""
        return [block_path(func, self.engine.get(block).name_hint) for block in nest.blocks]

    # ------------------------------------------------------------------------------ memory

    def _store_at(self, func: n.PrimFunc, nest: StageNest) -> n.PrimFunc:
        """Note on the loop meant that the stage's memory lives for one of its iterations."""
        parent, axis = nest.stage.store_stage, nest.stage.store_ivar
        assert parent is not None
        assert axis is not None
        var = self._var(loop_of(self.nests, parent, axis, "store_at", nest.stage))
        path = loop_path(func, var)
        loop = loop_at(path)
        _, scope = scope_around(func, self.engine.get(nest.block).name_hint)
        held = [write.buffer for write in self.engine.get(nest.block).writes]
        for member in scope.members:
            if any(member.reads(b) or member.writes(b) for b in held) and loop not in member.path:
                raise Illegal(
                    f"block {member.name!r}, outside loop {var.name!r}, uses {held[0].name!r}",
                    var,
                    hint=f"store it at a loop around block {member.name!r} too, or compute_at inside this one",
                )
        names = (*loop.annotations.get(STORE_AT, ()), *(buffer.name for buffer in held))
        return replaced(func, path, replace(loop, annotations={**loop.annotations, STORE_AT: names}))

    # ----------------------------------------------------------------------------- threads

    def _env_threads(self, func: n.PrimFunc, nest: StageNest) -> n.PrimFunc:
        """Put loops over the stage's threads around all statements that hold its blocks."""
        paths = self._paths(func, nest)
        if nest.depth:
            raise Illegal("the stage is computed in the loops of another", paths[-1][-1].block.name_hint)  # type: ignore[attr-defined]
        root = func.body
        assert isinstance(root, n.BlockRealize)
        stmts = root.block.body.seq if isinstance(root.block.body, n.SeqStmt) else (root.block.body,)
        mine = [i for i, stmt in enumerate(stmts) if any(stmt in path for path in paths)]
        body = seq(*stmts[mine[0] : mine[-1] + 1])
        bound = {loop.thread_binding.thread_tag for loop in tree.loops_in(body) if loop.thread_binding is not None}
        for thread in reversed(nest.stage.threads):
            if thread.thread_tag in bound:
                raise Illegal(f"a loop in it is bound to {thread.thread_tag} already")
            assert thread.dom is not None
            var = n.Var(thread.thread_tag.replace(".", "_"), thread.dtype)
            binding = IterVar(None, n.Var(thread.thread_tag, thread.dtype), IterType.THREAD_INDEX, thread.thread_tag)
            body = n.For(var, thread.dom.min, thread.dom.extent, ForKind.THREAD_BINDING, body, binding)
        whole = seq(*stmts[: mine[0]], body, *stmts[mine[-1] + 1 :])
        return func.with_body(tree.with_block(root, tree.with_block_body(root.block, whole)))

    def _store_predicate(self, func: n.PrimFunc, nest: StageNest) -> n.PrimFunc:
        """Run the stage's blocks only where its predicate holds, spoken of their loops."""
        predicate = nest.stage.store_predicate
        assert predicate is not None
        for number in range(len(nest.blocks)):
            path = self._paths(func, nest)[number]
            realize = realize_at(path)
            known = self._meaning(path, nest)
            condition = substitute(predicate, known)
            loops = {node.loop_var for node in path if isinstance(node, n.For)}
            for var in free_vars(condition) - loops - set(func.params):
                raise Illegal(
                    f"the predicate speaks of {var.name!r}, over which no loop around the block runs",
                    realize.block.name_hint,
                    hint="bind a loop to the thread axis, or use the stage's own axes",
                )
            guarded = ops.logical_and(realize.predicate, condition)
            func = replaced(func, path, n.BlockRealize(realize.iter_values, guarded, realize.block, realize.span))
        return func

    def _meaning(self, path: tree.Path, nest: StageNest) -> dict[n.Var, PrimExpr]:
        """Express the stage's axes and the schedule's thread axes at the block to which `path` leads."""
        realize, op = realize_at(path), nest.stage.op
        roots = zip((*op.axis, *op.reduce_axis), realize.iter_values)
        meaning: dict[n.Var, PrimExpr] = {axis.var: value for axis, value in roots}
        around = [node for node in path if isinstance(node, n.For)]
        for axis, loop in (*nest.loops.items(), *nest.init_loops.items()):
            if any(node.loop_var is self._var(loop) for node in around):
                meaning[axis.var] = self._var(loop)
        bound = {f.thread_binding.thread_tag: f.loop_var for f in around if f.thread_binding is not None}
        for thread in self._thread_axes():
            if thread.thread_tag in bound:
                meaning[thread.var] = bound[thread.thread_tag]
        return meaning

    def _thread_axes(self) -> Iterable[IterVar]:
        for stage in self.nests:
            yield from stage.threads
            yield from (a.bind_thread for a in stage.iter_var_attrs.values() if a.bind_thread is not None)

    # ------------------------------------------------------------------------------ prefetch

    def _prefetch(self, func: n.PrimFunc, nest: StageNest, request: Prefetch) -> n.PrimFunc:
        if request.axis not in nest.loops:
            raise Illegal(f"axis {request.axis.var.name!r} is no longer a loop")
        path = loop_path(func, self._var(nest.loops[request.axis]))
        buffer = self.buffers.get(self.schedule.current(request.tensor))
        ahead = None if buffer is None else fetch_ahead(path, buffer, request.offset)
        if ahead is None:
            var = loop_at(path).loop_var
            raise Illegal(f"nothing in loop {var.name!r} reads {request.tensor.name!r}", var)
        loop = loop_at(path)
        return replaced(func, path, tree.with_body(loop, seq(ahead, loop.body)))

    # ------------------------------------------------------------------------------ tensorize

    def _tensorize(self, func: n.PrimFunc, nest: StageNest, axis: IterVar, intrin: TensorIntrin) -> n.PrimFunc:
        """Put `intrin` in the place of the loop of `axis`.
        A reduction that was split gets its two halves."""
        apart = nest.init is not None
        part = TensorizedPart.UPDATE if apart else TensorizedPart.BODY
        func = self._with_intrinsic(func, nest.loops[axis], intrin, part)
        leaves = nest.stage.leaves
        resets = [nest.init_loops[leaf] for leaf in leaves[leaves.index(axis) :] if leaf in nest.init_loops]
        if apart and resets and intrin.reduce_init is not None:
            func = self._with_intrinsic(func, resets[0], intrin, TensorizedPart.RESET)
        return func

    def _with_intrinsic(self, func: n.PrimFunc, loop: LoopRV, intrin: TensorIntrin, part: TensorizedPart) -> n.PrimFunc:
        path = loop_path(func, self._var(loop))
        around = [node for node in path[:-1] if isinstance(node, n.For)]
        return replaced(func, path, tensorized(loop_at(path), around, intrin, part))
