"""The state of a stage's replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from compiler.errors import ScheduleError
from compiler.schedule.core.schedule import BlockRV, LoopRV
from compiler.te.schedule.stage import Stage
from compiler.tir.nodes import IterVar


@dataclass(eq=False)
class StageNest:
    """A stage's block and the current loop of each of its axes.
    `depth` loops of other stages stand around its own, where it is attached. A reduction that was split into init and
    update has loops for the `init` as well."""

    stage: Stage
    block: BlockRV
    depth: int = 0
    loops: dict[IterVar, LoopRV] = field(default_factory=dict)
    init: BlockRV | None = None
    init_loops: dict[IterVar, LoopRV] = field(default_factory=dict)

    @property
    def blocks(self) -> list[BlockRV]:
        return [self.block] if self.init is None else [self.init, self.block]


def loop_of(nests: Mapping[Stage, StageNest], parent: Stage, axis: IterVar, primitive: str, stage: Stage) -> LoopRV:
    """Return the loop of `axis` in the stage `parent`, at which `primitive` places `stage`.
    Raises ScheduleError if the axis has no loop any more."""
    if parent not in nests:
        raise ScheduleError(f"{primitive}: stage {parent.name!r} has no loops: it is inlined")
    axis = parent.loop_made_of(axis)
    loop = nests[parent].loops.get(axis)
    if loop is not None:
        return loop
    if axis in parent.leaves:
        raise ScheduleError(f"{primitive}: stage {parent.name!r} does not use {stage.name!r}")
    raise ScheduleError(
        f"{primitive}: axis {axis.var.name!r} of stage {parent.name!r} is no longer a loop",
        hint=f"the loops of stage {parent.name!r} are {parent._leaves()}",
    )
