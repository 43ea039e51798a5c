"""The tuner's schedules for builds of graphs: those of records, and drafts for other kernels."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from compiler.driver.kernel_schedules import KernelSchedules
from compiler.errors import ScheduleError
from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import apply_trace
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir import nodes as n
from compiler.tir.text.print_func import workload_key
from tuner.faces.auto_scheduler.graph_tasks import recorded_schedule
from tuner.faces.meta_schedule.databases.database import Database
from tuner.search.draft_cache import DraftCache, default_folder
from tuner.search.drafted import drafted
from tuner.search.drafting import drafted_kernels


def _find(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    """The best schedule in the database or the auto_scheduler records of the build's `with` block."""
    database = Database.current()
    if database is None:
        return recorded_schedule(func, target)
    module = IRModule({"main": func.with_attr("global_symbol", "main")})
    found = database.query_ir_module(module, target, "main")
    best = None if found is None else found["main"]
    return best.without_attr("global_symbol") if isinstance(best, n.PrimFunc) else None


_KEPT = 1024
_picked: dict[tuple[str, str], str | None] = {}
"""Traces of drafts by workload and target: a kernel that was built before is not drafted again."""
_made: dict[tuple[int, str], tuple[n.PrimFunc, n.PrimFunc]] = {}
"""Kernels that a build in progress has prepared, by id and target, with what their drafts make of them."""


def _prepare(funcs: Sequence[n.PrimFunc], target: Target) -> None:
    """Have drafts of all these kernels at hand."""
    if not target.is_cpu:
        return
    chosen, cache = _with_cores(target), DraftCache(default_folder())
    missing: dict[str, n.PrimFunc] = {}
    for func in funcs:
        key = workload_key(func)
        if (key, str(chosen)) not in _picked:
            kept = cache.find(key, str(chosen))
            if kept is None:
                missing.setdefault(key, func)
            else:
                _keep(key, chosen, *kept)
    _made.clear()
    for (key, func), draft in zip(missing.items(), drafted_kernels(list(missing.values()), chosen)):
        trace = None if draft is None else draft.trace
        if draft is not None:
            _made[id(func), str(chosen)] = func, draft.func
        _keep(key, chosen, trace)
        cache.keep(key, str(chosen), trace)


def _pick(func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    """A draft for as many cores as the target has, or this process where it does not say."""
    if not target.is_cpu:
        return None
    chosen = _with_cores(target)
    prepared = _made.pop((id(func), str(chosen)), None)
    if prepared is not None:
        return prepared[1]
    key = workload_key(func), str(chosen)
    if key in _picked:
        trace = _picked[key]
        if trace is None:
            return None
        with suppress(ScheduleError):  # blocks of an equal kernel may have other names
            return apply_trace(func, Trace.from_json(trace)).func
    made = drafted(func, chosen)
    _keep(key[0], chosen, None if made is None else made.trace.to_json())
    return None if made is None else made.func


def draft_of(func: n.PrimFunc, target: Target) -> Trace | None:
    """The trace by which an untuned build schedules a kernel; None where it picks none."""
    if not target.is_cpu:
        return None
    chosen = _with_cores(target)
    if (workload_key(func), str(chosen)) not in _picked:
        _pick(func, target)
    trace = _picked[workload_key(func), str(chosen)]
    return None if trace is None else Trace.from_json(trace)


def _keep(key: str, target: Target, trace: str | None) -> None:
    while len(_picked) >= _KEPT:
        del _picked[next(iter(_picked))]
    _picked[key, str(target)] = trace


def _with_cores(target: Target) -> Target:
    return Target({**target.export(), "num-cores": target.num_cores or len(os.sched_getaffinity(0))})


KERNEL_SCHEDULES = KernelSchedules(_find, _pick, _prepare)
