"""Schedule rules: what to do with a block, each in one way or several.

A rule of your own is a subclass of `ScheduleRule` (also called `PyScheduleRule`) with `apply`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from compiler.errors import ScheduleError
from compiler.ir.visit import walk
from compiler.runtime.core.registry import get_global_func
from compiler.schedule.core.schedule import BlockRV, LoopRV, Schedule
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.errors import TuningError
from tuner.faces.meta_schedule.spaces.block_loops import is_spatial, loop_kinds
from tuner.faces.meta_schedule.spaces.target_kinds import require_cpu
from tuner.space.analysis import BlockInfo, blocks_of, consumers

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.tune_context import TuneContext

_DEFAULT_CORES = 1
_UNBOUNDED = 1 << 30  # for a tile's innermost factor


class ScheduleRule(ABC):
    """The contract: `apply` gets a schedule and one of its blocks and returns the schedules to go on with.
    A rule that does not apply returns the given one unchanged. It may change the schedule it got."""

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        """Told once, before `apply`, what is tuned for what."""
        self.target: Target | None = context.target

    @abstractmethod
    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        """The schedules to go on with."""

    def clone(self) -> ScheduleRule:
        """A rule to use for another task."""
        return self

    @property
    def cores(self) -> int:
        """Threads of the target."""
        target = getattr(self, "target", None)
        return _DEFAULT_CORES if target is None or target.num_cores is None else int(target.num_cores)

    @staticmethod
    def create(kind: str = "llvm") -> list[ScheduleRule]:
        """The rules for a kind of target. Raises TuningError where there are none."""
        require_cpu(kind, "schedule rules")
        return [
            ApplyCustomRule(),
            InlineConstantScalars(),
            AutoInline(
                into_producer=False,
                into_consumer=True,
                inline_const_tensor=True,
                disallow_if_then_else=True,
                require_injective=True,
                require_ordered=True,
                disallow_op=["tir.exp"],
            ),
            AddRFactor(max_jobs_per_core=16, max_innermost_factor=64),
            MultiLevelTiling(
                structure="SSRSRS",
                max_innermost_factor=64,
                reuse_write=ReuseType(req="may", levels=[1, 2], scope="global"),
            ),
            ParallelizeVectorizeUnroll(
                max_jobs_per_core=16, max_vectorize_extent=64, unroll_max_steps=[0, 16, 64, 512], unroll_explicit=True
            ),
            RandomComputeLocation(),
        ]


PyScheduleRule = ScheduleRule


def info_of(sch: Schedule, block: BlockRV) -> BlockInfo | None:
    """Return what the analysis knows of a block; None for one that is no leaf with constant extents."""
    name = sch.get(block).name_hint
    return next((info for info in blocks_of(sch.func) if info.name == name), None)


# ------------------------------------------------------------------------------------- inline


@dataclass
class AutoInline(ScheduleRule):
    """Inlines elementwise blocks into their readers or their inputs.
    That is `into_consumer` or `into_producer`. `disallow_op` names intrinsics whose blocks stay. `require_injective`
    and `require_ordered` hold for every block that inlining is legal for here, so they are ignored."""

    into_producer: bool
    into_consumer: bool
    inline_const_tensor: bool
    disallow_if_then_else: bool
    require_injective: bool
    require_ordered: bool
    disallow_op: list[str] | None = None

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        info = info_of(sch, block)
        if info is None or not info.injective or (self.disallow_if_then_else and info.conditional):
            return [sch]
        if not info.inputs and not self.inline_const_tensor:
            return [sch]
        used = {getattr(e.op, "name", "") for e in walk(sch.get(block).body) if isinstance(e, n.Call)}
        if used & set(self.disallow_op or ()):
            return [sch]
        ways: list[Callable[[BlockRV], None]] = []
        if self.into_consumer and consumers(info, blocks_of(sch.func)):
            ways.append(sch.compute_inline)
        if self.into_producer:
            ways.append(sch.reverse_compute_inline)
        for way in ways:
            try:
                way(block)
                break
            except ScheduleError:
                continue
        return [sch]


class InlineConstantScalars(ScheduleRule):
    """Inlines blocks that compute one value from nothing."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        found = sch.get(block)
        if not found.reads and len(found.writes) == 1 and all(_is_one(r.extent) for r in found.writes[0].region):
            with suppress(ScheduleError):
                sch.compute_inline(block)
        return [sch]


