"""Schedules for GPUs."""

from __future__ import annotations

from typing import Any

from compiler.te.operation import thread_axis
from compiler.te.schedule import Schedule
from compiler.topi.scheduling import computed, inline_elementwise, start

THREADS = 1024  # of one block, unless the target's max_num_threads says otherwise


def schedule_injective(*args: Any) -> Schedule:
    """Elementwise operators in one pass, a thread an element: loops are bound to blocks and threads.

    Takes `(outs)`, for the current target, or `(target, outs)`. Raises ScheduleError on other arguments.
    """
    target, schedule = start("schedule_injective", args)
    inline_elementwise(schedule)
    threads = int(target.get("max_num_threads", THREADS))
    for op in computed(schedule):
        stage = schedule[op]
        block, thread = stage.split(stage.fuse(*op.axis), factor=threads)
        stage.bind(block, thread_axis("blockIdx.x"))
        stage.bind(thread, thread_axis("threadIdx.x"))
    return schedule


schedule_elemwise = schedule_broadcast = schedule_injective
