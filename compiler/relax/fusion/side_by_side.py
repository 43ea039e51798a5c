"""Scheduled kernels that do not need each other's results, as one kernel.

    conv(x, out):                             conv_and_conv1(x, out, out1):
        for i in parallel(13): …                  for i in parallel(26): …            # tiles of conv1
    conv1(x, out1):                   →           side by side:
        for i in parallel(26): …                      for i in parallel(13): …
        for j in parallel(13): …                      for j in parallel(13): …

The last loops of the kernels run together, and those before the last, and so on. So no thread waits for the last task
of one kernel while the next one has tasks for it, and there is one launch instead of two.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice, zip_longest
from typing import TypeVar

from compiler.dtype import parse_dtype
from compiler.errors import IRError
from compiler.ir.visit import replace
from compiler.lower.blocks.split_preproc import LAYOUT_FREE
from compiler.relax.fusion.merge import KernelCall, MergedKernel, Shapes, merged
from compiler.tir import nodes as n
from compiler.tir import ops
from compiler.tir.measure import estimate_tir_flops
from compiler.tir.nodes import ForKind, Stmt
from compiler.tir.side_by_side import side_by_side
from compiler.tir.visit import seq, walk_stmts

_LAUNCH = 1e-6  # seconds until all threads have begun and all are seen to have ended
_FLOPS = 5e10  # of a thread, roughly; only how kernels compare counts
_BYTES = 1e10
_SLOWER = 1.1  # the time of a thread that shares its core or memory: no two threads are always equally fast
_COUNTED = 4096  # tasks that are given to threads one by one; a table of more would make code large
_T = TypeVar("_T")
_ATTRS = frozenset({"tir.noalias", "tir.is_scheduled", "global_symbol", LAYOUT_FREE})


@dataclass(frozen=True, slots=True)
class Stage:
    """A statement of a kernel that threads run together: equal tasks of `seconds` each."""

    tasks: int
    seconds: float


def stages_of(func: n.PrimFunc) -> tuple[Stage, ...]:
    """The stages of a scheduled kernel, in order; none for one that cannot run beside another.

    Such a kernel takes arrays of known shapes. Its parallel loops are statements of its own body. The seconds are what
    an average core would take, by the operations and bytes.
    """
    root = func.body
    if not isinstance(root, n.BlockRealize) or root.block.iter_vars or root.block.match_buffers or root.block.init:
        return ()
    buffers = list(func.buffer_map.values())
    plain = not root.block.annotations and func.attrs.keys() <= _ATTRS and set(func.params) == func.buffer_map.keys()
    dense = not any(buffer.strides or buffer.elem_offset is not None for buffer in buffers)
    sizes = [[ops.as_int(size) for size in buffer.shape] for buffer in buffers]
    statements = _statements(func)
    if not plain or not dense or any(None in shape for shape in sizes) or not all(map(_can_be_stage, statements)):
        return ()
    try:
        work = [float(estimate_tir_flops(statement)) for statement in statements]
    except IRError:
        return ()
    held = [math.prod(map(int, shape)) * parse_dtype(b.dtype).bits / 8 for b, shape in zip(buffers, sizes)]  # type: ignore[arg-type]
    seconds = max(sum(work) / _FLOPS, sum(held) / _BYTES)
    shares = [part / sum(work) for part in work] if sum(work) else [1 / len(work)] * len(work)
    tasks = map(_tasks, statements)
    return tuple([Stage(count, seconds * share / count) for count, share in zip(tasks, shares)])


def seconds_of(kernels: Sequence[Sequence[Stage]], threads: int) -> float:
    """How long kernels take that run side by side, as far as their stages tell."""
    return sum(_together(stages, threads) for stages in _aligned(kernels))


def beside(steps: Sequence[KernelCall], results: Sequence[object], shapes: Shapes, threads: int) -> MergedKernel:
    """The kernel that runs the kernels of `steps` side by side; arguments as `merged` has them."""
    kernel = merged(steps, results, shapes, {}, {})
    statements = iter(_parts(kernel.func))
    own = [
        [
            (stage, seq(*islice(statements, len(parts))))
            for stage, parts in zip(stages_of(step.kernel), _stages(_parts(step.kernel)), strict=True)
        ]
        for step in steps
    ]
    body: list[Stmt] = []
    for parts in _aligned(own):
        ordered = [statement for _, statement in sorted(parts, key=lambda part: -part[0].seconds)]
        body.append(side_by_side(ordered, threads) if len(parts) > 1 else ordered[0])
    root = kernel.func.body
    assert isinstance(root, n.BlockRealize)
    func = kernel.func.with_body(replace(root, block=replace(root.block, body=seq(*body))))
    return MergedKernel(func, kernel.inputs, kernel.scalars)


def _aligned(kernels: Sequence[Sequence[_T]]) -> list[list[_T]]:
    """The parts that run together, in order: the last ones of all kernels, those before them, and so on."""
    backwards = zip_longest(*[kernel[::-1] for kernel in kernels])
    return [[part for part in parts if part is not None] for parts in backwards][::-1]


def _together(stages: Sequence[Stage], threads: int) -> float:
    """The seconds until all tasks are done, if each thread takes the next one, long ones first."""
    total = sum(stage.tasks for stage in stages)
    launch = _LAUNCH if total > 1 else 0.0
    if total > _COUNTED:
        if len(stages) > 1:
            return math.inf
        return launch + sum(stage.tasks * stage.seconds for stage in stages) / threads
    ends = [(0.0, 1.0)] * (min(threads, total) - 1) + [(0.0, _SLOWER if total > 1 < threads else 1.0)]
    for stage in sorted(stages, key=lambda stage: -stage.seconds):
        for _ in range(stage.tasks):
            end, slowness = ends[0]
            heapq.heapreplace(ends, (end + stage.seconds * slowness, slowness))
    return launch + max(ends)[0]


def _statements(func: n.PrimFunc) -> list[Stmt]:
    """The stages of a kernel: each parallel loop, and all that stands between two of them."""
    return [seq(*stage) for stage in _stages(_parts(func))]


def _parts(func: n.PrimFunc) -> list[Stmt]:
    assert isinstance(func.body, n.BlockRealize)
    body = func.body.block.body
    return list(body.seq) if isinstance(body, n.SeqStmt) else [body]


def _stages(statements: Sequence[Stmt]) -> list[list[Stmt]]:
    stages: list[list[Stmt]] = []
    for parallel, neighbours in groupby(statements, _is_parallel):
        run = list(neighbours)
        stages += [[loop] for loop in run] if parallel else [run]
    return stages


def _is_parallel(statement: Stmt) -> bool:
    return isinstance(statement, n.For) and statement.kind is ForKind.PARALLEL


def _can_be_stage(statement: Stmt) -> bool:
    """Whether a statement is a parallel loop of known extent, or has none inside."""
    if isinstance(statement, n.For) and _is_parallel(statement):
        return bool(ops.as_int(statement.extent)) and ops.as_int(statement.min) is not None
    return not any(map(_is_parallel, walk_stmts(statement)))


def _tasks(statement: Stmt) -> int:
    known = ops.as_int(statement.extent) if isinstance(statement, n.For) and _is_parallel(statement) else 1
    return known or 1
