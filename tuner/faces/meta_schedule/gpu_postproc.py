"""Postprocessors for GPUs: threads for blocks that have none, and what a block of threads may use."""

from __future__ import annotations

from compiler.driver.build import lower
from compiler.errors import TunefarmError
from compiler.faces.tir_analysis import verify_gpu_code
from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.default_gpu import bind_blocks
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.faces.meta_schedule.postproc import Postproc

_LIMITS = ("max_shared_memory_per_block", "max_threads_per_block", "max_local_memory_per_block")


class RewriteUnboundBlock(Postproc):
    """Gives the blocks that are in no loop of threads blocks and threads. `max_threadblocks` is kept for its name: a
    block of threads has as many as the target allows, and there are as many as that takes."""

    def __init__(self, max_threadblocks: int = 256) -> None:
        self.max_threadblocks = max_threadblocks

    def apply(self, sch: Schedule) -> bool:
        bind_blocks(sch, self.target.max_num_threads)
        return True


class VerifyGPUCode(Postproc):
    """Gives up candidates that use more of a block of threads than the target has, or that cannot be lowered."""

    def apply(self, sch: Schedule) -> bool:
        try:
            lowered = lower(IRModule({"main": sch.func}))
        except TunefarmError:
            return False
        limits = _limits(self.target)
        return all(verify_gpu_code(func, limits) for func in lowered.functions.values() if isinstance(func, PrimFunc))


def _limits(target: Target) -> dict[str, int]:
    found = {name: target.attrs[name] for name in _LIMITS if name in target.attrs}
    return {"max_threads_per_block": target.max_num_threads, **found}
