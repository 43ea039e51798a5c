"""Tuning of programs of Relay: they become relax graphs first, whose kernels are the tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from compiler.faces.relay.building import GraphExecutorFactoryModule, build
from compiler.ir.module import IRModule
from compiler.ir.transform.context import PassContext
from compiler.runtime.vm.vm_executable import VMExecutable
from compiler.schedule.core.schedule import Schedule
from compiler.target.target import Target
from tuner.faces.common.graphs import graph_of
from tuner.faces.meta_schedule import relax_integration as relax
from tuner.faces.meta_schedule.builder import Builder
from tuner.faces.meta_schedule.cost_models.cost_model import CostModel
from tuner.faces.meta_schedule.databases.database import Database
from tuner.faces.meta_schedule.measure_callback import MeasureCallback
from tuner.faces.meta_schedule.runner import Runner
from tuner.faces.meta_schedule.search_strategy import SearchStrategy
from tuner.faces.meta_schedule.spaces.space_generator import SpaceGenerator
from tuner.faces.meta_schedule.task_scheduler import TaskScheduler


def extract_tasks(
    mod: IRModule,
    target: Target | str,
    params: Mapping[str, Any] | None,
    *,
    opt_level: int = 3,
    pass_config: Mapping[str, Any] | None = None,
    executor: Any = None,
    runtime: Any = None,
    module_equality: str = "structural",
    disabled_pass: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
) -> list[relax.ExtractedTask]:
    """Return the kernels that `compile_relay` schedules, those with the most work first.

    `params` are weights of "main" by name. The options of Relay's passes, `executor` and `runtime` are ignored;
    they are accepted for compatibility with TVM. Raises IRError.
    """
    del opt_level, pass_config, executor, runtime, disabled_pass, instruments
    return relax.extract_tasks(graph_of(mod, params), target, module_equality=module_equality)


def tune_relay(
    mod: IRModule,
    params: Mapping[str, Any],
    target: str | Target,
    work_dir: str,
    max_trials_global: int,
    *,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Builder | Literal["local"] = "local",
    runner: Runner | Literal["local", "rpc"] = "local",
    database: Database | Literal["json", "memory"] = "json",
    cost_model: CostModel | str = "xgb",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | Literal["default"] = "default",
    task_scheduler: TaskScheduler | Literal["gradient", "round-robin"] = "gradient",
    space: SpaceGenerator | Callable[[Schedule], object] | str = "post-order-apply",
    strategy: SearchStrategy | str = "evolutionary",
    seed: int | None = None,
    module_equality: str = "structural",
    num_tuning_cores: int | Literal["physical", "logical"] = "physical",
    opt_level: int = 3,
    disabled_pass: Sequence[str] | None = None,
    instruments: Sequence[Any] | None = None,
) -> Database:
    """Tune the kernels of a program of Relay, and return the database: `tune_relax` of its graph.

    `opt_level`, `disabled_pass` and `instruments` are ignored; they are accepted for compatibility with TVM.
    Raises IRError, and what `tune_relax` raises.
    """
    del opt_level, disabled_pass, instruments
    return relax.tune_relax(
        graph_of(mod, params),
        None,
        target,
        work_dir,
        max_trials_global,
        max_trials_per_task=max_trials_per_task,
        num_trials_per_iter=num_trials_per_iter,
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler,
        space=space,
        strategy=strategy,
        num_tuning_cores=num_tuning_cores,
        seed=seed,
        module_equality=module_equality,
    )


def compile_relay(
    database: Database,
    mod: IRModule,
    target: Target | str,
    params: Mapping[str, Any] | None,
    *,
    backend: Literal["graph", "vm"] = "graph",
    opt_level: int = 3,
    pass_config: Mapping[str, Any] | None = None,
    executor: Any = None,
    disabled_pass: Sequence[str] | None = None,
    runtime: Any = None,
    instruments: Sequence[Any] | None = None,
) -> GraphExecutorFactoryModule | VMExecutable:
    """Build a program of Relay with the best schedules of `database`.

    Returns what `graph_executor.GraphModule` takes, or for "vm" what a `VirtualMachine` takes. Kernels without a
    record get a drafted schedule. `executor` and `runtime` are ignored; they are accepted for compatibility with
    TVM. Raises IRError, LoweringError, CodegenError.
    """
    context = PassContext(opt_level=opt_level, disabled_pass=disabled_pass, instruments=instruments, config=pass_config)
    with Target(target), database, context:
        made = build(mod, target, executor=executor, runtime=runtime, params=params)
    return made if backend == "graph" else made.executable
