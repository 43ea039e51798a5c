"""The tuner's answers to passes over graphs.

Recorded schedules, tuning, and schedules after few trials.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

from compiler.ir.module import IRModule
from compiler.relax.transform.tuning.kernel_tuner import KernelTuner
from compiler.target.target import Target
from compiler.tir import nodes as n
from tuner.faces.meta_schedule.databases.database import Database
from tuner.faces.meta_schedule.databases.json_database import JSONDatabase
from tuner.faces.meta_schedule.tune import tune_tir
from tuner.search.drafted import drafted


def _find(func: n.PrimFunc, target: Target, work_dir: str | None) -> n.PrimFunc | None:
    """The best schedule that the folder, else the database entered, has for a kernel."""
    database = Database.current() if work_dir is None else JSONDatabase(work_dir=work_dir)
    return None if database is None else _of(database, func, target)


def _of(database: Database, func: n.PrimFunc, target: Target) -> n.PrimFunc | None:
    module = IRModule({"main": func.with_attr("global_symbol", "main")})
    found = database.query_ir_module(module, target, "main")
    best = None if found is None else found["main"]
    return best if isinstance(best, n.PrimFunc) else None


def _tune(
    kernels: Mapping[str, n.PrimFunc], target: Target, work_dir: str, max_trials: int, max_trials_each: int | None
) -> None:
    module = IRModule({name: func.with_attr("global_symbol", "main") for name, func in kernels.items()})
    tune_tir(module, target, work_dir, max_trials, max_trials_per_task=max_trials_each)


def _choose(func: n.PrimFunc, target: Target, valid_count: int, benchmark: bool) -> n.PrimFunc | None:
    """Choose one of `valid_count` schedules: the draft's first, or the fastest of as many trials."""
    if not benchmark:
        made = drafted(func, target) if target.is_cpu else None
        return None if made is None else made.func
    with tempfile.TemporaryDirectory(prefix="tunefarm-few-") as folder:
        kernel = func.with_attr("global_symbol", "main")
        return _of(tune_tir(kernel, target, folder, valid_count, database="memory"), func, target)


KERNEL_TUNER = KernelTuner(_find, _tune, _choose)
