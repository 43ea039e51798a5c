"""Tuning by meta_schedule's names: contexts in, a database with the results out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import ReplayedLater
from compiler.faces.tir_schedule.schedule import Schedule as FaceSchedule
from compiler.ir.module import IRModule
from compiler.schedule.core.effects import remembered
from compiler.schedule.core.schedule import Schedule
from compiler.schedule.core.trace import Trace
from compiler.target.target import Target
from compiler.tir.nodes import PrimFunc
from tuner.engine.engine import tune as run_engine
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch, begun_with_draft, guide_for, sketch_task
from tuner.engine.progress import TrialDone
from tuner.errors import TuningError
from tuner.faces.common.trials import SearchTrials
from tuner.faces.meta_schedule import json_database, sql_database
from tuner.faces.meta_schedule.builder import Builder, BuilderResult
from tuner.faces.meta_schedule.cost_model import AskedGuide, CostModel
from tuner.faces.meta_schedule.database import Database
from tuner.faces.meta_schedule.measure_callback import MeasureCallback, UpdateCostModel
from tuner.faces.meta_schedule.record import ArgInfo, MeasureCandidate
from tuner.faces.meta_schedule.runner import Runner, RunnerResult
from tuner.faces.meta_schedule.search_strategy import SearchStrategy
from tuner.faces.meta_schedule.space_generator import SpaceGenerator
from tuner.faces.meta_schedule.task_scheduler import PyTaskScheduler, TaskScheduler
from tuner.faces.meta_schedule.tune_context import TuneContext
from tuner.model.guide import Guide
from tuner.search.base import Proposal
from tuner.search.population import is_costly
from tuner.space.sketch import Sketch
from tuner.task import TuningTask

_COST_MODELS = ("xgb", "mlp", "random")
_UNTRAINED = "random"


def tune_tir(
    mod: IRModule | PrimFunc,
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
    num_tuning_cores: int | Literal["physical", "logical"] = "physical",
    seed: int | None = None,
    module_equality: str = "structural",
    special_space: dict[str, SpaceGenerator] | None = None,
) -> Database:
    """Tune every function of `mod` (a task each) for at most `max_trials_global` trials and return the database.

    `special_space` gives functions spaces of their own, by name. Raises TuningError when an option is unknown,
    ScheduleError when a space does not apply, NoDevicesError when no device came.
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
        tasks=contexts,
        task_weights=[1.0] * len(contexts),
        work_dir=work_dir,
        max_trials_global=max_trials_global,
        max_trials_per_task=max_trials_per_task,
        num_trials_per_iter=num_trials_per_iter,
        builder=builder,
        runner=runner,
        database=database,
        cost_model=cost_model,
        measure_callbacks=measure_callbacks,
        task_scheduler=task_scheduler,
        module_equality=module_equality,
    )


def _functions(mod: IRModule) -> dict[str, PrimFunc]:
    found = {var.name_hint: func for var, func in mod.functions_items() if isinstance(func, PrimFunc)}
    if not found:
        raise TuningError("the module has no function to tune")
    return found


def tune_tasks(
    *,
    tasks: Sequence[TuneContext],
    task_weights: Sequence[float],
    work_dir: str,
    max_trials_global: int,
    max_trials_per_task: int | None = None,
    num_trials_per_iter: int = 64,
    builder: Builder | Literal["local"] = "local",
    runner: Runner | Literal["local", "rpc"] = "local",
    database: Database | Literal["json", "memory"] = "json",
    cost_model: CostModel | str = "xgb",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | Literal["default"] = "default",
    task_scheduler: TaskScheduler | Literal["gradient", "round-robin"] = "gradient",
    module_equality: str = "structural",
) -> Database:
    """Tune `tasks`, whose costs count by `task_weights`, and return the database with what was measured.

    There are no rounds here, so `num_trials_per_iter` is kept for its name. `cost_model`: with "xgb" and "mlp" the
    model that comes with tunefarm says where each search begins, with "random" only what the spaces draft does. A model
    or a task scheduler of your own is asked instead.
    """
    if len(tasks) != len(task_weights) or not tasks:
        raise TuningError(f"{len(tasks)} tasks have {len(task_weights)} weights", hint="give each task one")
    told = TaskScheduler.create(task_scheduler) if isinstance(task_scheduler, str) else task_scheduler
    if isinstance(cost_model, str) and cost_model not in _COST_MODELS:
        raise TuningError(f"no cost model {cost_model!r}", hint=f"there are {', '.join(_COST_MODELS)}")
    if max_trials_global < 1 or num_trials_per_iter < 1:
        raise TuningError(f"trials are at least 1, got {max_trials_global}")
    made_builder = Builder.create(builder) if isinstance(builder, str) else builder
    made_runner = Runner.create(runner) if isinstance(runner, str) else runner
    kept = _database(database, work_dir, module_equality)
    for context in tasks:
        assert context.mod is not None
        kept.commit_workload(context.mod)
    callbacks = _callbacks(measure_callbacks)
    told.cost_model = cost_model if isinstance(cost_model, CostModel) else None
    if told.cost_model is not None and isinstance(measure_callbacks, str):
        callbacks.append(UpdateCostModel())
    told.tasks, told.database, told.callbacks = list(tasks), kept, callbacks
    options = _options(tasks, made_builder, made_runner, max_trials_global, max_trials_per_task, told)
    chooser = told.choose if isinstance(told, PyTaskScheduler) else None
    searches = [_search(context, weight, cost_model) for context, weight in zip(tasks, task_weights)]
    with ExitStack() as closing:
        fleet = made_runner.fleet()
        closing.callback(fleet.close)
        builders = made_builder.engine_builder()
        closing.callback(builders.close)
        watcher = SearchTrials(partial(_tell, told))
        run_engine(searches, fleet=fleet, builder=builders, options=options, watcher=watcher, chooser=chooser)
        watcher.tell_finals()
    return kept


