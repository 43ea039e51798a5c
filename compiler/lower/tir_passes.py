"""The passes over TensorIR functions by the field's names: each call makes a pass to put in a `Sequential`.

Those of lowering are the ones `compiler.lower.pipeline` lists, one at a time. They expect what the passes before
them made; `lower` runs them all.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.ir.transform.config import TransformError
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import Pass, PassInfo, PrimFuncPass, module_pass, prim_func_pass, register_pass
from compiler.lower.loops.skip_assert import skip_assert
from compiler.lower.pipeline import LoweringOptions, LoweringPass, passes
from compiler.schedule.default_gpu import default_gpu_schedule
from compiler.target.target import Target
from compiler.tir import nodes as n

__all__ = [
    "AlignStorage",
    "Apply",
    "BindTarget",
    "CheckBounds",
    "CompactBufferAllocation",
    "ConvertBlocksToOpaque",
    "DefaultGPUSchedule",
    "Filter",
    "FlattenBuffer",
    "HoistGuards",
    "InjectDoubleBuffer",
    "InjectPTXAsyncCopy",
    "InjectPrefetch",
    "InjectSoftwarePipeline",
    "InjectVirtualThread",
    "LoopPartition",
    "LowerCrossThreadReduction",
    "LowerInitBlock",
    "LowerMatchBuffer",
    "LowerOpaqueBlock",
    "PlanAndUpdateBufferAllocationLocation",
    "PrimFuncPass",
    "SerializeNestedParallel",
    "Simplify",
    "SimplifyTiles",
    "SkipAssert",
    "SplitTails",
    "UnrollLoop",
    "VectorizeLoop",
    "module_pass",
    "prim_func_pass",
]


def CheckBounds() -> Pass:
    """Refuse an access that is certainly outside its buffer."""
    return _of_pipeline("CheckBounds")


def LowerCrossThreadReduction() -> Pass:
    """Reductions along threadIdx: each thread reduces its part, then the threads of a block combine theirs."""
    return _of_pipeline("LowerCrossThreadReduction")


def DefaultGPUSchedule() -> Pass:
    """Blocks in no loop that is bound to threads become kernels, a thread for each result."""
    return PrimFuncPass(lambda func, _mod, _ctx: default_gpu_schedule(func), PassInfo(0, "tir.DefaultGPUSchedule"))


def InjectVirtualThread() -> Pass:
    """Loops bound to "vthread" are unrolled in each thread."""
    return _of_pipeline("InjectVirtualThread")


def LowerInitBlock() -> Pass:
    """A reduction block's init becomes an ordinary statement under a condition."""
    return _of_pipeline("LowerInitBlock")


def PlanAndUpdateBufferAllocationLocation() -> Pass:
    """Move each allocation to the innermost block around all uses of the buffer."""
    return _of_pipeline("PlanAndUpdateBufferAllocationLocation")


def LowerMatchBuffer() -> Pass:
    """Views of regions become accesses of the buffers they look at."""
    return _of_pipeline("LowerMatchBuffer")


def ConvertBlocksToOpaque() -> Pass:
    """Replace block variables by the expressions they are bound to."""
    return _of_pipeline("ConvertBlocksToOpaque")


def CompactBufferAllocation() -> Pass:
    """Shrink each temporary to the part of it that is used at a time."""
    return _of_pipeline("CompactBufferAllocation")


def AlignStorage() -> Pass:
    """Set the rows of a buffer apart in memory where its block asks for it."""
    return _of_pipeline("AlignStorage")


def LowerOpaqueBlock() -> Pass:
    """Turn the allocations of blocks into statements; no block is left."""
    return _of_pipeline("LowerOpaqueBlock")


def InjectSoftwarePipeline() -> Pass:
    """Run the statements of annotated loops on different iterations at a time."""
    return _of_pipeline("InjectSoftwarePipeline")


def InjectDoubleBuffer() -> Pass:
    """Keep buffers twice where their blocks ask for it, and fill them an iteration ahead."""
    return _of_pipeline("InjectDoubleBuffer")


def FlattenBuffer() -> Pass:
    """Make every buffer one-dimensional."""
    return _of_pipeline("FlattenBuffer")


def Simplify() -> Pass:
    """Simplify expressions, and remove what has no effect."""
    return _of_pipeline("Simplify")


