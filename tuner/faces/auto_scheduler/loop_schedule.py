"""The te schedule that the steps of a loop state make, and the same as a Python text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.te.operation import thread_axis
from compiler.te.schedule.schedule import Schedule, Stage, create_schedule
from compiler.te.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from compiler.tir.nodes import IterVar
from tuner.faces.auto_scheduler import loop_steps as steps
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.loop_steps import LoopStep

THREADS = {
    4: "vthread",
    5: "blockIdx.x",
    6: "threadIdx.x",
    7: "blockIdx.y",
    8: "threadIdx.y",
    9: "blockIdx.z",
    10: "threadIdx.z",
}
KINDS = {1: "unroll", 2: "vectorize", 3: "parallel"}


class Replay:
    """`steps` taken one after the other on the schedule of `outputs`, with the calls that do so as lines."""

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.schedule: Schedule = create_schedule(list(outputs))
        self.lines: list[str] = []
        self._taken: list[LoopStep] = []
        self._names: dict[IterVar, str] = {}
        self._axes: dict[Stage, list[IterVar]] = {}
        for stage in self.stages:
            if isinstance(stage.op, ComputeOp):
                self._enter(stage)

    @property
    def stages(self) -> list[Stage]:
        return self.schedule.stages

    def axes(self, stage: Stage) -> list[IterVar]:
        """Return the loops of a stage, outermost first."""
        return self._axes.get(stage, [])

    def run(self, taken: Sequence[LoopStep]) -> Replay:
        for step in taken:
            self.take(step)
        return self

    # ------------------------------------------------------------------------------ text

    def _enter(self, stage: Stage) -> None:
        """Begin with the axes of a stage's operation."""
        op = stage.op
        assert isinstance(op, ComputeOp)
        axes = [*op.axis, *op.reduce_axis]
        self._axes[stage] = axes
        self._names.update({axis: shown_name(axis.var.name) for axis in axes})
        name = _clean(op.name)
        names = ", ".join(self._named(stage, axis) for axis in axes) + ("," if len(axes) == 1 else "")
        self.lines.append(f"{names} = tuple({name}.op.axis) + tuple({name}.op.reduce_axis)")

    def _named(self, stage: Stage, axis: IterVar) -> str:
        return f"{_clean(stage.op.name)}_{self._names[axis]}"

    def _say(self, stage: Stage, call: str) -> None:
        self.lines.append(f"s[{_clean(stage.op.name)}].{call}")

    # ------------------------------------------------------------------------------ steps

    def take(self, step: LoopStep) -> None:
        """Take one step. Raises SchedulerError for a missing stage or iterator, and ScheduleError."""
        if not 0 <= step.stage_id < len(self.stages):
            raise SchedulerError(f"there is no stage {step.stage_id}")
        stage = self.stages[step.stage_id]
        try:
            self._take(stage, step)
        except IndexError:
            raise SchedulerError(f"{step} names an iterator that stage {stage.op.name!r} has not") from None
        self._taken.append(step)

    def _take(self, stage: Stage, step: LoopStep) -> None:
        axes = self.axes(stage)
        match step:
            case steps.SplitStep():
                self._split(stage, step.iter_id, step.lengths, step.inner_to_outer)
            case steps.FollowSplitStep():
                self._split(stage, step.iter_id, step.lengths(self._taken), True)
            case steps.FollowFusedSplitStep():
                self._split(stage, step.iter_id, (step.length(self._taken),), step.factor_or_nparts)
            case steps.FuseStep():
                self._fuse(stage, step.fused_ids)
            case steps.ReorderStep():
                self._axes[stage] = ordered = [axes[i] for i in step.after_ids]
                stage.reorder(*ordered)
                self._say(stage, f"reorder({', '.join(self._named(stage, axis) for axis in ordered)})")
            case steps.AnnotationStep():
                self._annotate(stage, axes[step.iter_id], step.annotation)
            case steps.PragmaStep():
                self._pragma(stage, axes[step.iter_id], step.pragma_type)
            case steps.StorageAlignStep():
                axis = axes[step.iter_id]
                stage.storage_align(axis, step.factor, step.offset)
                self._say(stage, f"storage_align({self._named(stage, axis)}, {step.factor}, {step.offset})")
            case steps.ComputeAtStep():
                target = self.stages[step.target_stage_id]
                axis = self.axes(target)[step.target_iter_id]
                stage.compute_at(target, axis)
                self._say(stage, f"compute_at(s[{_clean(target.op.name)}], {self._named(target, axis)})")
            case steps.ComputeInlineStep():
                stage.compute_inline()
                self._say(stage, "compute_inline()")
            case steps.ComputeRootStep():
                stage.compute_root()
                self._say(stage, "compute_root()")
            case _:
                self._add(stage, step)

    def _split(self, stage: Stage, position: int, lengths: Sequence[int | None], inner_to_outer: bool) -> None:
        axes = self.axes(stage)
        rest = axes[position]
        shown = self._named(stage, rest)
        parts: list[IterVar] = []
        word, of_stage = "factor" if inner_to_outer else "nparts", _clean(stage.op.name)
        for left, length in zip(range(len(lengths) - 1, -1, -1), reversed(lengths) if inner_to_outer else lengths):
            if length is None:
                raise SchedulerError("a split without a length is of a sketch, not of a whole state")
            outer, inner = stage.split(rest, length) if inner_to_outer else stage.split(rest, nparts=length)
            self._names[outer], self._names[inner] = f"{self._names[rest]}_o", f"{self._names[rest]}_i"
            whole = shown
            names = [self._named(stage, outer), self._named(stage, inner)]
            if left:  # what is split next is called as the part of it that stays
                names[0 if inner_to_outer else 1] += "_i" if inner_to_outer else "_o"
            shown = names[0 if inner_to_outer else 1]
            self.lines.append(f"{names[0]}, {names[1]} = s[{of_stage}].split({whole}, {word}={length})")
            if inner_to_outer:
                parts.insert(0, inner)
                rest = outer
            else:
                parts.append(outer)
                rest = inner
        parts.insert(0 if inner_to_outer else len(parts), rest)
        self._axes[stage] = [*axes[:position], *parts, *axes[position + 1 :]]

    def _fuse(self, stage: Stage, positions: Sequence[int]) -> None:
        axes = self.axes(stage)
        parts = [axes[i] for i in positions]
        fused = stage.fuse(*parts)
        name = self._names[parts[0]]
        for axis in parts[1:]:
            name = f"{name}_{self._names[axis]}_fused"
        given = ", ".join(self._named(stage, axis) for axis in parts)
        self._names[fused] = name
        self.lines.append(f"{self._named(stage, fused)} = s[{_clean(stage.op.name)}].fuse({given})")
        self._axes[stage] = [*axes[: positions[0]], fused, *axes[positions[-1] + 1 :]]

    def _annotate(self, stage: Stage, axis: IterVar, annotation: int) -> None:
        if annotation in THREADS:
            stage.bind(axis, thread_axis(THREADS[annotation]))
            thread = f'te.thread_axis("{THREADS[annotation]}")'
            self._say(stage, f"bind({self._named(stage, axis)}, {thread})")
        elif annotation in KINDS:
            getattr(stage, KINDS[annotation])(axis)
            self._say(stage, f"{KINDS[annotation]}({self._named(stage, axis)})")
        elif annotation:
            raise SchedulerError(f"there is no annotation {annotation}")

    def _pragma(self, stage: Stage, axis: IterVar, text: str) -> None:
        name, _, value = text.partition("$")
        if name != "auto_unroll_max_step":
            raise SchedulerError(f"there is no pragma {name!r}", hint="auto_unroll_max_step$16")
        for key, shown, given in ((name, value, int(value)), ("unroll_explicit", "True", True)):
            stage.pragma(axis, key, given)
            self._say(stage, f'pragma({self._named(stage, axis)}, "{key}", {shown})')

    def _add(self, stage: Stage, step: LoopStep) -> None:
        """Take a step that adds a stage."""
        source: Any = stage.op.output(0)
        name = _clean(stage.op.name)
        match step:
            case steps.CacheReadStep():
                readers = [self.stages[i] for i in step.reader_stage_ids]
                made = self.schedule.cache_read(source, step.scope, [reader.op for reader in readers])
                given = ", ".join(_clean(reader.op.name) for reader in readers)
                self.lines.append(f'{_clean(made.op.name)} = s.cache_read({name}, "{step.scope}", [{given}])')
                self._enter(self.schedule[made])
            case steps.CacheWriteStep():
                outputs = [stage.op.output(i) for i in range(stage.op.num_outputs)]
                made, *_ = self.schedule.cache_write(outputs, step.scope)
                self.lines.append(f'{_clean(made.op.name)}, = s.cache_write([{name}], "{step.scope}")')
                self._enter(self.schedule[made])
                self._enter(stage)
            case steps.RfactorStep():
                axis = self.axes(stage)[step.iter_id]
                shown = self._named(stage, axis)
                made = self.schedule.rfactor(source, axis, step.factor_iter_id)
                self.lines.append(f"{_clean(made.op.name)} = s.rfactor({name}, {shown}, {step.factor_iter_id})")
                self._enter(self.schedule[made])
                self._enter(stage)
            case _:
                raise SchedulerError(f"{step} cannot be taken")


def outputs_of(tensors: Sequence[Tensor]) -> list[Operation]:
    """Return the operations that nothing else among those of `tensors` reads."""
    ops = list(dict.fromkeys(tensor.op for tensor in tensors))
    read = {tensor.op for op in ops for tensor in _behind(op)}
    return [op for op in ops if op not in read and not isinstance(op, PlaceholderOp)]


def _behind(op: Operation) -> list[Tensor]:
    found: list[Tensor] = []
    left = list(op.input_tensors)
    while left:
        tensor = left.pop()
        if tensor not in found:
            found.append(tensor)
            left.extend(tensor.op.input_tensors)
    return found


def shown_name(name: str) -> str:
    """Return a name without what an identifier has not, the parts of a split in short."""
    return name.replace(".", "_").replace("@", "_").replace("outer", "o").replace("inner", "i")


def _clean(name: str) -> str:
    return name.replace(".", "_").replace("@", "_")