def _is_one(extent: n.PrimExpr) -> bool:
    return isinstance(extent, n.IntImm) and extent.value == 1


# ------------------------------------------------------------------------------------- tiling


@dataclass(frozen=True)
class ReuseType:
    """A cache: never ("no"), tried with and without ("may"), or always ("must").
    It is in memory of `scope`, at `levels` of the tile structure (counted from 1)."""

    req: Literal["no", "may", "must"]
    levels: list[int]
    scope: str

    def as_dict(self) -> dict[str, object]:
        """The three fields by name."""
        return {"req": self.req, "levels": self.levels, "scope": self.scope}


class MultiLevelTiling(ScheduleRule):
    """Tiles a block that reuses its inputs by `structure`, such as "SSRSRS".
    Each letter is a level, S of the spatial loops, R of the reduced ones. Every tile size is left open, the
    innermost at most `max_innermost_factor`."""

    def __init__(
        self, structure: str, tile_binds: list[str] | None = None, max_innermost_factor: int | None = None,
        vector_load_lens: list[int] | None = None, reuse_read: ReuseType | None = None,
        reuse_write: ReuseType | None = None, filter_fn: Callable[[Schedule, BlockRV], bool] | None = None,
    ) -> None:  # fmt: skip
        if not structure or set(structure) - {"S", "R"}:
            raise TuningError(f"{structure!r} is no tile structure", hint='write S and R, for example "SSRSRS"')
        if tile_binds or vector_load_lens:
            raise TuningError("tile_binds and vector_load_lens are for GPUs, which this rule does not schedule")
        self.structure = structure
        self.tile_binds = tile_binds
        self.max_innermost_factor = max_innermost_factor
        self.reuse_read = reuse_read
        self.reuse_write = reuse_write
        self._filter = filter_fn

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        info = info_of(sch, block)
        wanted = self._filter(sch, block) if self._filter else info is not None and info.contraction
        loops = sch.get_loops(block)
        if info is None or not wanted or len(loops) != len(info.axes):
            return [sch]
        reuse = self.reuse_write
        levels: list[int | None] = [] if reuse is not None and reuse.req == "must" else [None]
        if reuse is not None and reuse.req != "no":
            levels += reuse.levels
        tiled = []
        for level in levels:
            with suppress(ScheduleError):  # a level where this block's result is not finished yet
                tiled.append(self._tiled(sch.copy(), block, info, level))
        return tiled or [sch]

    def _tiled(self, sch: Schedule, block: BlockRV, info: BlockInfo, write_level: int | None) -> Schedule:
        tiles: list[list[LoopRV]] = [[] for _ in self.structure]
        sch.annotate(block, "meta_schedule.tiling_structure", self.structure)
        for loop in sch.get_loops(block):
            reduced = not is_spatial(loop_kinds(sch, block, loop))
            places = [at for at, kind in enumerate(self.structure) if (kind == "R") == reduced]
            factors = sch.sample_perfect_tile(loop, len(places), self.max_innermost_factor or _UNBOUNDED)
            for at, inner in zip(places, sch.split(loop, factors)):
                tiles[at].append(inner)
        sch.reorder(*(loop for level in tiles for loop in level))
        if self.reuse_read is not None and self.reuse_read.req != "no":
            self._cache_inputs(sch, block, info, tiles, self.reuse_read)
        if write_level is not None and self.reuse_write is not None:
            cache = sch.cache_write(block, 0, self.reuse_write.scope)
            if (below := _last(tiles, write_level)) is not None:
                sch.reverse_compute_at(cache, below, preserve_unit_loops=True)
        return sch

    def _cache_inputs(
        self, sch: Schedule, block: BlockRV, info: BlockInfo, tiles: Sequence[Sequence[LoopRV]], reuse: ReuseType
    ) -> None:
        at = _last(tiles, reuse.levels[0])
        for access in info.inputs:
            if at is not None:
                copy = sch.cache_read(block, sch.read_index(block, access.buffer.name), reuse.scope)
                sch.compute_at(copy, at, preserve_unit_loops=True)


def _last(tiles: Sequence[Sequence[LoopRV]], level: int) -> LoopRV | None:
    """The innermost loop of the first `level` levels that has loops."""
    loops = [loop for loops in tiles[:level] for loop in loops]
    return loops[-1] if loops else None


