"""The steps that make a loop state, each with the row that logs of Apache TVM have for it.

Positions name stages and iterators: stages in the order of the computation, inputs included, and iterators from the
outermost in, both as they are before the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

from tuner.faces.auto_scheduler.errors import SchedulerError


@dataclass(frozen=True)
class LoopStep:
    """A step on the stage at `stage_id`."""

    code: ClassVar[str]
    stage_id: int

    def row(self) -> list[Any]:
        """Return the step as a row of a log."""
        return [self.code, self.stage_id, *self._rest()]

    def _rest(self) -> list[Any]:
        return []


@dataclass(frozen=True)
class AnnotationStep(LoopStep):
    """Run an iterator in parallel, as a vector, unrolled or on a thread."""

    code = "AN"
    iter_id: int
    annotation: int

    def _rest(self) -> list[Any]:
        return [self.iter_id, self.annotation]


@dataclass(frozen=True)
class FuseStep(LoopStep):
    """Make one iterator of neighbours."""

    code = "FU"
    fused_ids: tuple[int, ...]

    def _rest(self) -> list[Any]:
        return [list(self.fused_ids)]


@dataclass(frozen=True)
class PragmaStep(LoopStep):
    """Tell the code generator about an iterator: `auto_unroll_max_step$16`."""

    code = "PR"
    iter_id: int
    pragma_type: str

    def _rest(self) -> list[Any]:
        return [self.iter_id, self.pragma_type]


@dataclass(frozen=True)
class ReorderStep(LoopStep):
    """Put all iterators in a new order."""

    code = "RE"
    after_ids: tuple[int, ...]

    def _rest(self) -> list[Any]:
        return [list(self.after_ids)]


@dataclass(frozen=True)
class SplitStep(LoopStep):
    """Split an iterator of `extent` iterations into parts of `lengths`.
    They are the inner parts', or with `inner_to_outer` false the outer parts'. The other part gets the remaining
    length."""

    code = "SP"
    iter_id: int
    extent: int | None
    lengths: tuple[int | None, ...]
    inner_to_outer: bool

    def _rest(self) -> list[Any]:
        return [self.iter_id, self.extent or 0, list(self.lengths), int(self.inner_to_outer)]


@dataclass(frozen=True)
class FollowSplitStep(LoopStep):
    """Split an iterator as an earlier step did another, in `n_split` inner parts."""

    code = "FSP"
    iter_id: int
    src_step_id: int
    n_split: int

    def _rest(self) -> list[Any]:
        return [self.iter_id, self.src_step_id, self.n_split]

    def lengths(self, steps: Sequence[LoopStep]) -> tuple[int | None, ...]:
        """Return the lengths: those of the earlier step, what is left of them in the last."""
        source = _split(steps, self.src_step_id)
        first, rest = source.lengths[: self.n_split - 1], source.lengths[self.n_split - 1 :]
        return (*first, None if None in rest else prod(size for size in rest if size is not None))


@dataclass(frozen=True)
class FollowFusedSplitStep(LoopStep):
    """Split an iterator in two, by the product of what earlier steps have at `level`."""

    code = "FFSP"
    iter_id: int
    src_step_ids: tuple[int, ...]
    level: int
    factor_or_nparts: bool

    def _rest(self) -> list[Any]:
        return [self.iter_id, list(self.src_step_ids), self.level, int(self.factor_or_nparts)]

    def length(self, steps: Sequence[LoopStep]) -> int | None:
        """Return the length of the inner part, or of the outer one."""
        sizes = [_split(steps, source).lengths[self.level] for source in self.src_step_ids]
        return None if None in sizes else prod(size for size in sizes if size is not None)


@dataclass(frozen=True)
class StorageAlignStep(LoopStep):
    """Give the rows of a stage's memory a stride of a multiple of `factor`, plus `offset`."""

    code = "SA"
    iter_id: int
    factor: int
    offset: int

    def _rest(self) -> list[Any]:
        return [self.iter_id, self.factor, self.offset]


@dataclass(frozen=True)
class ComputeAtStep(LoopStep):
    """Compute a stage inside an iterator of another."""

    code = "CA"
    target_stage_id: int
    target_iter_id: int

    def _rest(self) -> list[Any]:
        return [self.target_stage_id, self.target_iter_id]


@dataclass(frozen=True)
class ComputeInlineStep(LoopStep):
    """Compute a stage where it is read."""

    code = "CI"


@dataclass(frozen=True)
class ComputeRootStep(LoopStep):
    """Compute a stage by itself."""

    code = "CR"


@dataclass(frozen=True)
class CacheReadStep(LoopStep):
    """Let some stages read a copy of this one."""

    code = "CHR"
    scope: str
    reader_stage_ids: tuple[int, ...]

    def _rest(self) -> list[Any]:
        return [self.scope, list(self.reader_stage_ids)]


@dataclass(frozen=True)
class CacheWriteStep(LoopStep):
    """Compute a stage in other memory, and then copy it."""

    code = "CHW"
    scope: str

    def _rest(self) -> list[Any]:
        return [self.scope]


@dataclass(frozen=True)
class RfactorStep(LoopStep):
    """Reduce in parts: one for each iteration of an iterator, which becomes the axis `factor_iter_id`."""

    code = "RF"
    iter_id: int
    factor_iter_id: int

    def _rest(self) -> list[Any]:
        return [self.iter_id, self.factor_iter_id]


def _split(steps: Sequence[LoopStep], index: int) -> SplitStep:
    source = steps[index] if 0 <= index < len(steps) else None
    if not isinstance(source, SplitStep):
        raise SchedulerError(f"step {index} is no split that could be followed")
    return source


def _lengths(given: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(None if size is None else int(size) for size in given)


_READ: dict[str, Callable[..., LoopStep]] = {
    "AN": AnnotationStep,
    "FU": lambda stage, ids: FuseStep(stage, tuple(ids)),
    "PR": PragmaStep,
    "RE": lambda stage, ids: ReorderStep(stage, tuple(ids)),
    "SP": lambda stage, it, extent, sizes, inner: SplitStep(stage, it, extent or None, _lengths(sizes), bool(inner)),
    "FSP": FollowSplitStep,
    "FFSP": lambda stage, it, steps, level, inner: FollowFusedSplitStep(stage, it, tuple(steps), level, bool(inner)),
    "SA": StorageAlignStep,
    "CA": ComputeAtStep,
    "CI": ComputeInlineStep,
    "CR": ComputeRootStep,
    "CHR": lambda stage, scope, readers: CacheReadStep(stage, scope, tuple(readers)),
    "CHW": CacheWriteStep,
    "RF": RfactorStep,
}


def read_step(row: Sequence[Any]) -> LoopStep:
    """Return the step of a row of a log. Raises SchedulerError for one that is not known here."""
    code, *rest = row
    make = _READ.get(code)
    if make is None:
        raise SchedulerError(f"there is no step {str(code)[:20]!r}", hint=f"steps: {', '.join(_READ)}")
    try:
        return make(*rest)
    except TypeError:
        raise SchedulerError(f"{str(row)[:80]} is no row of step {code}") from None
