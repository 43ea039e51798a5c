"""Lowering: from scheduled blocks to loops over one-dimensional buffers.

`PIPELINE` is the whole list of its passes. `GPU` lists what code generation for a GPU runs after it.

Functions that are lowered already take no further pass, nor do those of which a pass has made a whole kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from compiler.ir.module import IRModule
from compiler.ir.transform.config import register_option
from compiler.ir.transform.context import PassContext
from compiler.ir.transform.passes import Pass, PassInfo, Sequential
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
from compiler.lower.gpu.inject_barriers import OWN_BARRIERS, inject_barriers
from compiler.lower.gpu.split_host_device import split_host_device
from compiler.lower.gpu.thread_axes import is_bound, unroll_virtual_threads
from compiler.lower.gpu.thread_reduction import lower_thread_reductions
from compiler.lower.loops.hoist_guards import hoist_guards
from compiler.lower.loops.inject_prefetch import inject_prefetch
from compiler.lower.loops.inject_software_pipeline import inject_software_pipeline, mark_parts
from compiler.lower.loops.name_divisions import name_divisions
from compiler.lower.loops.nested_parallel import serialize_nested_parallel
from compiler.lower.loops.partition_loops import partition_loops
from compiler.lower.loops.simplify import simplify, simplify_tiles
from compiler.lower.loops.skip_assert import DISABLE_ASSERT, skip_assert
from compiler.lower.loops.split_tails import split_tails
from compiler.lower.loops.unroll import unroll
from compiler.lower.loops.vectorize import vectorize
from compiler.lower.loops.whole_lanes import whole_lanes
from compiler.tensorcore.warp_products import lower_warp_products
from compiler.tir import nodes as n
from compiler.tir.transform import PrimFuncPass, Rewrite, pass_of
from compiler.tir.verify import LoweringStage


@dataclass(frozen=True, slots=True)
class Lowering:
    """The settings of a run of the pipeline. `simple` leaves out passes that only make code faster."""

    vector_bits: int = 256
    simple: bool = False
    context: PassContext | None = None


@dataclass(frozen=True, slots=True)
class PassRow:
    """A registered pass at its place.
    It runs `when` the run asks for it, on functions that are not `unless`."""

    function: Callable[..., Any]
    when: Callable[[Lowering], bool] | None = None
    unless: Callable[[n.PrimFunc], bool] | None = None


@dataclass(frozen=True, slots=True)
class PassPhase:
    """Where the passes of the option `tir.add_lower_pass` with this number run."""

    number: int


def asserts_disabled(run: Lowering) -> bool:
    return bool(DISABLE_ASSERT.value(run.context))


def optimizing(run: Lowering) -> bool:
    return not run.simple


def is_kernel(func: n.PrimFunc) -> bool:
    """Whether a pass has written all of `func`, a kernel with barriers of its own."""
    return OWN_BARRIERS in func.attrs


# Moving the conditions of bound loops could part threads that must stay together, and full tiles want no code of their
# own where a thread has one element: hence `unless=is_bound`.
PIPELINE: tuple[PassRow | PassPhase, ...] = (
    PassRow(lower_warp_products),
    PassPhase(0),
    PassRow(skip_assert, when=asserts_disabled),
    # blocks
    PassRow(check_bounds),
    PassRow(lower_thread_reductions),
    PassRow(mark_parts),
    PassRow(lower_init),
    PassRow(plan_allocation),
    PassRow(lower_match_buffer),
    PassRow(convert_blocks),
    PassRow(in_place),
    PassRow(compact_buffers),
    PassRow(align_storage),
    PassRow(lower_allocations),
    # loops over buffers of any rank
    PassRow(inject_software_pipeline),
    PassRow(inject_double_buffer),
    PassRow(unroll_virtual_threads),
    PassRow(flatten_buffers),
    # loops over flat buffers
    PassRow(simplify),
    PassPhase(1),
    PassRow(serialize_nested_parallel),
    PassRow(name_divisions, when=optimizing, unless=is_bound),
    PassRow(split_tails, when=optimizing, unless=is_bound),
    PassRow(hoist_guards, when=optimizing, unless=is_bound),
    PassRow(partition_loops, when=optimizing, unless=is_bound),
    PassRow(simplify_tiles, when=optimizing),
    PassRow(inject_prefetch),
    # vectors
    PassRow(vectorize),
    PassRow(whole_lanes),
    PassRow(unroll),
    PassRow(inject_async_copy),
    PassPhase(2),
    PassPhase(3),
)

GPU = (PassRow(inject_barriers), PassRow(split_host_device))


# ------------------------------------------------------------------------------------ running


@dataclass(frozen=True, slots=True)
class PassStep:
    """A row as one run takes it: `run(func)`, known to pass contexts and instruments as `tir.<title>`."""

    title: str
    run: Rewrite
    gives: LoweringStage | None
    info: PassInfo

    def as_pass(self) -> Pass:
        return PrimFuncPass(lambda func, _mod, _context: self.run(func), self.info)


def steps(run: Lowering = Lowering()) -> list[PassStep]:
    """The passes that a run takes, in order."""
    return [step for step in _steps_and_phases(run) if isinstance(step, PassStep)]


def _steps_and_phases(run: Lowering) -> Iterator[PassStep | PassPhase]:
    for row in PIPELINE:
        if isinstance(row, PassPhase):
            yield row
        elif row.when is None or row.when(run):
            made = pass_of(row.function)
            rewrite = made.bound(run.vector_bits, run.context)
            yield PassStep(made.title, _guarded(rewrite, row.unless), made.gives, made.info)


def _guarded(rewrite: Rewrite, unless: Callable[[n.PrimFunc], bool] | None) -> Rewrite:
    if unless is None:
        return lambda func: func if is_kernel(func) else rewrite(func)
    return lambda func: func if is_kernel(func) or unless(func) else rewrite(func)


def stages(func: n.PrimFunc, vector_bits: int = 256) -> Iterator[tuple[PassStep, n.PrimFunc]]:
    """Each pass with the function after it."""
    for step in steps(Lowering(vector_bits)):
        func = step.run(func)
        yield step, func


def lower_func(func: n.PrimFunc, vector_bits: int = 256, *, simple: bool = False) -> n.PrimFunc:
    """`func` ready for code generation. A function that is lowered already comes back as it is.

    `vector_bits`: the width of the vector registers it is meant for. No pass context is asked: see `lower_module`.
    Raises LoweringError.
    """
    if is_lowered(func):
        return func
    for step in _plain_steps(vector_bits, simple):
        func = step.run(func)
    return func


@lru_cache(maxsize=16)
def _plain_steps(vector_bits: int, simple: bool) -> tuple[PassStep, ...]:
    """The passes of a run without a context, which builds repeat thousands of times."""
    return tuple(steps(Lowering(vector_bits, simple)))


def lower_module(module: IRModule, vector_bits: int = 256, *, simple: bool = False) -> IRModule:
    """`module` with its TensorIR functions lowered: as the current pass context says, where there is one."""
    context = PassContext.active()
    if context is None:
        lowered = {g: lower_func(f, vector_bits, simple=simple) for g, f in n.prim_funcs(module).items()}
        return module.with_functions({**module.functions, **lowered})
    todo = {g: f for g, f in n.prim_funcs(module).items() if not is_lowered(f)}
    if not todo:
        return module
    run = Sequential(_passes_under(context, Lowering(vector_bits, simple, context)))
    left = run(module.with_functions(todo)).functions
    gone = todo.keys() - left.keys()
    kept = {g: f for g, f in module.items() if g not in gone}
    return module.with_functions({**kept, **left})


def _passes_under(context: PassContext, run: Lowering) -> list[Pass]:
    """The passes, and those of `tir.add_lower_pass` at their phases."""
    added: dict[int, list[Pass]] = {}
    for phase, extra in ADD_LOWER_PASS.value(context):
        added.setdefault(phase, []).append(extra)
    found: list[Pass] = []
    for step in _steps_and_phases(run):
        found += [step.as_pass()] if isinstance(step, PassStep) else added.get(step.number, [])
    return found


def gpu_stages(module: IRModule) -> Iterator[IRModule]:
    """The lowered module after each pass of `GPU`.
    A pass that the current context leaves out changes nothing."""
    context = PassContext.active() or PassContext()
    for row in GPU:
        made = pass_of(row.function).make()
        if context.enabled(made.info):
            module = made(module)
        yield module


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


def _lower_passes(value: Any) -> tuple[tuple[int, Any], ...]:
    try:
        pairs = tuple((phase, run) for phase, run in value)
    except (TypeError, ValueError):
        raise ValueError("use a list of (phase, pass)") from None
    for phase, run in pairs:
        if isinstance(phase, bool) or phase not in (0, 1, 2, 3):
            raise ValueError(f"phase {phase!r} is none of 0, 1, 2, 3")
        if not callable(run):
            raise ValueError(f"{run!r} cannot be called")
    return pairs


ADD_LOWER_PASS = register_option(
    "tir.add_lower_pass",
    "a list of (phase, pass)",
    "run more passes: phase 0 before lowering, 1 with flat buffers, 2 after vectorizing and unrolling, 3 at the end",
    _lower_passes,
    (),
)
