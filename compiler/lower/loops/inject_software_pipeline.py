"""Loops whose statements work on different iterations at a time, so that early parts run ahead.

    for k in 8:          stage                  fill B[0] for k = 0
      fill B for k       0                      for k in 7:
      ... = B[...]       1             →          fill B[(k + 1) % 2] for k + 1
                                                  ... = B[k % 2]
                                                ... = B[7 % 2]

A loop is annotated with `software_pipeline_stage`: for each statement how many iterations it runs behind the first, and
`software_pipeline_order`: its place in the new body. Buffers that live for one iteration get as many versions as are
in use at a time. Stages in `software_pipeline_async_stages` are copies that go on by themselves: on GPUs their stores
become `cp.async` (see `inject_async_copy`), in one group for each run of such statements. Each iteration makes as many
groups, be they empty, so a constant says how many may still be under way when one is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import replace as changed

from compiler.errors import LoweringError
from compiler.ir.base import Node
from compiler.ir.visit import map_children, replace, transform
from compiler.lower.analysis.conditions import TRUE, guarded
from compiler.lower.analysis.rename import substituted
from compiler.lower.gpu.inject_async_copy import ASYNC_SCOPE
from compiler.lower.gpu.thread_axes import is_bound
from compiler.lower.loops.pipeline_versions import StatementAccess, apart_in_iterations, uses, versions
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.intrin.ptx import MEMORY, ptx_commit_group, ptx_wait_group
from compiler.tir.nodes import ForKind, PrimExpr, Stmt
from compiler.tir.transform import tir_pass
from compiler.tir.verify import LoweringStage
from compiler.tir.visit import seq, walk_stmts

STAGE = "software_pipeline_stage"
ORDER = "software_pipeline_order"
ASYNC = "software_pipeline_async_stages"
_PART = "software_pipeline_part"  # an attribute around each statement that the annotations count
_MOST_STAGES = 16  # before and behind the loop stand as many copies of its body


# --------------------------------------------------------------------------- what the annotations count


@tir_pass("MarkPipelineParts")
def mark_parts(func: n.PrimFunc) -> n.PrimFunc:
    """Mark the statements of annotated loops, before later passes put others, such as inits, beside them."""

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.For) and STAGE in rebuilt.annotations:
            return replace(rebuilt, body=_marked(rebuilt.body))
        return rebuilt

    if not any(isinstance(node, n.For) and STAGE in node.annotations for node in walk_stmts(func.body)):
        return func
    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


def _marked(body: Stmt) -> Stmt:
    match body:
        case n.SeqStmt():
            return seq(*(_marked(part) for part in body.seq))
        case n.BlockRealize(block=n.Block(iter_vars=(), body=inner)) if ops.is_const(body.predicate, 1):
            if body.block.alloc_buffers or isinstance(inner, n.SeqStmt):
                return replace(body, block=replace(body.block, body=_marked(inner)))
    return n.AttrStmt(None, _PART, ops.const(1), body)


def _opened(body: Stmt) -> tuple[list[n.Allocate], list[Stmt]]:
    """The memory of an iteration and its statements."""
    match body:
        case n.Allocate():
            held, parts = _opened(body.body)
            return [body, *held], parts
        case n.SeqStmt():
            found = [_opened(part) for part in body.seq]
            return [a for held, _ in found for a in held], [part for _, parts in found for part in parts]
        case n.AttrStmt(attr_key=key) if key == _PART:
            return [], [body.body]
    return [], [body]


# --------------------------------------------------------------------------------------------- the pass


@tir_pass("InjectSoftwarePipeline", gives=LoweringStage.LOOPS)
def inject_software_pipeline(func: n.PrimFunc) -> n.PrimFunc:
    """Run the statements of annotated loops on different iterations at a time.

    The function has no blocks. Raises LoweringError where the annotations are not of its statements, or would change
    what it computes.
    """
    on_gpu = is_bound(func)

    def go(node: Node) -> Node:
        if isinstance(node, PrimExpr):
            return node
        rebuilt = map_children(node, go)
        if isinstance(rebuilt, n.For) and {STAGE, ORDER, ASYNC} & rebuilt.annotations.keys():
            return _Pipeline(rebuilt, on_gpu).made()
        return rebuilt

    if not any(isinstance(node, n.For) and node.annotations for node in walk_stmts(func.body)):
        return func
    body = go(func.body)
    assert isinstance(body, Stmt)
    return func.with_body(body)


@dataclass(frozen=True, slots=True)
class _Part:
    """A statement of the loop: `stage` iterations behind, at place `order`.
    `group`: the group of its asynchronous copies, counted within an iteration; None if it makes none."""

    stmt: Stmt
    stage: int
    order: int
    uses: tuple[StatementAccess, ...]
    group: int | None = None

    def writes(self, data: n.Var) -> bool:
        return any(use.data is data and use.write for use in self.uses)

    def touches(self, data: n.Var) -> bool:
        return any(use.data is data for use in self.uses)


class _Pipeline:
    """Works on one loop."""

    def __init__(self, loop: n.For, on_gpu: bool) -> None:
        self.loop, self.on_gpu = loop, on_gpu
        self.held, statements = _opened(loop.body)
        stages, orders = self._numbers(STAGE), self._numbers(ORDER)
        if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
            raise self._error(f"it is {loop.kind.name.lower()}", "pipelines are of loops that run in order")
        if not len(stages) == len(orders) == len(statements):
            raise self._error(
                f"{STAGE} has {len(stages)} numbers and {ORDER} {len(orders)}",
                f"it has {len(statements)} statements: one number each",
            )
        if sorted(orders) != list(range(len(orders))):
            raise self._error(f"{ORDER} is {list(orders)}", f"it names each place of 0 to {len(orders) - 1} once")
        if min(stages) < 0 or max(stages) - min(stages) > _MOST_STAGES:
            raise self._error(f"{STAGE} is {list(stages)}", f"stages are from 0 to {_MOST_STAGES}")
        first = min(stages)
        self.last = max(stages) - first
        self.parts = [
            _Part(stmt, stage - first, order, uses(stmt)) for stmt, stage, order in zip(statements, stages, orders)
        ]
        self._check()
        self.ordered = self._grouped({x - first for x in self._numbers(ASYNC)} if ASYNC in loop.annotations else set())
        self.groups = len({part.group for part in self.ordered} - {None})
        self.begin, self.extent = loop.min, loop.extent
        self._zero = ops.const(0, loop.loop_var.dtype)

    def _numbers(self, key: str) -> tuple[int, ...]:
        value = self.loop.annotations.get(key)
        if value is None:
            raise self._error(f"it has no {key}", f"{STAGE} and {ORDER} belong together")
        if not isinstance(value, tuple | list) or not all(isinstance(x, int | n.IntImm) for x in value):
            raise self._error(f"{key} is {value!r}", "it is a list of integers")
        return tuple(x.value if isinstance(x, n.IntImm) else int(x) for x in value)

    def _error(self, what: str, hint: str) -> LoweringError:
        return LoweringError(f"loop {self.loop.loop_var.name!r} cannot be a software pipeline: {what}", hint=hint)

    def _check(self) -> None:
        """Raise LoweringError unless each statement finds what it needs."""
        own = {a.buffer_var for a in self.held}
        for at, early in enumerate(self.parts):
            for late in self.parts[at + 1 :]:
                for data in sorted(_shared(early, late), key=lambda var: var.name):
                    if (early.stage, early.order) >= (late.stage, late.order) or late.stage < early.stage:
                        raise self._error(
                            f"one of its statements needs {data.name} from another before it, and would come first",
                            "a statement is of no earlier stage than what it needs; in one stage the order counts",
                        )
                    behind = late.stage - early.stage
                    if data in own or behind == 0 or (behind == 1 and late.order < early.order):
                        continue
                    if not apart_in_iterations(self.loop, data, early.uses, late.uses):
                        raise self._error(
                            f"{data.name} is used in stages {early.stage} and {late.stage}, and is one for all "
                            "iterations",
                            "let it live for an iteration: compute it at this loop, or copy it with cache_read",
                        )

    def _grouped(self, asynchronous: set[int]) -> list[_Part]:
        """The parts in their new order, with the groups of their copies."""
        found: list[_Part] = []
        groups, written = 0, set[n.Var]()
        for part in sorted(self.parts, key=lambda part: part.order):
            mine = {use.data for use in part.uses if use.write}
            read = {use.data for use in part.uses if not use.write}
            if not self.on_gpu or part.stage not in asynchronous or mine & read:
                found.append(part)
                continue
            before = found[-1] if found else None
            joins = before is not None and before.group is not None and before.stage == part.stage
            if not joins or read & written:
                groups, written = groups + 1, set()
            written |= mine
            found.append(changed(part, group=groups - 1))
        return found

    # -------------------------------------------------------------------------------------- writing

    def made(self) -> Stmt:
        counts = {a.buffer_var: self._versions(a.buffer_var) for a in self.held}
        self.versions = {data: count for data, count in counts.items() if count > 1}
        self.buffers: dict[n.Buffer, n.Buffer] = {}
        known = ops.as_int(self.extent)
        around = [self._step(self._zero, t, self._ahead(t, known)) for t in range(self.last)]
        result = seq(*around, self._steady(known), *self._behind(known))
        for allocation in reversed(self.held):
            count = self.versions.get(allocation.buffer_var, 1)
            extents = self._extents(allocation, count)
            result = n.Allocate(
                allocation.buffer_var, allocation.dtype, extents, allocation.condition, result, allocation.scope
            )
        return result

    def _versions(self, data: n.Var) -> int:
        users = [(p.stage, p.order, p.writes(data)) for p in self.parts if p.touches(data)]
        return versions(users)

    def _extents(self, allocation: n.Allocate, count: int) -> tuple[PrimExpr, ...]:
        if count == 1:
            return allocation.extents
        strided = next((b for b in self.buffers if b.data is allocation.buffer_var and b.strides), None)
        if strided is None:
            return (ops.const(count), *allocation.extents)
        return (ops.add(ops.mul(_pitch(strided), count - 1), allocation.extents[0]),)

    def _ahead(self, time: int, known: int | None) -> Callable[[_Part], PrimExpr | None]:
        """Return when a part runs at `time` before the loop: a condition, or None for never."""

        def runs(part: _Part) -> PrimExpr | None:
            iteration = time - part.stage
            if iteration < 0 or (known is not None and iteration >= known):
                return None
            return TRUE if known is not None else ops.less(iteration, self.extent)

        return runs

    def _behind(self, known: int | None) -> list[Stmt]:
        """The steps after the loop."""
        if known is not None:
            start = max(known, self.last)
            return [self._step(self._zero, t, self._ahead(t, known)) for t in range(start, known + self.last)]
        end = ops.maximum(self.extent, self.last)

        def runs(after: int) -> Callable[[_Part], PrimExpr | None]:
            return lambda part: ops.less(ops.add(end, after - part.stage), self.extent)

        return [self._step(end, after, runs(after)) for after in range(self.last)]

    def _steady(self, known: int | None) -> Stmt | None:
        """The loop, in which every part runs. Its variable is the iteration of the last stage."""
        if known is not None and known <= self.last:
            return None
        extent = ops.const(known - self.last) if known is not None else ops.maximum(ops.sub(self.extent, self.last), 0)
        annotations = {k: v for k, v in self.loop.annotations.items() if k not in (STAGE, ORDER, ASYNC)}
        body = self._step(ops.sub(self.loop.loop_var, self.begin), self.last, lambda _part: TRUE)
        return replace(self.loop, extent=ops.cast(self.extent.dtype, extent), body=body, annotations=annotations)

    def _step(self, start: PrimExpr, after: int, runs: Callable[[_Part], PrimExpr | None]) -> Stmt:
        """Return the work at time `start + after`, counted from 0.
        Each part comes with the iteration it has reached."""
        found: list[Stmt] = []
        committed = 0  # of the groups of this step
        waited = -(self.last + 1) * (self.groups + 1)  # where those begin that may not have arrived; 0: of this step
        for at, part in enumerate(self.ordered):
            condition = runs(part)
            if condition is not None:
                needed = self._needed(part)
                if needed is not None and needed >= waited:
                    waited = needed + 1
                    found.append(n.Evaluate(ptx_wait_group(committed - waited)))
                found.append(guarded(condition, self._placed(part, ops.add(start, after - part.stage))))
            following = self.ordered[at + 1].group if at + 1 < len(self.ordered) else None
            if part.group is not None and following != part.group:
                committed = part.group + 1
                found.append(n.Evaluate(ptx_commit_group()))
        return seq(*found) if found else n.Evaluate(ops.const(0))

    def _needed(self, part: _Part) -> int | None:
        """The last group that must have arrived before `part` runs, counted from the first of this step."""
        latest: int | None = None
        for source in self.ordered:
            if source.group is None or source is part or source.group == part.group:
                continue
            if any(use.write and part.touches(use.data) for use in source.uses):
                group = source.group - (part.stage - source.stage) * self.groups
                latest = group if latest is None else max(latest, group)
        return latest

    def _placed(self, part: _Part, iteration: PrimExpr) -> Stmt:
        """Return a part for an iteration, counted from 0, with that iteration's versions of the buffers."""
        value = ops.add(self.begin, iteration)
        body = substituted(part.stmt, {self.loop.loop_var: value})

        def moved(node: Node) -> Node | None:
            match node:
                case n.BufferLoad() | n.BufferStore() if node.buffer.data in self.versions:
                    count = self.versions[node.buffer.data]
                    index = ops.floormod(iteration, count)
                    return replace(node, buffer=self._versioned(node.buffer, count), indices=(index, *node.indices))
                case n.Call():
                    return self._moved_call(node, iteration)
            return None

        result = transform(body, post=moved)
        assert isinstance(result, Stmt)
        if part.group is None:
            return result
        return n.AttrStmt(None, ASYNC_SCOPE, ops.const(1), result)

    def _moved_call(self, call: n.Call, iteration: PrimExpr) -> n.Call:
        """A call with the offsets of memory that it is given by name."""
        arguments = list(call.args)
        for position, argument in enumerate(call.args):
            if isinstance(argument, n.Var) and argument in self.versions:
                if getattr(call.op, "name", "") not in {*MEMORY, "tir.tvm_access_ptr"}:
                    raise self._error(f"{argument.name} is passed on by its address", "use it by its elements")
                slot = ops.floormod(iteration, self.versions[argument])
                arguments[position + 1] = ops.add(arguments[position + 1], ops.mul(slot, self._size(argument)))
        return replace(call, args=tuple(arguments)) if any(a is not b for a, b in zip(arguments, call.args)) else call

    def _size(self, data: n.Var) -> PrimExpr:
        size: PrimExpr = ops.const(1)
        for extent in next(a.extents for a in self.held if a.buffer_var is data):
            size = ops.mul(size, extent)
        return size

    def _versioned(self, buffer: n.Buffer, count: int) -> n.Buffer:
        found = self.buffers.get(buffer)
        if found is None:
            strides = (_pitch(buffer), *buffer.strides) if buffer.strides else ()
            found = self.buffers[buffer] = replace(buffer, shape=(ops.const(count), *buffer.shape), strides=strides)
        return found


def _pitch(buffer: n.Buffer) -> PrimExpr:
    """How far apart the versions of a buffer with strides are."""
    return ops.mul(buffer.shape[0], buffer.strides[0])


def _shared(a: _Part, b: _Part) -> set[n.Var]:
    """Return what both use, and one of them writes."""
    return {use.data for use in (*a.uses, *b.uses) if use.write and a.touches(use.data) and b.touches(use.data)}
