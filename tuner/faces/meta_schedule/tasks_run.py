"""A run of the engine over meta_schedule's tasks, which `tune_tasks` and `TaskScheduler.tune` start."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from compiler.errors import ScheduleError
from compiler.faces.tir_schedule.schedule import ReplayedLater
from compiler.faces.tir_schedule.schedule import Schedule as FaceSchedule
from compiler.schedule.core.effects import remembered
from compiler.schedule.core.trace import Trace
from tuner.engine.engine import tune as run_engine
from tuner.engine.options import RunOptions
from tuner.engine.plan import TaskSearch, begun_with_draft, guide_for, sketch_task
from tuner.engine.progress import TrialDone
from tuner.errors import TuningError, UnknownKindError
from tuner.faces.common.trials import SearchTrials
from tuner.faces.meta_schedule.builder import Builder
from tuner.faces.meta_schedule.cost_models.cost_model import AskedGuide, CostModel, XGBModel
from tuner.faces.meta_schedule.databases import json_database, sql_database
from tuner.faces.meta_schedule.databases.database import Database
from tuner.faces.meta_schedule.measure_callback import MeasureCallback, UpdateCostModel
from tuner.faces.meta_schedule.measure_types import BuilderResult, RunnerResult
from tuner.faces.meta_schedule.record import ArgInfo, MeasureCandidate
from tuner.faces.meta_schedule.runner import Runner
from tuner.faces.meta_schedule.tune_context import TuneContext
from tuner.model.guide import Guide
from tuner.records.model import disqualifies
from tuner.search.base import Proposal
from tuner.search.population import is_costly
from tuner.space.sketch import Sketch
from tuner.task import TuningTask

if TYPE_CHECKING:
    from tuner.faces.meta_schedule.task_scheduler import TaskScheduler

_COST_MODELS = ("xgb", "mlp", "random")
_UNTRAINED = "random"


def run_tasks(
    scheduler: TaskScheduler, tasks: Sequence[TuneContext], task_weights: Sequence[float], *, work_dir: str,
    max_trials_global: int, max_trials_per_task: int | None = None, num_trials_per_iter: int = 64,
    builder: Builder | Literal["local"] = "local", runner: Runner | Literal["local", "rpc"] = "local",
    database: Database | str = "json", cost_model: CostModel | str = "xgb",
    measure_callbacks: Sequence[MeasureCallback] | MeasureCallback | str = "default",
    module_equality: str = "structural",
) -> Database:  # fmt: skip
    """Tune `tasks` in the order that `scheduler` gives, and return the database.
    The scheduler holds the run's parts."""
    if len(tasks) != len(task_weights) or not tasks:
        raise TuningError(f"{len(tasks)} tasks have {len(task_weights)} weights", hint="give each task one")
    if isinstance(cost_model, str) and cost_model not in _COST_MODELS:
        raise UnknownKindError(f"no cost model {cost_model!r}", hint=f"there are {', '.join(_COST_MODELS)}")
    if max_trials_global < 1 or num_trials_per_iter < 1:
        raise TuningError(f"trials are at least 1, got {max_trials_global}")
    made_builder = Builder.create(builder) if isinstance(builder, str) else builder
    made_runner = Runner.create(runner) if isinstance(runner, str) else runner
    kept = _database(database, work_dir, module_equality)
    for context in tasks:
        assert context.mod is not None
        kept.commit_workload(context.mod)
    callbacks = _callbacks(measure_callbacks)
    scheduler.cost_model = cost_model if isinstance(cost_model, CostModel) else None
    if scheduler.cost_model is not None and isinstance(measure_callbacks, str):
        callbacks.append(UpdateCostModel())
    scheduler.tasks, scheduler.database, scheduler.callbacks = list(tasks), kept, callbacks
    options = _options(tasks, made_builder, made_runner, max_trials_global, max_trials_per_task, scheduler)
    searches = [_search(context, weight, cost_model) for context, weight in zip(tasks, task_weights)]
    with ExitStack() as closing:
        fleet = made_runner.fleet()
        closing.callback(fleet.close)
        builders = made_builder.engine_builder()
        closing.callback(builders.close)
        watcher = SearchTrials(partial(_tell, scheduler))
        run_engine(
            searches, fleet=fleet, builder=builders, options=options, watcher=watcher, chooser=scheduler.chooser()
        )
        watcher.tell_finals()
    return kept


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
    tasks: Sequence[TuneContext], builder: Builder, runner: Runner, total: int, per_task: int | None,
    scheduler: TaskScheduler,
) -> RunOptions:  # fmt: skip
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
        if isinstance(cost_model, XGBModel) and not cost_model.is_trained:
            guide: Guide | None = guide_of(context.task, sketches, "xgb")  # it knows nothing yet: the engine's own does
        elif isinstance(cost_model, CostModel):
            guide = AskedGuide(context, sketches, cost_model)
        else:
            guide = guide_of(context.task, sketches, cost_model)
        strategy = context.search_strategy.make(sketches, max(0, context.rand_state), guide=guide)
        return begun_with_draft(sketch_task(context.task, strategy, sketches, weight), sketches, guide)


def guide_of(task: TuningTask, sketches: Sequence[Sketch], cost_model: str) -> Guide | None:
    """Return the guide to sketches.
    In a space made by rules, a trace is finished only when it is built, and features of an unfinished one would
    mislead a model."""
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
    disqualified = done.failure is not None and disqualifies(done.failure, done.purpose)
    ran = RunnerResult(None if error else list(done.samples), error, disqualified)
    for callback in scheduler.callbacks:
        callback.apply(scheduler, index, [candidate], [built], [ran])
