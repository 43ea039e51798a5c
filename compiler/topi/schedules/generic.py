"""Schedules by target: `x86`'s for any CPU, `cuda`'s where there is one, else the loops as written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from compiler.target.generic_func import generic_func
from compiler.te.schedule.schedule import Schedule
from compiler.topi.schedules import cuda, x86
from compiler.topi.schedules.scheduling import arguments, inline_elementwise, start


def default_schedule(outs: Any, auto_inline: bool = False) -> Schedule:
    """Schedule the loops as written.
    With `auto_inline`, elementwise intermediate results are computed where they are read."""
    _, schedule = start("default_schedule", [outs])
    if auto_inline:
        inline_elementwise(schedule)
    return schedule


def schedule_extern(*args: Any) -> Schedule:
    """The loops as written around operations that are written by hand. Takes `(outs)` or `(target, outs)`."""
    return start("schedule_extern", args)[1]


def _generic(name: str) -> Callable[..., Schedule]:
    def as_written(outs: Any) -> Schedule:
        return default_schedule(outs)

    as_written.__name__ = name
    chosen = generic_func(as_written)
    chosen.register("cpu", getattr(x86, name))
    if hasattr(cuda, name):
        chosen.register(["cuda", "gpu"], getattr(cuda, name))

    def make(*args: Any) -> Schedule:
        target, outs = arguments(name, args)
        with target:
            result: Schedule = chosen(outs)
        return result

    make.__name__ = name
    make.__doc__ = (
        f"`{name}` of the current target's kind. Takes `(outs)` or `(target, outs)`. Raises ScheduleError on other "
        "arguments."
    )
    return make


schedule_injective = _generic("schedule_injective")
schedule_elemwise = schedule_broadcast = schedule_injective
schedule_reduce = _generic("schedule_reduce")
schedule_softmax = _generic("schedule_softmax")
schedule_layer_norm = _generic("schedule_layer_norm")
schedule_dense = _generic("schedule_dense")
schedule_matmul = _generic("schedule_matmul")
schedule_batch_matmul = _generic("schedule_batch_matmul")
schedule_conv2d_nchw = _generic("schedule_conv2d_nchw")
schedule_conv2d_nhwc = _generic("schedule_conv2d_nhwc")
schedule_group_conv2d_nchw = _generic("schedule_group_conv2d_nchw")
schedule_conv1d_ncw = _generic("schedule_conv1d_ncw")
schedule_conv1d_nwc = _generic("schedule_conv1d_nwc")
schedule_depthwise_conv2d_nchw = _generic("schedule_depthwise_conv2d_nchw")
schedule_depthwise_conv2d_nhwc = _generic("schedule_depthwise_conv2d_nhwc")
schedule_pool = _generic("schedule_pool")
schedule_adaptive_pool = _generic("schedule_adaptive_pool")
