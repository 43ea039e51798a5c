"""Lowering: from scheduled blocks to loops over one-dimensional buffers. This file is its table of contents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from compiler.ir.module import IRModule
from compiler.ir.transform.config import UnrollConfig
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import Pass, PassInfo, PrimFuncPass, Sequential
from compiler.ir.visit import walk
from compiler.lower.blocks.align_storage import align_storage
from compiler.lower.blocks.check_bounds import check_bounds
from compiler.lower.blocks.compact_buffers import compact_buffers
from compiler.lower.blocks.convert_blocks import convert_blocks
from compiler.lower.blocks.flatten_buffers import flatten_buffers
from compiler.lower.blocks.in_place import in_place
from compiler.lower.blocks.inject_double_buffer import inject_double_buffer
from compiler.lower.blocks.lower_allocations import lower_allocations
from compiler.lower.blocks.lower_init import lower_init
from compiler.lower.blocks.lower_match_buffer import lower_match_buffer
from compiler.lower.blocks.plan_allocation import plan_allocation
from compiler.lower.gpu.inject_async_copy import inject_async_copy
from compiler.lower.gpu.thread_axes import is_bound, unroll_virtual_threads
from compiler.lower.gpu.thread_reduction import lower_thread_reductions
from compiler.lower.loops.hoist_guards import hoist_guards
from compiler.lower.loops.inject_prefetch import inject_prefetch
from compiler.lower.loops.inject_software_pipeline import inject_software_pipeline, mark_parts
from compiler.lower.loops.nested_parallel import serialize_nested_parallel
from compiler.lower.loops.partition_loops import partition_loops
from compiler.lower.loops.simplify import simplify
from compiler.lower.loops.skip_assert import skip_assert
from compiler.lower.loops.split_tails import split_tails
from compiler.lower.loops.unroll import NO_MORE, unroll
from compiler.lower.loops.vectorize import vectorize
from compiler.lower.loops.whole_lanes import whole_lanes
from compiler.tensorcore.warp_products import lower_warp_products
from compiler.tir import nodes as n
from compiler.tir.verify import Stage


@dataclass(frozen=True, slots=True)
class LoweringPass:
    """One step of lowering, known to pass contexts and instruments as `tir.<title>`.

    `stage` says which rules of `compiler.tir.verify` hold of its result. Those of level 0 are needed for code;
    those of level 1 only make it faster.
    """

    name: str
    title: str
    run: Callable[[n.PrimFunc], n.PrimFunc]
    stage: Stage | None = None
    opt_level: int = 0

    def as_pass(self) -> Pass:
        info = PassInfo(self.opt_level, f"tir.{self.title}")
        return PrimFuncPass(lambda func, _mod, _context: self.run(func), info)


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """What a pass context changes about the passes."""

    vectorize: bool = True
    asserts: bool = True
    unroll: UnrollConfig = NO_MORE

    @staticmethod
    def of(context: PassContext) -> LoweringOptions:
        return LoweringOptions(
            vectorize=not context.option("tir.disable_vectorize", False),
            asserts=not context.option("tir.disable_assert", False),
            unroll=context.option("tir.UnrollLoop", NO_MORE),
        )


_DEFAULT = LoweringOptions()


def passes(vector_bits: int = 256, *, simple: bool = False, options: LoweringOptions = _DEFAULT) -> list[LoweringPass]:
    """The passes in order. `simple` leaves out those that only make code faster."""
    asserts = [] if options.asserts else [LoweringPass("skip_assert", "SkipAssert", skip_assert)]
    blocks = [
        LoweringPass("check_bounds", "CheckBounds", check_bounds),
        LoweringPass("lower_thread_reductions", "LowerCrossThreadReduction", lower_thread_reductions),
        LoweringPass("lower_init", "LowerInitBlock", lambda func: lower_init(mark_parts(func)), Stage.BLOCKS),
        LoweringPass("plan_allocation", "PlanAndUpdateBufferAllocationLocation", plan_allocation),
        LoweringPass("lower_match_buffer", "LowerMatchBuffer", lower_match_buffer),
        LoweringPass("convert_blocks", "ConvertBlocksToOpaque", convert_blocks),
        LoweringPass("compact_buffers", "CompactBufferAllocation", lambda func: compact_buffers(in_place(func))),
        LoweringPass("align_storage", "AlignStorage", align_storage),
        LoweringPass("lower_allocations", "LowerOpaqueBlock", lower_allocations, Stage.LOOPS),
        LoweringPass("inject_software_pipeline", "InjectSoftwarePipeline", inject_software_pipeline, Stage.LOOPS),
        LoweringPass("inject_double_buffer", "InjectDoubleBuffer", inject_double_buffer, Stage.LOOPS),
    ]
    loops = [
        LoweringPass("unroll_virtual_threads", "InjectVirtualThread", unroll_virtual_threads, Stage.LOOPS),
        LoweringPass("flatten_buffers", "FlattenBuffer", flatten_buffers, Stage.FLAT),
        LoweringPass("simplify", "Simplify", simplify, Stage.FLAT),
        LoweringPass("serialize_nested_parallel", "SerializeNestedParallel", serialize_nested_parallel, Stage.FLAT),
    ]
    tiles = [
        LoweringPass("split_tails", "SplitTails", on_cpu(split_tails), Stage.FLAT, 1),
        LoweringPass("hoist_guards", "HoistGuards", on_cpu(hoist_guards), Stage.FLAT, 1),
        LoweringPass("partition_loops", "LoopPartition", on_cpu(partition_loops), Stage.FLAT, 1),
        LoweringPass("simplify_tiles", "SimplifyTiles", simplify, Stage.FLAT, 1),
    ]

    def to_vectors(func: n.PrimFunc) -> n.PrimFunc:
        return whole_lanes(vectorize(func, vector_bits, enable=options.vectorize))

    to_unrolled = partial(unroll, vector_bits=vector_bits, config=options.unroll)
    last = [
        LoweringPass("inject_prefetch", "InjectPrefetch", inject_prefetch, Stage.FLAT),
        LoweringPass("vectorize", "VectorizeLoop", to_vectors, Stage.LOWERED),
        LoweringPass("unroll", "UnrollLoop", to_unrolled, Stage.LOWERED),
        LoweringPass("inject_async_copy", "InjectPTXAsyncCopy", inject_async_copy, Stage.LOWERED),
    ]
    return [*asserts, *blocks, *loops, *([] if simple else tiles), *last]


def on_cpu(run: Callable[[n.PrimFunc], n.PrimFunc]) -> Callable[[n.PrimFunc], n.PrimFunc]:
    """`run`, but not of functions with bound loops: moving their conditions could part threads that must stay together,
    and full tiles want no code of their own where a thread has one element."""
    return lambda func: func if is_bound(func) else run(func)


def stages(func: n.PrimFunc, vector_bits: int = 256) -> Iterator[tuple[LoweringPass, n.PrimFunc]]:
    """Each pass with the function after it."""
    for step in passes(vector_bits):
        func = step.run(func)
        yield step, func


def lower_func(func: n.PrimFunc, vector_bits: int = 256, *, simple: bool = False) -> n.PrimFunc:
    """`func` ready for code generation. A function that is lowered already comes back as it is.

    `vector_bits`: the width of the vector registers it is meant for. No pass context is asked: see `lower_module`.
    Raises LoweringError.
    """
    func = lower_warp_products(func)
    if is_lowered(func):
        return func
    for step in passes(vector_bits, simple=simple):
        func = step.run(func)
    return func


def lower_module(module: IRModule, vector_bits: int = 256, *, simple: bool = False) -> IRModule:
    """`module` with its functions lowered: as the current pass context says, where there is one."""
    context = PassContext.active()
    if context is None:
        return _with_prim_funcs(module, lambda func: lower_func(func, vector_bits, simple=simple))
    module = _with_prim_funcs(module, lower_warp_products)
    todo = {g: f for g, f in n.prim_funcs(module).items() if not is_lowered(f)}
    if not todo:
        return module
    run = Sequential(_passes_under(context, vector_bits, simple))
    lowered = run(module.with_functions(todo)).functions
    gone = todo.keys() - lowered.keys()
    kept = {g: f for g, f in module.items() if g not in gone}
    return module.with_functions({**kept, **lowered})


def _passes_under(context: PassContext, vector_bits: int, simple: bool) -> list[Pass]:
    """The passes, and those of `tir.add_lower_pass` at their phases."""
    added: dict[int, list[Pass]] = {0: [], 1: [], 2: [], 3: []}
    for phase, extra in context.option("tir.add_lower_pass", ()):
        added[phase].append(extra)
    steps = passes(vector_bits, simple=simple, options=LoweringOptions.of(context))
    flat = [step.name for step in steps].index("simplify") + 1
    before, after = [step.as_pass() for step in steps[:flat]], [step.as_pass() for step in steps[flat:]]
    return [*added[0], *before, *added[1], *after, *added[2], *added[3]]


def is_lowered(func: n.PrimFunc) -> bool:
    """Whether no pass has anything left to do: no blocks, no vectorized loops, flat buffers only."""
    if isinstance(func.body, n.BlockRealize):
        return False
    for node in walk(func.body):
        match node:
            case n.BlockRealize():
                return False
            case n.DeclBuffer():
                return False
            case n.For() if node.kind is n.ForKind.VECTORIZED:
                return False
            case n.BufferLoad() | n.BufferStore():
                if len(node.indices) != 1 or node.buffer.strides or node.buffer.elem_offset is not None:
                    return False
            case _:
                pass
    return True


def _with_prim_funcs(module: IRModule, change: Callable[[n.PrimFunc], n.PrimFunc]) -> IRModule:
    """The module with its TensorIR functions changed."""
    return module.with_functions({**module.functions, **{g: change(f) for g, f in n.prim_funcs(module).items()}})