def SimplifyTiles() -> Pass:
    """Simplify what SplitTails, HoistGuards and LoopPartition made."""
    return _of_pipeline("SimplifyTiles")


def SerializeNestedParallel() -> Pass:
    """A parallel loop inside another runs serially."""
    return _of_pipeline("SerializeNestedParallel")


def SplitTails() -> Pass:
    """Split loops over register tiles where the tile stops fitting."""
    return _of_pipeline("SplitTails")


def HoistGuards() -> Pass:
    """Ask a condition outside the loops it does not depend on."""
    return _of_pipeline("HoistGuards")


def LoopPartition() -> Pass:
    """Split loops where a condition in them stops holding, so that the main part asks nothing."""
    return _of_pipeline("LoopPartition")


def InjectPrefetch() -> Pass:
    """Have loops annotated with `software_prefetch` ask memory for what a later iteration reads."""
    return _of_pipeline("InjectPrefetch")


def VectorizeLoop(enable_vectorize: bool = True) -> Pass:
    """Replace vectorized loops by vector statements, or by serial loops."""
    return _of_pipeline("VectorizeLoop", enable_vectorize)


def InjectPTXAsyncCopy() -> Pass:
    """Make copies to shared memory that a pipeline lets go on by themselves into `cp.async`."""
    return _of_pipeline("InjectPTXAsyncCopy")


def UnrollLoop() -> Pass:
    """Mark loops to unroll: pragmas, register tiles, and what the option tir.UnrollLoop says."""
    return _of_pipeline("UnrollLoop")


def SkipAssert() -> Pass:
    """Remove assertions."""
    return PrimFuncPass(lambda func, _mod, _context: skip_assert(func), PassInfo(0, "tir.SkipAssert"))


def Apply(ftransform: Callable[[n.PrimFunc], n.PrimFunc]) -> Pass:
    """Call a Python function on each function."""
    return PrimFuncPass(lambda func, _mod, _context: ftransform(func), PassInfo(0, "tir.Apply"))


def Filter(fcond: Callable[[n.PrimFunc], bool]) -> Pass:
    """Keep the functions for which `fcond` holds."""
    return PrimFuncPass(lambda func, _mod, _context: func if fcond(func) else None, PassInfo(0, "tir.Filter"))


def BindTarget(target: Target) -> Pass:
    """Note the target in the attributes of each function that has none."""
    return PrimFuncPass(
        lambda func, _mod, _context: func if "target" in func.attrs else func.with_attr("target", Target(target)),
        PassInfo(0, "tir.BindTarget"),
    )


def _of_pipeline(title: str, vectorize: bool = True) -> Pass:
    """One of the passes of lowering, as the context it will run under configures it."""

    def run(func: n.PrimFunc, _mod: object, context: PassContext) -> n.PrimFunc:
        options = LoweringOptions.of(context)
        if not vectorize:
            options = LoweringOptions(False, options.asserts, options.unroll)
        return _listed(title, passes(_vector_bits(func), options=options)).run(func)

    return PrimFuncPass(run, PassInfo(_listed(title, passes()).opt_level, f"tir.{title}"))


def _listed(title: str, steps: list[LoweringPass]) -> LoweringPass:
    for step in steps:
        if step.title == title:
            return step
    raise TransformError(f"lowering has no pass {title!r}")


def _vector_bits(func: n.PrimFunc) -> int:
    """Of the function's target, else the current one, else this machine's."""
    target = func.attrs.get("target") or Target.current_or_default()
    return Target(target).resolved().vector_bits


for _make in (
    CheckBounds, LowerCrossThreadReduction, LowerInitBlock, PlanAndUpdateBufferAllocationLocation, LowerMatchBuffer,
    ConvertBlocksToOpaque, CompactBufferAllocation, InjectVirtualThread, DefaultGPUSchedule,
    AlignStorage, LowerOpaqueBlock, InjectSoftwarePipeline, InjectDoubleBuffer, InjectPrefetch, FlattenBuffer, Simplify,
    SerializeNestedParallel, SplitTails, HoistGuards, LoopPartition, SimplifyTiles, VectorizeLoop, UnrollLoop,
    InjectPTXAsyncCopy, SkipAssert,
):  # fmt: skip
    register_pass(f"tir.{_make.__name__}", _make)
