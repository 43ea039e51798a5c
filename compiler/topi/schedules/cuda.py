"""Schedules for NVIDIA GPUs. Each takes `(outs)` or `(target, outs)` and returns a `te` schedule.

Every loop that computes is bound to blocks and threads. Reductions along memory are shared among the threads of a
block; matrix products have tiles in shared memory and registers. What is computed of a reduction's results, and does
not fit its threads, is a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.target.target import Target
from compiler.te.schedule.schedule import Schedule
from compiler.te.tensor import ComputeOp
from compiler.topi.schedules import gpu, tensor_core
from compiler.topi.schedules.scheduling import Build, computed, inline_elementwise, named


def _schedule(name: str, build: Build, what: str) -> Callable[..., Schedule]:
    """`named`, with what is elementwise computed where it is read."""

    def inlined(schedule: Schedule, target: Target) -> None:
        inline_elementwise(schedule)
        build(schedule, target)

    return named(name, inlined, what)


def _kernels(schedule: Schedule, target: Target) -> None:
    """A kernel for each reduction, and for each output that is none."""
    for op in computed(schedule):
        if op.reduction is not None:
            gpu.reduction(schedule, op, target)
        elif schedule[op].is_output:
            gpu.elementwise(schedule, op, target)


def _rows(schedule: Schedule, target: Target) -> None:
    if not gpu.rows(schedule, schedule.outputs[0].output(0), target):
        _kernels(schedule, target)


def _products(schedule: Schedule, target: Target) -> None:
    """Matrix products by tiles; other sums a thread each, whose neighbours read neighbours."""
    found = [op for op in computed(schedule) if op.reduction is not None]
    outputs = [op for op in computed(schedule) if schedule[op].is_output]
    if len(found) == len(outputs) == 1 and gpu.is_product(found[0]) and _same_elements(found[0], outputs[0]):
        gpu.product(schedule, found[0], outputs[0], target)
    else:
        _kernels(schedule, target)


def _windows(schedule: Schedule, target: Target) -> None:
    """Sums over windows: a thread each."""
    for op in computed(schedule):
        if op.reduction is not None and op.axis:
            gpu.each_result(schedule, op, target)
        elif op.reduction is not None:
            gpu.reduction(schedule, op, target)
        elif schedule[op].is_output:
            gpu.elementwise(schedule, op, target)


def _same_elements(op: ComputeOp, out: ComputeOp) -> bool:
    """Whether `out` is `op`, or has an element for each of its elements."""
    sizes = [[axis.dom.extent for axis in x.axis if axis.dom is not None] for x in (op, out)]
    return op is out or (len(sizes[0]) == len(sizes[1]) and all(str(a) == str(b) for a, b in zip(*sizes)))


tensor_core_dense = tensor_core.dense
schedule_injective = _schedule(
    "schedule_injective", _kernels, "Elementwise operators in one pass, a thread an element."
)
schedule_elemwise = schedule_broadcast = schedule_injective
schedule_reduce = _schedule("schedule_reduce", _kernels, "Reductions, by blocks where they run along memory.")
schedule_softmax = _schedule("schedule_softmax", _rows, "Softmax and log_softmax, a block a row.")
schedule_layer_norm = _schedule("schedule_layer_norm", _rows, "Layer and RMS normalisation, a block a row.")
schedule_dense = _schedule("schedule_dense", _products, "Dense layers and matrix products, by tiles.")
schedule_matmul = _schedule("schedule_matmul", _products, "Matrix products, by tiles.")
schedule_batch_matmul = _schedule("schedule_batch_matmul", _products, "Matrix products in batches, by tiles.")
schedule_conv2d_nchw = _schedule("schedule_conv2d_nchw", _windows, "Convolutions, a thread a result.")
schedule_conv2d_nhwc = _schedule("schedule_conv2d_nhwc", _windows, "Convolutions, a thread a result.")
schedule_group_conv2d_nchw = _schedule("schedule_group_conv2d_nchw", _windows, "Convolutions in groups.")
schedule_conv1d_ncw = _schedule("schedule_conv1d_ncw", _windows, "Convolutions along one dimension.")
schedule_conv1d_nwc = _schedule("schedule_conv1d_nwc", _windows, "Convolutions along one dimension.")
schedule_depthwise_conv2d_nchw = _schedule("schedule_depthwise_conv2d_nchw", _windows, "Depthwise convolutions.")
schedule_depthwise_conv2d_nhwc = _schedule("schedule_depthwise_conv2d_nhwc", _windows, "Depthwise convolutions.")
schedule_pool = _schedule("schedule_pool", _windows, "Pooling by windows.")
schedule_adaptive_pool = _schedule("schedule_adaptive_pool", _kernels, "Global and adaptive pooling.")
