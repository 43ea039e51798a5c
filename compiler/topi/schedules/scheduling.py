"""Helpers of the schedules for every kind of target: their arguments, and how operands are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from compiler.dtype import parse_dtype
from compiler.errors import ScheduleError
from compiler.ir.visit import walk
from compiler.target.target import Target
from compiler.te.schedule.schedule import Schedule, create_schedule
from compiler.te.tensor import ComputeOp, Tensor
from compiler.te.where import here
from compiler.tir import ops
from compiler.tir.nodes import IterVar, PrimExpr, ProducerLoad, Var


def arguments(what: str, given: Sequence[Any]) -> tuple[Target, list[Tensor]]:
    """Return `(outs)` or `(target, outs)` as a target and a list of tensors.

    The target is the current one, or llvm, unless given. Raises ScheduleError when `outs` is not a tensor or some.
    """
    if len(given) not in (1, 2):
        raise ScheduleError(f"{what} takes (outs) or (target, outs), got {len(given)} arguments" + here())
    target = Target(given[0]) if len(given) == 2 else Target.current_or_default()
    outs = list(given[-1]) if isinstance(given[-1], tuple | list) else [given[-1]]
    if not outs or not all(isinstance(out, Tensor) for out in outs):
        raise ScheduleError(f"{what} takes a tensor or a list of tensors, got {given[-1]!r}" + here())
    return target.resolved(), outs


def lanes(target: Target, dtype: str) -> int:
    """How many elements of `dtype` one vector register holds."""
    return max(1, target.vector_bits // max(8, parse_dtype(dtype).bits))


def extent(axes: Sequence[IterVar]) -> int | None:
    """How many iterations `axes` have together; None when that is not known."""
    sizes = [ops.as_int(axis.dom.extent) if axis.dom is not None else None for axis in axes]
    known = [size for size in sizes if size is not None]
    return math.prod(known) if len(known) == len(sizes) else None


def computed(schedule: Schedule) -> list[ComputeOp]:
    """The operations that are loops, producers before consumers."""
    return [stage.op for stage in schedule.stages if isinstance(stage.op, ComputeOp)]


def inline_elementwise(schedule: Schedule) -> None:
    """Compute what is no reduction and no output where it is read."""
    for op in computed(schedule):
        if op.reduction is None and not schedule[op].is_output:
            schedule[op].compute_inline()


def start(what: str, given: Sequence[Any]) -> tuple[Target, Schedule]:
    """The target and a schedule of the tensors given."""
    target, outs = arguments(what, given)
    return target, create_schedule([out.op for out in outs])


Build = Callable[[Schedule, Target], None]


def named(name: str, build: Build, what: str) -> Callable[..., Schedule]:
    """Return the schedule function `name` of a kind of target.
    `build` schedules for it, `what` begins the docstring."""

    def make(*args: Any) -> Schedule:
        target, schedule = start(name, args)
        build(schedule, target)
        return schedule

    make.__name__ = name
    make.__doc__ = (
        f"{what} Takes `(outs)`, for the current target, or `(target, outs)`. Raises ScheduleError on other arguments."
    )
    return make


def reduces_along_memory(op: ComputeOp) -> bool:
    """Return whether the innermost reduction axis alone moves along the last dimension.
    That is the last dimension of all that it moves along, so that neighbours in memory belong to one sum. (In a
    convolution, neighbouring sums share them.)"""
    reduction = op.reduction
    assert reduction is not None
    innermost, results = op.reduce_axis[-1].var, [axis.var for axis in op.axis]
    found = [
        mentions(load.indices[-1:], innermost) and not any(mentions(load.indices[-1:], var) for var in results)
        for source in reduction.source
        for load in walk(source)
        if isinstance(load, ProducerLoad) and mentions(load.indices, innermost)
    ]
    return bool(found) and all(found)


def reduces_rows(op: ComputeOp) -> bool:
    """Whether `op` sums the last dimensions of what it reads: no index before them moves with the sum."""
    reduction = op.reduction
    assert reduction is not None
    summed = [axis.var for axis in op.reduce_axis]
    kept = len(op.axis)
    loads = [load for source in reduction.source for load in walk(source) if isinstance(load, ProducerLoad)]
    return not any(mentions(load.indices[:kept], var) for load in loads for var in summed)


def mentions(indices: Sequence[PrimExpr], var: Var) -> bool:
    """Whether `var` stands in one of `indices`."""
    return any(node is var for index in indices for node in walk(index))
