"""Postprocessors: changes to a schedule once its decisions are known. False rejects the candidate.

One of your own is a subclass of `Postproc` (also called `PyPostproc`) with `apply`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from compiler.driver.build import lower
from compiler.errors import ScheduleError, TunefarmError
from compiler.faces.tir_analysis import verify_gpu_code
from compiler.ir.module import IRModule
from compiler.ir.visit import walk
from compiler.schedule.core.schedule import BlockRV, LoopRV, Schedule
from compiler.schedule.default_gpu import bind_blocks
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.ops import as_int
from compiler.tir.visit import free_vars
from tuner.faces.meta_schedule.spaces.block_loops import is_spatial, loop_kinds, realize_of
from tuner.faces.meta_schedule.spaces.target_kinds import require_cpu

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.tune_context import TuneContext

_LIMITS = ("max_shared_memory_per_block", "max_threads_per_block", "max_local_memory_per_block")


class Postproc(ABC):
    """The contract: `apply` finishes a schedule and says whether it is worth measuring."""

    def _initialize_with_tune_context(self, context: TuneContext) -> None:
        """Told once, before `apply`, what is tuned for what."""
        self.target = context.target

    @abstractmethod
    def apply(self, sch: Schedule) -> bool:
        """Whether to go on with this candidate."""

    def clone(self) -> Postproc:
        """A postprocessor to use for another task."""
        return self

    @staticmethod
    def create(kind: str = "llvm") -> list[Postproc]:
        """Those for a kind of target. Raises TuningError where there are none."""
        require_cpu(kind, "postprocessors")
        return [DisallowDynamicLoop(), RewriteParallelVectorizeUnroll(), RewriteReductionBlock()]


PyPostproc = Postproc


class DisallowDynamicLoop(Postproc):
    """Rejects candidates with a loop whose extent is not known when it is built."""

    def apply(self, sch: Schedule) -> bool:
        return all(as_int(node.extent) is not None for node in walk(sch.func.body) if isinstance(node, n.For))


# ----------------------------------------------------------------------------- how loops run

_NOTES = ("parallel", "vectorize", "unroll_explicit", "unroll_implicit")


class RewriteParallelVectorizeUnroll(Postproc):
    """Does what the rule `ParallelizeVectorizeUnroll` noted on the root block.
    It fuses and parallelises the outer spatial loops, and vectorises the innermost one where memory is contiguous.
    Lowering unrolls."""

    def apply(self, sch: Schedule) -> bool:
        root = sch.get_block("root")
        notes = sch.get(root).annotations
        asked = {name: notes[f"meta_schedule.{name}"] for name in _NOTES if f"meta_schedule.{name}" in notes}
        for name in asked:
            sch.unannotate(root, f"meta_schedule.{name}")
        if not asked:
            return True
        for block in sch.get_child_blocks(root):
            self._finish(sch, block, asked)
        return True

    def _finish(self, sch: Schedule, block: BlockRV, asked: dict[str, int]) -> None:
        loops = sch.get_loops(block)
        if not loops:
            return
        lanes = _vector_loop(sch, block, loops, asked.get("vectorize", 0))
        outer = _parallel_loops(sch, block, loops, asked.get("parallel", 0), lanes)
        if lanes is not None:
            sch.vectorize(lanes)
        if outer:
            first = sch.fuse(*outer) if len(outer) > 1 else outer[0]
            sch.parallel(first)
        else:
            first = loops[0]
        for name in ("unroll_explicit", "unroll_implicit"):
            if asked.get(name, 0) > 0 and first != lanes:
                sch.annotate(first, "pragma_auto_unroll_max_step", asked[name])
                sch.annotate(first, "pragma_unroll_explicit", int(name == "unroll_explicit"))


def _is_plain(sch: Schedule, loop: LoopRV) -> bool:
    node = sch.get(loop)
    return node.kind is n.ForKind.SERIAL and not node.annotations


def _only_child(sch: Schedule, outer: LoopRV, inner: LoopRV) -> bool:
    return sch.get(outer).body is sch.get(inner)


def _parallel_loops(
    sch: Schedule, block: BlockRV, loops: list[LoopRV], most: int, lanes: LoopRV | None
) -> list[LoopRV]:
    """The outermost spatial loops, nested right inside one another.
    They are the first, and as many more as make at most `most` jobs together."""
    found: list[LoopRV] = []
    jobs = 1
    for loop in loops if most > 0 else ():
        extent = as_int(sch.get(loop).extent)
        spatial = is_spatial(loop_kinds(sch, block, loop))
        nested = not found or _only_child(sch, found[-1], loop)
        if extent is None or not spatial or not nested or not _is_plain(sch, loop) or loop == lanes:
            break
        if found and jobs * extent > most:
            break
        found.append(loop)
        jobs *= extent
    return found


def _vector_loop(sch: Schedule, block: BlockRV, loops: list[LoopRV], most: int) -> LoopRV | None:
    """The innermost loop, if it can be vectors: spatial, short, and along the written last dimension."""
    last = loops[-1]
    extent = as_int(sch.get(last).extent)
    if extent is None or not 1 < extent <= most or not _is_plain(sch, last):
        return None
    if loop_kinds(sch, block, last) != {n.IterType.DATA_PAR}:
        return None
    realize = realize_of(sch, block)
    found = realize.block
    moved = {
        iv.var
        for iv, value in zip(found.iter_vars, realize.iter_values)
        if any(v is sch.get(last).loop_var for v in free_vars(value))
    }
    for region in found.writes:
        *outer, inner = [set(free_vars(r.min)) & moved for r in region.region] or [set()]
        if any(outer) or not inner:
            return None
    return last


# --------------------------------------------------------------------------------- reductions


class RewriteReductionBlock(Postproc):
    """Moves the init of each reduction out of its innermost spatial loops.
    It then stands before the outermost reduced loop."""

    def apply(self, sch: Schedule) -> bool:
        done: set[str] = set()
        while (name := _with_init(sch, done)) is not None:
            done.add(name)
            block = sch.get_block(name)
            loops = sch.get_loops(block)
            reduced = [loop for loop in loops if n.IterType.COMM_REDUCE in loop_kinds(sch, block, loop)]
            if not reduced:
                continue
            try:
                sch.decompose_reduction(block, reduced[0])
            except ScheduleError:
                continue
        return True


def _with_init(sch: Schedule, done: set[str]) -> str | None:
    blocks = (node for node in walk(sch.func.body) if isinstance(node, n.Block))
    return next((b.name_hint for b in blocks if b.init is not None and b.name_hint not in done), None)


class RewriteUnboundBlock(Postproc):
    """Gives the blocks that are in no loop of threads blocks and threads.
    `max_threadblocks` is kept for its name: a block of threads has as many as the target allows, and there are as
    many as that takes."""

    def __init__(self, max_threadblocks: int = 256) -> None:
        self.max_threadblocks = max_threadblocks

    def apply(self, sch: Schedule) -> bool:
        bind_blocks(sch, self.target.max_num_threads)
        return True


class VerifyGPUCode(Postproc):
    """Rejects candidates that use more than the target has, or that cannot be lowered.
    The limits are those of a block of threads."""

    def apply(self, sch: Schedule) -> bool:
        try:
            lowered = lower(IRModule({"main": sch.func}))
        except TunefarmError:
            return False
        limits = _limits(self.target)
        return all(verify_gpu_code(func, limits) for func in lowered.functions.values() if isinstance(func, n.PrimFunc))


def _limits(target: Target) -> dict[str, int]:
    found = {name: target.attrs[name] for name in _LIMITS if name in target.attrs}
    return {"max_threads_per_block": target.max_num_threads, **found}
