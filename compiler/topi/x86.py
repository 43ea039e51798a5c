"""Schedules for CPUs. Each takes `(outs)` or `(target, outs)` and returns a `te` schedule.

The target's vector width is asked for, never assumed; the same schedules serve `arm_cpu`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.target import Target
from compiler.te.schedule import Schedule
from compiler.te.tensor import ComputeOp
from compiler.topi import cpu
from compiler.topi.scheduling import computed, inline_elementwise, start

Build = Callable[[Schedule, Target], None]


def _schedule(name: str, build: Build, what: str) -> Callable[..., Schedule]:
    def make(*args: Any) -> Schedule:
        target, schedule = start(name, args)
        build(schedule, target)
        return schedule

    make.__name__ = name
    make.__doc__ = (
        f"{what} Takes `(outs)`, for the current target, or `(target, outs)`. Raises ScheduleError on other arguments."
    )
    return make


def _inlined(schedule: Schedule, target: Target) -> None:
    inline_elementwise(schedule)
    cpu.tensors(schedule, target)


def _rows(schedule: Schedule, target: Target) -> None:
    cpu.rows(schedule, schedule.outputs[0].output(0), target)


def _products(schedule: Schedule, target: Target) -> None:
    """Padding is computed on its own, since a question in the innermost loop costs more than a pass over the data."""
    for op in computed(schedule):
        if op.reduction is not None:
            cpu.product(schedule, op.output(0), target)
        elif schedule[op].is_output or "pad" in op.tag or _feeds_a_sum(schedule, op):
            cpu.elementwise(schedule, op.output(0), target)
        else:
            schedule[op].compute_inline()


def _feeds_a_sum(schedule: Schedule, op: ComputeOp) -> bool:
    return any(other.reduction is not None and op.output(0) in other.input_tensors for other in computed(schedule))


schedule_injective = _schedule(
    "schedule_injective", _inlined, "Elementwise operators in one pass: vectorised, chunks shared among threads."
)
schedule_reduce = _schedule(
    "schedule_reduce", _inlined, "Reductions with several vectors of partial sums, shared among threads."
)
schedule_softmax = _schedule("schedule_softmax", _rows, "Softmax and log_softmax, a row at a time.")
schedule_layer_norm = _schedule("schedule_layer_norm", _rows, "Layer and RMS normalisation, a row at a time.")
schedule_dense = _schedule("schedule_dense", _products, "Dense layers and matrix products.")
schedule_matmul = _schedule("schedule_matmul", _products, "Matrix products.")
schedule_batch_matmul = _schedule("schedule_batch_matmul", _products, "Matrix products in batches.")
schedule_conv2d_nchw = _schedule("schedule_conv2d_nchw", _products, "Convolutions, several channels at a time.")
schedule_conv2d_nhwc = _schedule("schedule_conv2d_nhwc", _products, "Convolutions, a vector of channels at a time.")
schedule_group_conv2d_nchw = _schedule("schedule_group_conv2d_nchw", _products, "Convolutions in groups.")
schedule_conv1d_ncw = _schedule("schedule_conv1d_ncw", _products, "Convolutions along one dimension.")
schedule_conv1d_nwc = _schedule("schedule_conv1d_nwc", _products, "Convolutions along one dimension.")
schedule_depthwise_conv2d_nchw = _schedule("schedule_depthwise_conv2d_nchw", _products, "Depthwise convolutions.")
schedule_depthwise_conv2d_nhwc = _schedule("schedule_depthwise_conv2d_nhwc", _products, "Depthwise convolutions.")
schedule_pool = _schedule("schedule_pool", _products, "Pooling by windows.")
schedule_adaptive_pool = _schedule("schedule_adaptive_pool", _inlined, "Global and adaptive pooling.")
