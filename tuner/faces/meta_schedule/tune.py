"""Tuning by meta_schedule's names: contexts in, a database with the results out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from compiler.ir.module import IRModule
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.errors import TuningError
from tuner.faces.meta_schedule.builder import Builder
from tuner.faces.meta_schedule.cost_models.cost_model import CostModel
from tuner.faces.meta_schedule.databases.database import Database
from tuner.faces.meta_schedule.measure_callback import MeasureCallback
from tuner.faces.meta_schedule.runner import Runner
from tuner.faces.meta_schedule.search_strategy import SearchStrategy
from tuner.faces.meta_schedule.spaces.space_generator import SpaceGenerator
from tuner.faces.meta_schedule.task_scheduler import TaskScheduler
from tuner.faces.meta_schedule.tasks_run import run_tasks
from tuner.faces.meta_schedule.tune_context import TuneContext


def tune_tir(
    mod: IRModule | PrimFunc, target: str | Target, work_dir: str, max_trials_global: int, *,
    max_trials_per_task: int | None = None, num_trials_per_iter: int = 64,
    builder: Builder | Literal["local"] = "local", runner: Runner | Literal["local", "rpc"] = "local",
    database: Database | Literal["json", "memory"] = "json", cost_model: CostModel | str = "xgb",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | Literal["default"] = "default",
    task_scheduler: TaskScheduler | Literal["gradient", "round-robin"] = "gradient",
    space: SpaceGenerator | Callable[[Schedule], object] | str = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    num_tuning_cores: int | Literal["physical", "logical"] = "physical", seed: int | None = None,
    module_equality: str = "structural", special_space: dict[str, SpaceGenerator] | None = None,
) -> Database:  # fmt: skip
    """Tune every function of `mod`, a task each, and return the database.

    There are at most `max_trials_global` trials. `special_space` gives functions spaces of their own, by name. Raises
    TuningError when an option is unknown, ScheduleError when a space does not apply, NoDevicesError when no device
    came.
    """
    functions = {"main": mod} if isinstance(mod, PrimFunc) else _functions(mod)
    contexts = [
        TuneContext(
            IRModule({"main": func}),
            target=target,
            space_generator=(special_space or {}).get(name, space),
            search_strategy=strategy,
            task_name=name,
            rand_state=-1 if seed is None else seed,
            num_threads=num_tuning_cores,
        )
        for name, func in functions.items()
    ]
    return tune_tasks(
        tasks=contexts, task_weights=[1.0] * len(contexts), work_dir=work_dir, max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task, num_trials_per_iter=num_trials_per_iter, builder=builder,
        runner=runner, database=database, cost_model=cost_model, measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler, module_equality=module_equality,
    )  # fmt: skip


def _functions(mod: IRModule) -> dict[str, PrimFunc]:
    found = {var.name_hint: func for var, func in mod.functions_items() if isinstance(func, PrimFunc)}
    if not found:
        raise TuningError("the module has no function to tune")
    return found


def tune_tasks(
    *, tasks: Sequence[TuneContext], task_weights: Sequence[float], work_dir: str, max_trials_global: int,
    max_trials_per_task: int | None = None, num_trials_per_iter: int = 64,
    builder: Builder | Literal["local"] = "local", runner: Runner | Literal["local", "rpc"] = "local",
    database: Database | Literal["json", "memory"] = "json", cost_model: CostModel | str = "xgb",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | Literal["default"] = "default",
    task_scheduler: TaskScheduler | Literal["gradient", "round-robin"] = "gradient",
    module_equality: str = "structural",
) -> Database:  # fmt: skip
    """Tune `tasks`, whose costs count by `task_weights`, and return the database with what was measured.

    There are no rounds here, so `num_trials_per_iter` is ignored. `cost_model`: "xgb" and "mlp" begin each search
    with the model that comes with tunefarm; "random" only with the spaces' drafts. A model or a task scheduler of
    your own is asked instead.
    """
    scheduler = TaskScheduler.create(task_scheduler) if isinstance(task_scheduler, str) else task_scheduler
    return run_tasks(
        scheduler, tasks, task_weights, work_dir=work_dir, max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task, num_trials_per_iter=num_trials_per_iter, builder=builder,
        runner=runner, database=database, cost_model=cost_model, measure_callbacks=measure_callbacks,
        module_equality=module_equality,
    )  # fmt: skip
