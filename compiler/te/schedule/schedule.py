"""Schedules: one stage an operation, and the primitives that change the operations themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import ScheduleError
from compiler.schedule.core.state import Illegal
from compiler.te.rewrite import identity_copy, replace_reads, through_cache
from compiler.te.schedule.loop_record import ScheduleArgumentError
from compiler.te.schedule.relayout import through_laid_out_cache
from compiler.te.schedule.rfactor import rfactor
from compiler.te.schedule.stage import Stage, StageGroup
from compiler.te.tensor import Operation, PlaceholderOp, Tensor, between, topological
from compiler.te.where import here
from compiler.tir.nodes import IterVar

__all__ = ["Schedule", "Stage", "create_schedule"]


def create_schedule(ops: Any) -> Schedule:
    """Make the schedule of the computation of `ops` as written.
    `ops` is an operation or tensor, or a list of them. Every operation is computed in full, one after the other.
    Raises ScheduleError when `ops` is none of these."""
    items = list(ops) if isinstance(ops, tuple | list) else [ops]
    outputs: list[Operation] = []
    for item in items:
        op = item.op if isinstance(item, Tensor) else item
        if not isinstance(op, Operation):
            raise ScheduleError(
                f"create_schedule takes operations, got {type(item).__name__}{here()}",
                hint="for example te.create_schedule(C.op)",
            )
        outputs.append(op)
    if not outputs:
        raise ScheduleError("create_schedule needs at least one operation")
    return Schedule(outputs)


class Schedule:
    """How the operations behind `outputs` are computed. `s[tensor]` or `s[op]` is the `Stage` of one.

    `stages` are in dependency order, inputs included. A primitive that adds an operation (`cache_read`,
    `cache_write`, `rfactor`) also replaces the operations that read it; tensors and operations from
    before it still name their stage.
    """

    def __init__(self, outputs: Sequence[Operation]) -> None:
        self.stages: list[Stage] = []
        self.groups: list[Stage] = []
        self._stage_of: dict[Operation, Stage] = {}
        for op in topological([o.output(0) for o in outputs]):
            self._add(op, len(self.stages))
        self._outputs = [self._stage_of[op] for op in outputs]
        for stage in self._outputs:
            stage.is_output = True

    @property
    def outputs(self) -> tuple[Operation, ...]:
        """The operations the schedule is for, as rewritten so far."""
        return tuple(stage.op for stage in self._outputs)

    @property
    def stage_map(self) -> dict[Operation, Stage]:
        """The stage of every operation, those since replaced included."""
        return dict(self._stage_of)

    def __getitem__(self, key: Tensor | Operation) -> Stage:
        op = key.op if isinstance(key, Tensor) else key
        stage = self._stage_of.get(op) if isinstance(op, Operation) else None
        if stage is None:
            name = getattr(op, "name", None)
            raise ScheduleArgumentError(
                f"{name if name is not None else key!r} is not part of this schedule{here()}",
                hint=f"its stages are {', '.join(s.name for s in self.stages)}",
            )
        return stage

    def __contains__(self, key: object) -> bool:
        return (key.op if isinstance(key, Tensor) else key) in self._stage_of

    def __repr__(self) -> str:
        return f"Schedule({', '.join(stage.name for stage in self.stages)})"

    def current(self, tensor: Tensor) -> Tensor:
        """`tensor` as the schedule has rewritten it."""
        return self[tensor].op.output(tensor.value_index)

    def _add(self, op: Operation, position: int) -> Stage:
        stage = Stage(op, self)
        self.stages.insert(position, stage)
        self._stage_of[op] = stage
        return stage

    # ------------------------------------------------------------------------- primitives

    def cache_read(self, tensor: Tensor, scope: str, readers: Any) -> Tensor:
        """Copy `tensor` to memory `scope` and let `readers` (tensors or operations) read the copy.

        Returns the copy, named `<tensor>.<scope>`. Raises ScheduleError when a reader does not read it.
        """
        source = self.current(tensor)
        items = list(readers) if isinstance(readers, tuple | list) else [readers]
        stages = [self[reader] for reader in items]
        if not stages:
            raise ScheduleError(f"cache_read of {source.name!r} needs at least one reader{here()}")
        for stage in stages:
            if source not in stage.op.input_tensors:
                raise stage._illegal(
                    "cache_read",
                    f"stage {stage.name!r} does not read {source.name!r}",
                    hint=f"it reads {', '.join(t.name for t in stage.op.input_tensors) or 'nothing'}",
                )
        cache = identity_copy(source, f"{source.name}.{scope}")
        added = self._add(cache, self.stages.index(self[source]) + 1)
        added.scope, added.group = scope, self[source].group
        self._replace({stage.op: replace_reads(stage.op, {source: cache.output(0)}) for stage in stages})
        return cache.output(0)

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute `tensor` in memory `scope` and then copy it to where it belongs.

        Returns the tensor that is now computed, named `<tensor>.<scope>`; the stage of `tensor` becomes the
        copy. All outputs of one operation may be given as a list, and come back as one. Where the loops were changed
        before, the cache has the loops over data as its dimensions, in their order, and both stages begin anew.
        Raises ScheduleError when the stage is an input, or a loop runs over data and a reduction.
        """
        several = isinstance(tensor, tuple | list)
        tensors = list(tensor) if several else [tensor]
        stage = self[tensors[0]]
        op = stage._computed("cache_write")
        if any(self[t] is not stage for t in tensors):
            raise stage._illegal("cache_write", "the tensors are not outputs of one operation")
        if len(tensors) != op.num_outputs:
            raise stage._illegal(
                "cache_write",
                f"operation {op.name!r} has {op.num_outputs} outputs, got {len(tensors)}",
                hint="give them all, as a list",
            )
        name = f"{op.name}.{scope}"
        try:
            cache, copy = (
                through_laid_out_cache(op, stage.relations, stage.leaves, name)
                if stage.scheduled
                else through_cache(op, name)
            )
        except Illegal as broken:
            raise stage._illegal("cache_write", broken.rule) from None
        added = self._add(cache, self.stages.index(stage))
        added.scope, added.group = scope, stage.group
        self._replace({op: copy})
        stage.reset()
        cached = [cache.output(t.value_index) for t in tensors]
        return cached if several else cached[0]

    def rfactor(self, tensor: Any, axis: IterVar, factor_axis: int = 0) -> Any:
        """Reduce over all other reduction loops first, into a tensor; `tensor` then reduces that over `axis`.

        The iterations of `axis` are its dimension `factor_axis`.

        `axis` is a reduction leaf of `tensor`'s stage. Returns the new tensor, named `<tensor>.rf`; of an operation
        with several outputs the list of them, in order. Raises ScheduleError when `axis` is no such leaf, or loops
        over data were already scheduled.
        """
        stage = self[tensor[0] if isinstance(tensor, tuple | list) else tensor]
        op = stage._computed("rfactor")
        leaf = stage.leaves[stage._leaf("rfactor", axis)]
        try:
            partial, final = rfactor(op, stage.relations, stage.leaves, leaf, factor_axis)
        except Illegal as broken:
            raise stage._illegal("rfactor", broken.rule, leaf, broken.hint) from None
        self._add(partial, self.stages.index(stage)).group = stage.group
        self._replace({op: final})
        stage.reset()
        outputs = [partial.output(i) for i in range(partial.num_outputs)]
        return outputs if len(outputs) > 1 else outputs[0]

    def create_group(self, outputs: Any, inputs: Any, include_inputs: bool = False) -> Stage:
        """Put the operations between `inputs` and `outputs` in a group, a stage that is placed as one.

        `group.compute_at(parent, axis)` computes all of its members there that are not placed otherwise. The members
        are the operations on a path from one of `inputs` to one of `outputs`, with the inputs only when
        `include_inputs`. A member that is in a group already brings that group. Raises ScheduleError when there are
        none.
        """
        members = [self[op] for op in between(self._ops(outputs), self._ops(inputs), include_inputs)]
        if not members:
            raise ScheduleError(f"create_group: nothing lies between the inputs and the outputs{here()}")
        around = _common([_groups_around(stage) for stage in members])
        group = StageGroup(Operation(f"group{len(self.groups)}"), self)
        group.group = around
        self.groups.append(group)
        for stage in members:
            outermost = next(held for held in (stage, *_groups_around(stage)) if held.group in (around, group))
            outermost.group = group
        return group

    def _ops(self, items: Any) -> list[Operation]:
        return [self[item].op for item in (items if isinstance(items, tuple | list) else [items])]

    def normalize(self) -> Schedule:
        """This schedule: its stages are always in the form that lowering takes."""
        return self

    def _replace(self, changed: dict[Operation, Operation]) -> None:
        """Put new operations in their stages, and rewrite whatever reads their outputs, in order."""
        tensors: dict[Tensor, Tensor] = {}
        for stage in self.stages:
            old = stage.op
            new = replace_reads(changed.get(old, old), tensors)
            if new is not old:
                stage.op = new
                self._stage_of[new] = stage
                tensors.update(zip(old._outputs, new._outputs))


def _groups_around(stage: Stage) -> list[Stage]:
    """The groups that a stage is in, the innermost first."""
    found: list[Stage] = []
    while stage.group is not None:
        stage = stage.group
        found.append(stage)
    return found


def _common(chains: Sequence[Sequence[Stage]]) -> Stage | None:
    """The innermost group that is in all of `chains`."""
    return next((group for group in chains[0] if all(group in chain for chain in chains)), None)


def computed_stages(schedule: Schedule) -> list[Stage]:
    """The stages that compute something, producers before consumers."""
    return [stage for stage in schedule.stages if not isinstance(stage.op, PlaceholderOp)]
