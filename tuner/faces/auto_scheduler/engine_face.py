"""Tasks on the engine: policies as its searches, trials as tuning records."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler.schedule.core.trace import Trace
from tuner.engine.engine import tune
from tuner.engine.options import RunOptions
from tuner.engine.progress import TrialDone, gflops
from tuner.errors import TuningError
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.measure_types import MeasureInput, MeasureResult
from tuner.faces.auto_scheduler.search_policy import SearchPolicy
from tuner.faces.auto_scheduler.search_task import SearchTask
from tuner.faces.auto_scheduler.state import State
from tuner.faces.auto_scheduler.tuning_options import TuningOptions
from tuner.faces.common.engine import RememberedResults, opened
from tuner.faces.common.measure_error import MeasureErrorNo
from tuner.faces.common.trials import SearchTrials
from tuner.records.store import RecordStore
from tuner.search.base import Proposal

if TYPE_CHECKING:
    from tuner.faces.auto_scheduler.task_scheduler import TaskScheduler


def tune_tasks(
    tasks: Sequence[SearchTask], policies: Sequence[SearchPolicy], options: TuningOptions, *,
    store: RecordStore | str | Path | None = None, scheduler: TaskScheduler | None = None,
    per_task_early_stopping: int | None = None,
) -> None:  # fmt: skip
    """Tune tasks for `SearchTask.tune` and `TaskScheduler.tune`."""
    if options.num_measure_trials < 1:
        raise SchedulerError("nothing is measured with num_measure_trials=0", hint="say how many trials to spend")
    for task, policy in zip(tasks, policies, strict=True):
        if policy.task is not task:
            raise SchedulerError(f"the policy is of {policy.task}, not of {task}")
    weights = scheduler.task_weights if scheduler is not None else [1.0] * len(tasks)
    searches = [policy.search(weight) for policy, weight in zip(policies, weights)]
    remembered = [RememberedResults(search.strategy) for search in searches]
    searches = [replace(search, strategy=strategy) for search, strategy in zip(searches, remembered)]
    results = _Results(tasks, policies, options, scheduler)
    run_options = _run_options(options, scheduler, per_task_early_stopping)
    for task_id in range(len(tasks)):
        for callback in scheduler.callbacks if scheduler is not None else ():
            callback.pre_tune(scheduler, task_id)  # type: ignore[arg-type]
    builder = options.builder.open()
    try:
        fleet = options.runner.open()
        try:
            with opened(store) as records:
                outcome = tune(
                    searches,
                    fleet=fleet,
                    builder=builder,
                    options=run_options,
                    store=records,
                    watcher=SearchTrials(results.tell, remembered),
                    objective=scheduler.given_objective if scheduler is not None else None,
                )
        finally:
            fleet.close()
    finally:
        builder.close()
    results.tell_known(remembered)
    errors = [f"{t.desc or t.workload_key}: {p.error}" for t, p in zip(tasks, outcome.snapshot.tasks) if p.error]
    if errors:
        raise TuningError("\n".join(errors))


def _run_options(
    options: TuningOptions, scheduler: TaskScheduler | None, per_task_early_stopping: int | None
) -> RunOptions:
    chosen: dict[str, Any] = {}
    if scheduler is not None:
        gradient = scheduler.gradient
        chosen = {
            "scheduler": scheduler.strategy,
            "alpha": gradient.alpha,
            "beta": gradient.beta,
            "gamma": gradient.gamma,
            "window": gradient.window,
        }
    return RunOptions(
        trials=0,
        total_trials=options.num_measure_trials,
        early_stopping=per_task_early_stopping or options.early_stopping or 0,
        builders=options.builder.n_parallel,
        build_timeout_s=options.builder.timeout,
        run_timeout_s=options.runner.timeout,
        finalists=1,  # a log has one result for a state
        **chosen,
    )


class _Results:
    """Tells callbacks, the scheduler and the terminal of each search trial."""

    def __init__(
        self,
        tasks: Sequence[SearchTask],
        policies: Sequence[SearchPolicy],
        options: TuningOptions,
        scheduler: TaskScheduler | None,
    ) -> None:
        self._tasks = tasks
        self._policies = policies
        self._options = options
        self._scheduler = scheduler
        self._best = [float("inf")] * len(tasks)
        self._done = 0

    def tell(self, index: int, candidate: Proposal, done: TrialDone) -> None:
        """Tell of a trial of the task at `index`."""
        self._done += 1
        result = MeasureResult(
            done.samples if done.failure is None else (),
            MeasureErrorNo.of(done.failure),
            done.text if done.failure is not None else "",
            done.build_s + done.measure_s,
            done.timestamp,
        )
        better = result.cost < self._best[index]
        if better:
            self._best[index] = result.cost
        if self._options.verbose:
            self._say(index, better)
        if self._scheduler is not None:
            self._scheduler.count(index, self._best[index])
        self._call_back(index, candidate, result)

    def tell_known(self, searches: Sequence[RememberedResults]) -> None:
        """Report results that other runs had, because a log needs them too: one may be the best."""
        for index, search in enumerate(searches):
            for candidate, cost in search.known():
                self._call_back(index, candidate, MeasureResult((cost,), MeasureErrorNo.NO_ERROR, "", 0.0, time.time()))

    def _call_back(self, index: int, candidate: Proposal, result: MeasureResult) -> None:
        task = self._tasks[index]
        inp = MeasureInput(task, State(task.compute_dag.func, Trace.from_json(candidate.trace_json)))
        for callback in self._options.measure_callbacks:
            callback.callback(self._policies[index], [inp], [result])

    def _say(self, index: int, better: bool) -> None:
        """A line for each new best, and one at the end."""
        total = self._options.num_measure_trials
        if not better and self._done != total:
            return
        task, best = self._tasks[index], self._best[index]
        if best == float("inf"):
            return
        speed = gflops(task.compute_dag.flop_ct, best)
        name = task.desc or task.workload_key
        shown = "" if speed is None else f", {speed:.2f} GFLOPS"
        print(f"{self._done}/{total}  {name}: best {best * 1e3:.4f} ms{shown}", flush=True, file=sys.stdout)