# --------------------------------------------------------------------------------- reductions


class AddRFactor(ScheduleRule):
    """Splits the reduction of a block with too few spatial points to keep the cores busy.
    The parts become blocks of their own, in both ways."""

    def __init__(self, max_jobs_per_core: int = 16, max_innermost_factor: int | None = None) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_innermost_factor = max_innermost_factor

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        info = info_of(sch, block)
        if info is None or not info.reduced:
            return [sch]
        spatial = math.prod(axis.extent for axis in info.spatial)
        reduced = math.prod(axis.extent for axis in info.reduced)
        if spatial >= reduced or spatial > self.max_jobs_per_core * self.cores:
            return [sch]
        found = [sch]
        for inner in (False, True):
            try:
                found.append(self._factored(sch.copy(), block, info, inner))
            except ScheduleError:
                continue
        return found

    def _factored(self, sch: Schedule, block: BlockRV, info: BlockInfo, inner: bool) -> Schedule:
        loops = [loop for loop in sch.get_loops(block) if not is_spatial(loop_kinds(sch, block, loop))]
        fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
        factors = sch.sample_perfect_tile(fused, 2, self.max_innermost_factor or _UNBOUNDED)
        sch.rfactor(sch.split(fused, factors)[inner], len(info.spatial))
        return sch


# ----------------------------------------------------------------------------- how loops run


class ParallelizeVectorizeUnroll(ScheduleRule):
    """Notes on the root block how much may be parallel, vectorised and unrolled.
    The postprocessor of that name does it when the tiles are known. 0 or None turns a part off."""

    def __init__(
        self,
        max_jobs_per_core: int = 16,
        max_vectorize_extent: int = 16,
        unroll_max_steps: list[int] | None = None,
        unroll_explicit: bool = True,
    ) -> None:
        self.max_jobs_per_core = max_jobs_per_core
        self.max_vectorize_extent = max_vectorize_extent
        self.unroll_max_steps = unroll_max_steps
        self.unroll_explicit = unroll_explicit

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        if sch.get(block).name_hint != "root":
            return [sch]
        if self.max_jobs_per_core > 0:
            sch.annotate(block, "meta_schedule.parallel", self.max_jobs_per_core * self.cores)
        if self.max_vectorize_extent > 0:
            sch.annotate(block, "meta_schedule.vectorize", self.max_vectorize_extent)
        if self.unroll_max_steps:
            even = [1.0 / len(self.unroll_max_steps)] * len(self.unroll_max_steps)
            steps = sch.sample_categorical(self.unroll_max_steps, even)
            kind = "explicit" if self.unroll_explicit else "implicit"
            sch.annotate(block, f"meta_schedule.unroll_{kind}", steps)
        return [sch]


class RandomComputeLocation(ScheduleRule):
    """Leaves open at which loop of its readers a block is computed."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        info = info_of(sch, block)
        if info is None or not info.injective or not consumers(info, blocks_of(sch.func)):
            return [sch]
        if "meta_schedule.tiling_structure" in sch.get(block).annotations:
            return [sch]
        other = sch.copy()
        try:
            other.compute_at(block, other.sample_compute_location(block, decision=-1), preserve_unit_loops=True)
        except ScheduleError:
            return [sch]
        return [other]


class ApplyCustomRule(ScheduleRule):
    """Gives a block annotated `schedule_rule: NAME` to a registered function.
    The function is `meta_schedule.<target kind>.NAME`. It takes the schedule and the block and returns the schedules
    to go on with."""

    def apply(self, sch: Schedule, block: BlockRV) -> list[Schedule]:
        name = sch.get(block).annotations.get("schedule_rule")
        if not isinstance(name, str) or name == "None":
            return [sch]
        target = getattr(self, "target", None)
        kinds = ("cpu", "llvm") if target is None else (*target.keys, str(target.kind))
        for kind in kinds:
            rule = get_global_func(f"meta_schedule.{kind}.{name}", allow_missing=True)
            if rule is not None:
                made = rule(sch, block)
                return list(made) if isinstance(made, list | tuple) else [made]
        raise TuningError(
            f"block {sch.get(block).name_hint!r} asks for the schedule rule {name!r}, which nobody registered",
            hint=f"register it: tvm.register_func('meta_schedule.{kinds[0]}.{name}', rule)",
        )
