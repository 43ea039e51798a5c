"""Schedules for CPUs. Each takes `(outs)` or `(target, outs)` and returns a `te` schedule.

The target's vector width is asked for, never assumed; the same schedules serve `arm_cpu`.
"""

from __future__ import annotations

from compiler.target.target import Target
from compiler.te.schedule.schedule import Schedule
from compiler.te.tensor import ComputeOp
from compiler.topi.schedules import cpu
from compiler.topi.schedules.scheduling import computed, inline_elementwise, named


def _inlined(schedule: Schedule, target: Target) -> None:
    inline_elementwise(schedule)
    cpu.tensors(schedule, target)


def _rows(schedule: Schedule, target: Target) -> None:
    cpu.rows(schedule, schedule.outputs[0].output(0), target)


def _products(schedule: Schedule, target: Target) -> None:
    """Compute padding on its own.
    A condition in the innermost loop would cost more than a pass over the data."""
    for op in computed(schedule):
        if op.reduction is not None:
            cpu.product(schedule, op.output(0), target)
        elif schedule[op].is_output or "pad" in op.tag or _feeds_a_sum(schedule, op):
            cpu.elementwise(schedule, op.output(0), target)
        else:
            schedule[op].compute_inline()


def _feeds_a_sum(schedule: Schedule, op: ComputeOp) -> bool:
    return any(other.reduction is not None and op.output(0) in other.input_tensors for other in computed(schedule))


schedule_injective = named(
    "schedule_injective", _inlined, "Elementwise operators in one pass: vectorised, chunks shared among threads."
)
schedule_reduce = named(
    "schedule_reduce", _inlined, "Reductions with several vectors of partial sums, shared among threads."
)
schedule_softmax = named("schedule_softmax", _rows, "Softmax and log_softmax, a row at a time.")
schedule_layer_norm = named("schedule_layer_norm", _rows, "Layer and RMS normalisation, a row at a time.")
schedule_dense = named("schedule_dense", _products, "Dense layers and matrix products.")
schedule_matmul = named("schedule_matmul", _products, "Matrix products.")
schedule_batch_matmul = named("schedule_batch_matmul", _products, "Matrix products in batches.")
schedule_conv2d_nchw = named("schedule_conv2d_nchw", _products, "Convolutions, several channels at a time.")
schedule_conv2d_nhwc = named("schedule_conv2d_nhwc", _products, "Convolutions, a vector of channels at a time.")
schedule_group_conv2d_nchw = named("schedule_group_conv2d_nchw", _products, "Convolutions in groups.")
schedule_conv1d_ncw = named("schedule_conv1d_ncw", _products, "Convolutions along one dimension.")
schedule_conv1d_nwc = named("schedule_conv1d_nwc", _products, "Convolutions along one dimension.")
schedule_depthwise_conv2d_nchw = named("schedule_depthwise_conv2d_nchw", _products, "Depthwise convolutions.")
schedule_depthwise_conv2d_nhwc = named("schedule_depthwise_conv2d_nhwc", _products, "Depthwise convolutions.")
schedule_pool = named("schedule_pool", _products, "Pooling by windows.")
schedule_adaptive_pool = named("schedule_adaptive_pool", _inlined, "Global and adaptive pooling.")
