"""A computation's stages and their loops, changed by hand.

The states that programs schedule step by step.

A state that the search found is a trace (`state`). A state of this kind is a list of steps, as in other programs'
logs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from compiler.faces.te_schedule import InferBound
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.trace import Trace
from compiler.te.schedule.replay import schedule_to_func
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from compiler.tir.nodes import IterType, IterVar, Range
from compiler.tir.ops import as_int, const
from tuner.faces.auto_scheduler import loop_steps as steps
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.loop_schedule import KINDS, THREADS, Replay, outputs_of, shown_name
from tuner.faces.auto_scheduler.loop_steps import LoopStep
from tuner.faces.auto_scheduler.state import State

if TYPE_CHECKING:
    from tuner.faces.auto_scheduler.compute_dag import ComputeDAG

ANNOTATIONS = {"none": 0, **{name: code for code, name in (KINDS | THREADS).items()}, "tensorize": 11}
_SHOWN = {0: "for", **KINDS, **THREADS, 11: "tensorize"}
_MIXED = 2


@dataclass(frozen=True, eq=False)
class Iterator:
    """A loop of a stage.
    `range` is None until the bounds are inferred; `iter_kind` is 0 for data, 1 for a reduction, 2 for both;
    `annotation` is a value of `State.ANNOTATION_TRANS_TABLE`."""

    name: str
    range: Range | None
    iter_kind: int
    annotation: int = 0

    @property
    def extent(self) -> int | None:
        return None if self.range is None else as_int(self.range.extent)

    def same(self, other: Iterator) -> bool:
        """Whether two iterators say the same."""
        mine, its = (self.name, self.iter_kind, self.annotation), (other.name, other.iter_kind, other.annotation)
        return mine == its and self.extent == other.extent


@dataclass(frozen=True, eq=False)
class Stage:
    """An operation and its loops. `compute_at` is where: "root", "inlined" or "iter"."""

    op: Operation
    iters: tuple[Iterator, ...]
    compute_at: str = "root"
    attached: tuple[int, Iterator] | None = None  # the stage and the iterator that it is computed in
    auto_unroll_max_step: int = 0
    storage_offset: int = 0
    names: tuple[Operation, ...] = field(default=(), repr=False)  # the operations that stood here before

    @property
    def op_type(self) -> int:
        """0 for an input, 1 for what is computed."""
        return 0 if isinstance(self.op, PlaceholderOp) else 1


class LoopState(State):
    """The result of steps on a computation. `state[tensor]` is a stage; its methods take a step each."""

    ANNOTATION_TRANS_TABLE = ANNOTATIONS

    def __init__(self, dag: ComputeDAG | Callable[[], ComputeDAG], taken: Sequence[LoopStep] = ()) -> None:
        super().__init__(lambda: self.dag.func)
        self._dag = dag
        self._steps: tuple[LoopStep, ...] = tuple(taken)

    @cached_property
    def _stages(self) -> list[Stage]:
        """Return the stages, made at the first look, because a record's computation may be made late."""
        taken, self._steps = self._steps, ()
        self.__dict__["_stages"] = [_fresh(stage.op) for stage in Replay(outputs_of(self.dag.tensors)).stages]
        for step in taken:
            self._take(step)
        made: list[Stage] = self.__dict__["_stages"]  # steps that add a stage put another list here
        return made

    # ------------------------------------------------------------------------------ what it is

    @cached_property
    def dag(self) -> ComputeDAG:
        """The computation."""
        return self._dag() if callable(self._dag) else self._dag

    @property
    def stages(self) -> list[Stage]:
        """The stages, inputs included, producers first."""
        return list(self._stages)

    @property
    def stage_ops(self) -> list[Operation]:
        """The stages' operations."""
        return [stage.op for stage in self._stages]

    @property
    def transform_steps(self) -> tuple[LoopStep, ...]:
        return self._steps

    @property
    def concrete(self) -> bool:
        """Whether all lengths are known."""
        return not any(isinstance(step, steps.SplitStep) and None in step.lengths for step in self._steps)

    def copy(self) -> LoopState:
        """Return a state that can be changed on its own."""
        new = object.__new__(LoopState)
        new.__dict__.update({key: value for key, value in self.__dict__.items() if key != "schedule"})
        new._stages = list(self._stages)
        return new

    def __getitem__(self, key: Any) -> Stage:
        return self._stages[self._id(key)]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, LoopState):
            return self._steps == other._steps and self._alike(other)
        return isinstance(other, State) and not self._steps and not other.transform_steps

    def _alike(self, other: LoopState) -> bool:
        pairs = list(zip(self._stages, other._stages))
        return len(self._stages) == len(other._stages) and all(
            a.op.name == b.op.name and len(a.iters) == len(b.iters) and all(x.same(y) for x, y in zip(a.iters, b.iters))
            for a, b in pairs
        )

    def __hash__(self) -> int:
        return hash(self._steps) if self._steps else hash(Trace().to_json())

    def __repr__(self) -> str:
        return f"State({len(self._steps)} steps)"

    def __str__(self) -> str:
        inputs = ", ".join(stage.op.name for stage in self._stages if not stage.op_type)
        lines = [f"Placeholder: {inputs}"]
        for index, stage in enumerate(self._stages):
            if stage.op_type and stage.compute_at == "root":
                lines += self._shown(index, 0)
        return "\n".join(lines) + "\n"

    def _shown(self, index: int, depth: int) -> list[str]:
        stage = self._stages[index]
        lines = []
        if stage.auto_unroll_max_step:
            lines.append(f"{' ' * depth}{stage.op.name} auto_unroll: {stage.auto_unroll_max_step}")
        if stage.storage_offset:
            lines.append(f"{' ' * depth}{stage.op.name} storage_offset: {stage.storage_offset}")
        for iterator in stage.iters:
            if iterator.extent != 1:
                extent = "(None)" if iterator.range is None else f"({iterator.range.min},{iterator.range.extent})"
                lines.append(f"{' ' * depth}{_SHOWN[iterator.annotation]} {iterator.name} {extent}")
                depth += 2
            for other, held in enumerate(self._stages):
                if held.compute_at == "iter" and held.attached == (index, iterator):
                    lines += self._shown(other, depth)
        return [*lines, f"{' ' * depth}{stage.op.name} = ..."]

    # ------------------------------------------------------------------------------ as a schedule

    def replay(self) -> Replay:
        """Return the te schedule of the steps, and its text."""
        return Replay(outputs_of(self.dag.tensors)).run(self._steps)

    @cached_property
    def schedule(self) -> Schedule:
        """The scheduled function, with nothing more done to it."""
        if not self._steps:
            return Schedule(self.func)
        return Schedule(schedule_to_func(self.replay().schedule, self.dag.tensors, name="main"))

    @property
    def trace(self) -> Trace:
        """The empty trace of a state without steps. Raises SchedulerError for another."""
        if not self._steps:
            return Trace()
        raise SchedulerError(
            "a state made of steps has no trace", hint="apply it with ComputeDAG.apply_steps_from_state"
        )

    @trace.setter
    def trace(self, value: Trace) -> None:
        """Take no trace: the steps are the state."""

    def with_bounds(self) -> LoopState:
        """Return the state with the range of every iterator."""
        new = self.copy()
        replay = self.replay()
        ranges = InferBound(replay.schedule)
        for index, (mine, theirs) in enumerate(zip(self._stages, replay.stages)):
            if mine.op_type and mine.compute_at != "inlined":
                found = [ranges[axis] for axis in replay.axes(theirs)]
                pairs = zip(mine.iters, found)
                new._set_iters(index, [it if _told(it, r) else replace(it, range=r) for it, r in pairs])
        return new

    # ------------------------------------------------------------------------------ steps

    def bind(self, stage: Any, iterator: Iterator, thread_name: str) -> Iterator:
        """Run an iterator on threads: "blockIdx.x", "threadIdx.y", "vthread" and so on.
        Raises SchedulerError for another."""
        if ANNOTATIONS.get(thread_name, 0) not in THREADS:
            raise SchedulerError(f"there is no thread {thread_name!r}", hint=", ".join(THREADS.values()))
        return self._annotated(stage, iterator, thread_name)

    def parallel(self, stage: Any, iterator: Iterator) -> Iterator:
        """Run an iterator on several cores."""
        return self._annotated(stage, iterator, "parallel")

    def unroll(self, stage: Any, iterator: Iterator, max_unroll: int | None = None) -> Iterator:
        """Write out the iterations; not of one that is longer than `max_unroll`."""
        if max_unroll is not None and (iterator.extent or 0) > max_unroll:
            return iterator
        return self._annotated(stage, iterator, "unroll")

    def vectorize(self, stage: Any, iterator: Iterator) -> Iterator:
        """Compute the iterations as one vector."""
        return self._annotated(stage, iterator, "vectorize")

    def _annotated(self, stage: Any, iterator: Iterator, name: str) -> Iterator:
        index, position = self._place(stage, iterator)
        self._take(steps.AnnotationStep(index, position, ANNOTATIONS[name]))
        return self._stages[index].iters[position]

    def fuse(self, stage: Any, iters: Sequence[Iterator]) -> Iterator:
        """Make one iterator of neighbours, given from the outermost in."""
        index = self._id(stage)
        places = tuple(self._place(stage, iterator)[1] for iterator in iters)
        self._take(steps.FuseStep(index, places))
        return self._stages[index].iters[places[0]]

    def pragma(self, stage: Any, iterator: Iterator, pragma_type: str) -> None:
        """Tell the code generator: `auto_unroll_max_step$64`."""
        self._take(steps.PragmaStep(*self._place(stage, iterator), pragma_type))

    def reorder(self, stage: Any, order: Sequence[Iterator]) -> None:
        """Put all iterators of a stage in the order given."""
        index = self._id(stage)
        if len(order) != len(self._stages[index].iters):
            raise SchedulerError(f"reorder takes all {len(self._stages[index].iters)} iterators of the stage")
        self._take(steps.ReorderStep(index, tuple(self._place(stage, iterator)[1] for iterator in order)))

    def split(
        self, stage: Any, iterator: Iterator, lengths: Sequence[int | None], inner_to_outer: bool = True
    ) -> tuple[Iterator, ...]:
        """Split an iterator; `lengths` are those of the inner parts, or else of the outer ones.
        Returns the parts."""
        index, position = self._place(stage, iterator)
        self._take(steps.SplitStep(index, position, iterator.extent, tuple(lengths), inner_to_outer))
        return self._stages[index].iters[position : position + len(lengths) + 1]

    def follow_split(self, stage: Any, iterator: Iterator, src_step_id: int, n_split: int) -> tuple[Iterator, ...]:
        """Split as the step `src_step_id` did another iterator, in `n_split` inner parts. Returns the parts."""
        index, position = self._place(stage, iterator)
        self._take(steps.FollowSplitStep(index, position, src_step_id, n_split))
        return self._stages[index].iters[position : position + n_split + 1]

    def follow_fused_split(
        self, stage: Any, iterator: Iterator, src_step_ids: Sequence[int], level: int, factor_or_nparts: bool
    ) -> tuple[Iterator, ...]:
        """Split in two by the product of the lengths that steps have at `level`. Returns the parts."""
        index, position = self._place(stage, iterator)
        self._take(steps.FollowFusedSplitStep(index, position, tuple(src_step_ids), level, bool(factor_or_nparts)))
        return self._stages[index].iters[position : position + 2]

    def storage_align(self, stage: Any, iterator: Iterator, factor: int, offset: int) -> None:
        """Align the rows of a stage's memory."""
        self._take(steps.StorageAlignStep(*self._place(stage, iterator), factor, offset))

    def compute_at(self, stage: Any, target_stage: Any, target_iter: Iterator) -> None:
        """Compute a stage inside an iterator of another.
        Its ranges are unknown until `infer_bound_from_state`."""
        self._take(steps.ComputeAtStep(self._id(stage), *self._place(target_stage, target_iter)))

    def compute_inline(self, stage: Any) -> None:
        """Compute a stage where it is read."""
        self._take(steps.ComputeInlineStep(self._id(stage)))

    def compute_root(self, stage: Any) -> None:
        """Compute a stage by itself."""
        self._take(steps.ComputeRootStep(self._id(stage)))

    def cache_read(self, stage: Any, scope_name: str, reader_stages: Sequence[Any]) -> Operation:
        """Let stages read a copy. Returns the copy's operation."""
        index = self._id(stage)
        self._take(steps.CacheReadStep(index, scope_name, tuple(self._id(reader) for reader in reader_stages)))
        return self._stages[index + 1].op

    def cache_write(self, stage: Any, scope_name: str) -> Operation:
        """Compute a stage in other memory, and copy it. Returns the operation that computes now."""
        index = self._id(stage)
        self._take(steps.CacheWriteStep(index, scope_name))
        return self._stages[index].op

    def rfactor(self, stage: Any, iterator: Iterator, factor_iter_id: int) -> Operation:
        """Reduce in parts. Returns the operation that makes them."""
        index, position = self._place(stage, iterator)
        self._take(steps.RfactorStep(index, position, factor_iter_id))
        return self._stages[index].op

    # ------------------------------------------------------------------------------ inside

    def _id(self, key: Any) -> int:
        if isinstance(key, int):
            return key
        op = key.op if isinstance(key, Tensor | Stage) else key
        for index, stage in enumerate(self._stages):
            if op is stage.op or op in stage.names:
                return index
        raise SchedulerError(f"{getattr(op, 'name', op)!r} is no stage of this state")

    def _place(self, key: Any, iterator: Iterator) -> tuple[int, int]:
        index = self._id(key)
        found = [i for i, own in enumerate(self._stages[index].iters) if own is iterator]
        if not found:
            raise SchedulerError(f"{iterator.name!r} is no iterator of stage {self._stages[index].op.name!r} any more")
        return index, found[0]

    def _set_iters(self, index: int, iters: Sequence[Iterator], moved: dict[Iterator, Iterator] | None = None) -> None:
        """Give a stage its iterators. What was computed in one of `moved` is now in the other."""
        old = self._stages[index].iters
        self._stages[index] = replace(self._stages[index], iters=tuple(iters))
        renamed = moved if moved is not None else dict(zip(old, iters))
        for other, stage in enumerate(self._stages):
            if stage.attached is not None and stage.attached[0] == index:
                where = renamed.get(stage.attached[1], stage.attached[1])
                self._stages[other] = replace(stage, attached=(index, where))

    def _take(self, step: LoopStep) -> None:
        stage, index = self._stages[step.stage_id], step.stage_id
        iters = list(stage.iters)
        match step:
            case steps.SplitStep():
                self._split(index, step.iter_id, step.lengths, step.inner_to_outer)
            case steps.FollowSplitStep():
                self._split(index, step.iter_id, step.lengths(self._steps), True)
            case steps.FollowFusedSplitStep():
                self._split(index, step.iter_id, (step.length(self._steps),), step.factor_or_nparts)
            case steps.FuseStep():
                self._fuse(index, step.fused_ids)
            case steps.ReorderStep():
                self._set_iters(index, [iters[i] for i in step.after_ids], {})
            case steps.AnnotationStep():
                iters[step.iter_id] = replace(iters[step.iter_id], annotation=step.annotation)
                self._set_iters(index, iters)
            case steps.PragmaStep():
                self._stages[index] = replace(stage, auto_unroll_max_step=int(step.pragma_type.partition("$")[2] or 0))
            case steps.StorageAlignStep():
                self._stages[index] = replace(stage, storage_offset=step.offset)
            case steps.ComputeAtStep():
                where = self._stages[step.target_stage_id].iters[step.target_iter_id]
                self._move(index, "iter", (step.target_stage_id, where))
            case steps.ComputeInlineStep():
                self._stages[index] = replace(stage, compute_at="inlined", attached=None)
            case steps.ComputeRootStep():
                self._move(index, "root", None)
            case _:
                self._add(step)
        self._steps = (*self._steps, step)

    def _move(self, index: int, how: str, where: tuple[int, Iterator] | None) -> None:
        self._set_iters(index, [replace(it, range=None) for it in self._stages[index].iters])
        self._stages[index] = replace(self._stages[index], compute_at=how, attached=where)

    def _split(self, index: int, position: int, lengths: Sequence[int | None], inner_to_outer: bool) -> None:
        iters = self._stages[index].iters
        old = iters[position]
        left = old.extent
        parts: list[Iterator] = []
        count = len(lengths)
        for at in reversed(range(count)) if inner_to_outer else range(count):
            length = lengths[at]
            size = length if left is not None else None
            parts.append(Iterator(f"{old.name}.{at + inner_to_outer}", _range(size), old.iter_kind))
            left = None if left is None or length is None else -(-left // length)
        parts.append(Iterator(f"{old.name}.{0 if inner_to_outer else count}", _range(left), old.iter_kind))
        if inner_to_outer:
            parts.reverse()
        self._set_iters(index, [*iters[:position], *parts, *iters[position + 1 :]], {old: parts[-1]})

    def _fuse(self, index: int, positions: Sequence[int]) -> None:
        iters = self._stages[index].iters
        if not positions or list(positions) != list(range(positions[0], positions[0] + len(positions))):
            raise SchedulerError("only iterators right inside one another can be fused")
        parts = [iters[i] for i in positions]
        extents = [part.extent for part in parts]
        whole = None if None in extents else math.prod(extent for extent in extents if extent is not None)
        kinds = {part.iter_kind for part in parts}
        fused = Iterator(
            "".join(f"{part.name}@" for part in parts), _range(whole), kinds.pop() if len(kinds) == 1 else _MIXED
        )
        after = [*iters[: positions[0]], fused, *iters[positions[-1] + 1 :]]
        self._set_iters(index, after, dict.fromkeys(parts, fused))

    def _add(self, step: LoopStep) -> None:
        """Take a step that adds a stage: the operations that read others from now on are new, too."""
        made = [stage.op for stage in Replay(outputs_of(self.dag.tensors)).run([*self._steps, step]).stages]
        new = step.stage_id + 1 if isinstance(step, steps.CacheReadStep) else step.stage_id
        changed = step.stage_id if isinstance(step, steps.CacheReadStep) else step.stage_id + 1
        moved = [*range(new), *range(new + 1, len(made))]
        stages: list[Stage | None] = [None] * len(made)
        for old, place in zip(self._stages, moved):
            where = old.attached and (moved[old.attached[0]], old.attached[1])
            stages[place] = replace(old, op=made[place], names=(*old.names, old.op), attached=where)
        stages[new] = _fresh(made[new])
        if changed > new:  # its loops begin anew
            kept = stages[changed]
            assert kept is not None
            stages[changed] = replace(_fresh(made[changed]), names=kept.names)
        self._stages = [stage for stage in stages if stage is not None]


def _range(extent: int | None) -> Range | None:
    return None if extent is None else Range(const(0), const(extent))


def _told(iterator: Iterator, known: Range) -> bool:
    return iterator.extent is not None and iterator.extent == as_int(known.extent)


def _fresh(op: Operation) -> Stage:
    """Return the stage of an operation as it is written."""
    axes: list[IterVar] = [*op.axis, *op.reduce_axis] if isinstance(op, ComputeOp) else []
    return Stage(
        op,
        tuple(
            Iterator(
                shown_name(axis.var.name),
                Range(const(0), const(as_int(axis.dom.extent) or 0)) if axis.dom is not None else None,
                int(axis.iter_type is IterType.COMM_REDUCE),
            )
            for axis in axes
        ),
    )
