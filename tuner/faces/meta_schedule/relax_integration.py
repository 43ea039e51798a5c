"""Tuning of whole models: each kernel that a build would schedule is a task, equal kernels are one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from compiler.driver.graph import build_graph
from compiler.ir.module import IRModule
from compiler.relax.nodes import Function
from compiler.runtime.vm.vm_executable import VMExecutable
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from tuner.devices.fleet import Fleet
from tuner.errors import TuningError
from tuner.faces.kernel_schedules import KERNEL_SCHEDULES, draft_of
from tuner.faces.meta_schedule.builder import Builder
from tuner.faces.meta_schedule.cost_models.cost_model import CostModel
from tuner.faces.meta_schedule.databases.database import Database
from tuner.faces.meta_schedule.measure_callback import MeasureCallback
from tuner.faces.meta_schedule.runner import Runner
from tuner.faces.meta_schedule.search_strategy import SearchStrategy
from tuner.faces.meta_schedule.spaces.space_generator import SpaceGenerator
from tuner.faces.meta_schedule.task_scheduler import TaskScheduler
from tuner.faces.meta_schedule.tune import tune_tasks
from tuner.faces.meta_schedule.tune_context import TuneContext
from tuner.kernels.model import model_kernels
from tuner.kernels.model_guard import GuardedModel, guarded

_log = logging.getLogger("tunefarm.meta_schedule")


@dataclass(frozen=True, slots=True)
class ExtractedTask:
    """A kernel of a model. `weight` says how many of the model's calls it stands for."""

    task_name: str
    mod: IRModule
    target: Target
    dispatched: tuple[IRModule, ...]
    weight: int


def extract_tasks(
    mod: IRModule | Function,
    target: Target | str,
    params: Mapping[str, Any] | None = None,
    module_equality: str = "structural",
) -> list[ExtractedTask]:
    """The kernels that a build of `mod` for `target` schedules, those with the most work first.

    `params` are values of parameters of "main": known weights may be packed. Kernels with dimensions that are only
    known at run time are left out, and so are kernels of a few operations.
    """
    del module_equality  # kernels hold no constants whose data could be ignored
    chosen = Target(target).resolved()
    tasks = []
    for kernel in model_kernels(mod, chosen, params):
        own = IRModule({"main": kernel.func.with_attr("global_symbol", "main")})
        tasks.append(ExtractedTask(kernel.name, own, chosen, (own,), kernel.weight))
    return tasks


def extracted_tasks_to_tune_contexts(
    extracted_tasks: Sequence[ExtractedTask],
    work_dir: str,
    space: SpaceGenerator | Callable[[Schedule], object] | str = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    num_threads: int | Literal["physical", "logical"] = "physical",
    seed: int | None = None,
) -> tuple[list[TuneContext], list[float]]:
    """A context for each task, and the tasks' weights. `work_dir` is accepted for compatibility with TVM."""
    del work_dir
    contexts = [
        TuneContext(
            task.mod,
            target=task.target,
            space_generator=space,
            search_strategy=strategy,
            task_name=task.task_name,
            rand_state=-1 if seed is None else seed,
            num_threads=num_threads,
        )
        for task in extracted_tasks
    ]
    return contexts, [float(task.weight) for task in extracted_tasks]


def tune_relax(
    mod: IRModule | Function, params: Mapping[str, Any] | None, target: str | Target, work_dir: str,
    max_trials_global: int, *, max_trials_per_task: int | None = None, op_names: Sequence[str] | None = None,
    num_trials_per_iter: int = 64, builder: Builder | Literal["local"] = "local",
    runner: Runner | Literal["local", "rpc"] = "local", database: Database | Literal["json", "memory"] = "json",
    cost_model: CostModel | str = "xgb",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | Literal["default"] = "default",
    task_scheduler: TaskScheduler | Literal["gradient", "round-robin"] = "gradient",
    space: SpaceGenerator | Callable[[Schedule], object] | str = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    num_tuning_cores: int | Literal["physical", "logical"] = "physical", seed: int | None = None,
    module_equality: str = "structural",
) -> Database:  # fmt: skip
    """Tune the kernels of a model for at most `max_trials_global` trials, and return the database.

    Trials go where they should save the model the most time. `op_names` chooses kernels whose name contains one of
    them. Builds inside `with database:` use the records, and so does `compile_relax`. At the end the tuned model and
    the untuned one run in turns on a device of the runner. Kernels that tuning made slower in the model are given
    back (`Database.give_back`), all of them if the model is no faster. Raises what `tune_tasks` raises, and
    TuningError when there is no kernel to tune.
    """
    tasks = extract_tasks(mod, target, params, module_equality)
    if op_names is not None:
        tasks = [task for task in tasks if any(name in task.task_name for name in op_names)]
    if not tasks:
        raise TuningError("the model has no kernel to tune", hint="shapes must be known; op_names are parts of names")
    contexts, weights = extracted_tasks_to_tune_contexts(tasks, work_dir, space, strategy, num_tuning_cores, seed)
    made_runner = Runner.create(runner) if isinstance(runner, str) else runner
    kept = tune_tasks(
        tasks=contexts, task_weights=weights, work_dir=work_dir, max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task, num_trials_per_iter=num_trials_per_iter, builder=builder,
        runner=made_runner, database=database, cost_model=cost_model, measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler, module_equality=module_equality,
    )  # fmt: skip
    with closing(made_runner.fleet()) as fleet:
        guard_database(kept, mod, Target(target).resolved(), params, fleet)
    return kept


def guard_database(
    database: Database, mod: IRModule | Function, target: Target, params: Mapping[str, Any] | None, fleet: Fleet
) -> GuardedModel | None:
    """Give back the records of kernels that are slower in the model than their untuned schedules.
    They are compared on a device of `fleet`. Returns the comparison, None where there was none."""
    with database:
        found = guarded(mod, target, params, KERNEL_SCHEDULES.find, fleet)
    for kernel in found.given_back if found else ():
        own = IRModule({"main": kernel.func.with_attr("global_symbol", "main")})
        if not database.give_back(own, target, draft_of(kernel.func, target)):
            _log.warning("a %s keeps its records of %s, which is slower", type(database).__name__, kernel.name)
    if found is not None:
        _log.info("%s", found.text())
    return found


def compile_relax(
    database: Database,
    mod: IRModule | Function,
    target: Target | str,
    params: Mapping[str, Any] | None,
    enable_warning: bool = False,
) -> VMExecutable:
    """Build a model with the best schedules of `database`; kernels without a record get a drafted one.

    `enable_warning` is accepted for compatibility with TVM.
    """
    del enable_warning
    with database:
        return build_graph(mod, Target(target).resolved(), params, exec_mode="compiled")
