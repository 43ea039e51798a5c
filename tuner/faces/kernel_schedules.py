"""What the tuner tells builds of graphs: schedules that records hold, and drafts for kernels without any."""

from __future__ import annotations

import os
from contextlib import suppress

from compiler.driver.kernel_schedules import KernelSchedules
from compiler.errors import ScheduleError
from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.text.print_func import workload_key
from tuner.faces.meta_schedule.database import Database
from tuner.search.drafted import drafted


def _find(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    """The best schedule in the database of the `with` block that the build is in."""
    database = Database.current()
    if database is None:
        return None
    module = IRModule({"main": func.with_attr("global_symbol", "main")})
    found = database.query_ir_module(module, target, "main")
    best = None if found is None else found["main"]
    return best.without_attr("global_symbol") if isinstance(best, n.PrimFunc) else None


_KEPT = 1024
_picked: dict[tuple[str, str], str | None] = {}
"""Traces of drafts by workload and target: a kernel that was built before is not drafted again."""


def _pick(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    """A draft for as many cores as the target has, or this process where it does not say."""
    if not target.is_cpu:
        return None
    chosen = Target({**target.export(), "num-cores": target.num_cores or len(os.sched_getaffinity(0))})
    key = workload_key(func), str(chosen)
    if key in _picked:
        trace = _picked[key]
        if trace is None:
            return None
        with suppress(ScheduleError):  # blocks of an equal kernel may have other names
            return apply_trace(func, Trace.from_json(trace)).func
    made = drafted(func, chosen)
    while len(_picked) >= _KEPT:
        del _picked[next(iter(_picked))]
    _picked[key] = None if made is None else made.trace.to_json()
    return None if made is None else made.func


KERNEL_SCHEDULES = KernelSchedules(_find, _pick)