TaskScheduler.RUNS["tasks"] = tune_tasks


def _database(given: Database | str, work_dir: str, module_equality: str) -> Database:
    if isinstance(given, Database):
        return given
    match given:
        case "json":
            return json_database.JSONDatabase(work_dir=work_dir, module_equality=module_equality)  # type: ignore[arg-type]
        case "sql":
            Path(work_dir).mkdir(parents=True, exist_ok=True)
            return sql_database.SQLDatabase(str(Path(work_dir, "tunefarm.db")), verified=True)
    return Database.create(given, module_equality=module_equality)


def _callbacks(given: Sequence[MeasureCallback] | MeasureCallback | str) -> list[MeasureCallback]:
    if isinstance(given, str):
        return MeasureCallback.create(given)
    return [given] if isinstance(given, MeasureCallback) else list(given)


def _options(
    tasks: Sequence[TuneContext],
    builder: Builder,
    runner: Runner,
    total: int,
    per_task: int | None,
    scheduler: TaskScheduler,
) -> RunOptions:
    options = RunOptions(
        trials=min(total, per_task or total),
        total_trials=total,
        **scheduler.engine_options(),
        seed=max(0, tasks[0].rand_state),
        builders=getattr(builder, "max_workers", 2),
        build_timeout_s=builder.timeout_s,
        run_timeout_s=runner.timeout_sec,
    )
    asked = runner.asked
    if asked is None:  # the engine's own: several short samples, more where they scatter, none of what is clearly slow
        return options
    return replace(options, samples=asked.repeat, max_samples=asked.repeat, sample_ms=asked.min_repeat_ms)


def _search(context: TuneContext, weight: float, cost_model: CostModel | str) -> TaskSearch:
    with remembered():
        sketches = context.sketches()
        if isinstance(cost_model, CostModel):
            guide: Guide | None = AskedGuide(context, sketches, cost_model)
        else:
            guide = guide_of(context.task, sketches, cost_model)
        strategy = context.search_strategy.make(sketches, max(0, context.rand_state), guide=guide)
        return begun_with_draft(sketch_task(context.task, strategy, sketches, weight), sketches, guide)


def guide_of(task: TuningTask, sketches: Sequence[Sketch], cost_model: str) -> Guide | None:
    """Return what is known of the sketches beforehand. Of a space made by rules a trace is finished only when it is
    built: features of what is not would mislead a model."""
    guided = cost_model != _UNTRAINED and not any(is_costly(sketch) for sketch in sketches)
    return guide_for(task, sketches) if guided else None


def _tell(scheduler: TaskScheduler, index: int, proposal: Proposal, done: TrialDone) -> None:
    """Hand a trial to the callbacks in their form."""
    context = scheduler.tasks[index]
    if context.mod is None:
        return
    trace = Trace.from_json(proposal.trace_json)
    try:  # what was measured is legal, and few callbacks look at more than the trace
        replayed = done.failure is not None
        schedule = FaceSchedule.replay(context.mod, trace) if replayed else ReplayedLater(context.mod, trace)
    except ScheduleError:  # the failed trial itself: there is no schedule to show
        return
    candidate = MeasureCandidate(schedule, tuple(ArgInfo.from_entry_func(context.mod)))
    error = None if done.failure is None else f"{done.failure}: {done.text}"
    built = BuilderResult(None, error)
    ran = RunnerResult(None if error else list(done.samples), error)
    for callback in scheduler.callbacks:
        callback.apply(scheduler, index, [candidate], [built], [ran])
