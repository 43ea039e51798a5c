"""Several tasks tuned as one run, trials going where they help most."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tuner.engine.scheduling import GradientOptions, Objective
from tuner.faces.auto_scheduler.cost_model import check_options
from tuner.faces.auto_scheduler.errors import SchedulerError
from tuner.faces.auto_scheduler.search_policy import SEARCH_OPTIONS, SearchPolicy, make_policy, measured
from tuner.faces.auto_scheduler.search_task import SearchTask
from tuner.faces.auto_scheduler.tuning_options import TuningOptions
from tuner.records.store import RecordStore

_STRATEGIES = ("gradient", "round-robin")
_UNKNOWN = 1e10  # the cost of a task, in seconds, while none was measured


class TaskSchedulerCallback:
    """Base of what a task scheduler tells."""

    def pre_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """Before a task's first trial."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        """After each trial of a task."""


class PrintTableInfo(TaskSchedulerCallback):
    """Prints a table of the tasks after each trial: seconds, speed and trials."""

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        print("|  ID  | Latency (ms) | Speed (GFLOPS) | Trials |")
        print("-" * 49)
        for index, (task, cost) in enumerate(zip(task_scheduler.tasks, task_scheduler.best_costs)):
            known = cost < _UNKNOWN
            latency = f"{1e3 * cost:.3f}" if known else "-"
            speed = f"{task.compute_dag.flop_ct / cost / 1e9:.2f}" if known else "-"
            print(f"| {index:4d} | {latency:>12} | {speed:>14} | {task_scheduler.task_cts[index]:6d} |")
        print("-" * 49, flush=True)


class LogEstimatedLatency(TaskSchedulerCallback):
    """Appends a line to a file after each trial.
    It has the objective in milliseconds and the number of trials, with tabs."""

    def __init__(self, log_file: str | Path) -> None:
        self.log_file = Path(log_file)
        self.log_file.unlink(missing_ok=True)

    def post_tune(self, task_scheduler: TaskScheduler, task_id: int) -> None:
        if all(cost < _UNKNOWN for cost in task_scheduler.best_costs):
            line = f"ElapsedTime(s)\t{time.time() - task_scheduler.begun:.0f}\t"
            line += f"EstimatedLatency(ms)\t{1e3 * task_scheduler.cur_score:.3f}\tTrials\t{task_scheduler.ct}\n"
            with self.log_file.open("a", encoding="utf-8") as file:
                file.write(line)


class TaskScheduler:
    """Tunes `tasks` together so that the objective falls.

    By default that is the sum of their costs (seconds), weighted by `task_weights`; else `objective_func(costs)`.
    `strategy` is "gradient" or "round-robin". `alpha` weighs the gain seen over the last `backward_window_size` trials
    against the gain hoped for, `beta` bounds what is hoped from a similar task's speed. A task that gains nothing keeps
    `gamma` of its hope a window. What `load_log_file` has is not measured again. `callbacks` are
    `TaskSchedulerCallback`s. `load_model_file` is not read: what is learnt from are the records of `load_log_file`.

    While it tunes: `best_costs[i]` and `task_cts[i]` (trials) of each task, `ct` trials in all, `cur_score` the
    objective. Raises SchedulerError for what makes no sense.
    """

    def __init__(
        self, tasks: Sequence[SearchTask], task_weights: Sequence[float] | None = None,
        objective_func: Objective | None = None, strategy: str = "gradient", load_model_file: str | None = None,
        load_log_file: str | None = None, alpha: float = 0.2, beta: float = 2, gamma: float = 0.5,
        backward_window_size: int = 3, callbacks: Sequence[TaskSchedulerCallback] | None = None,
    ) -> None:  # fmt: skip
        if not tasks:
            raise SchedulerError("a task scheduler needs at least one task")
        if task_weights is not None and objective_func is not None:
            raise SchedulerError("task_weights say the objective, and so does objective_func", hint="give one of them")
        if task_weights is not None and len(task_weights) != len(tasks):
            raise SchedulerError(f"{len(tasks)} tasks have {len(task_weights)} weights")
        if strategy not in _STRATEGIES:
            raise SchedulerError(f"no strategy is called {strategy!r}", hint=f"known: {', '.join(_STRATEGIES)}")
        self.load_model_file = load_model_file
        try:
            self.gradient = GradientOptions(alpha=alpha, beta=beta, gamma=gamma, window=backward_window_size)
        except ValueError as error:
            raise SchedulerError(str(error)) from None
        self.tasks = list(tasks)
        self.task_weights = [1.0] * len(tasks) if task_weights is None else [float(w) for w in task_weights]
        self.given_objective = objective_func
        self.strategy = strategy
        self.load_log_file = load_log_file
        self.callbacks = list(callbacks or ())
        self._reset()

    def _reset(self) -> None:
        log = self.load_log_file
        self.best_costs = [_best_cost(task, log) if log is not None else _UNKNOWN for task in self.tasks]
        self.task_cts = [0] * len(self.tasks)
        self.ct = 0
        self.begun = time.time()

    def count(self, task_id: int, best_cost: float) -> None:
        """Note that a trial of a task is over, with its best cost so far (infinity: none yet)."""
        self.ct += 1
        self.task_cts[task_id] += 1
        self.best_costs[task_id] = min(self.best_costs[task_id], best_cost)
        for callback in self.callbacks:
            callback.post_tune(self, task_id)

    @property
    def cur_score(self) -> float:
        """The objective of the best costs so far. A task without a measurement counts as 1e10 s."""
        return self.objective_func(self.best_costs)

    @property
    def objective_func(self) -> Callable[[Sequence[float]], float]:
        if self.given_objective is not None:
            return self.given_objective
        return lambda costs: sum(c * w for c, w in zip(costs, self.task_weights))

    def tune(
        self, tune_option: TuningOptions, search_policy: str | Sequence[SearchPolicy] = "default",
        search_policy_params: Mapping[str, Any] | None = None, adaptive_training: bool = False,
        per_task_early_stopping: int | None = None, *, store: RecordStore | str | Path | None = None,
    ) -> None:  # fmt: skip
        """Measure `tune_option.num_measure_trials` states over all the tasks.

        `search_policy` is "default" or "sketch.xgb" (evolutionary), "sketch.random", "empty", or a list of policies,
        one a task. `search_policy_params` may hold `seed`; `SEARCH_OPTIONS` in it change nothing. A task ends when
        `per_task_early_stopping` trials of it brought nothing better, the run when as many as
        `tune_option.early_stopping` did for each task. `adaptive_training` changes nothing: the model is always
        trained on what is new. See `SearchTask.tune` for `store` and what is raised.
        """
        from tuner.faces.auto_scheduler.engine_face import tune_tasks

        self._reset()
        tune_tasks(
            self.tasks,
            self._policies(search_policy, search_policy_params),
            tune_option,
            store=store,
            scheduler=self,
            per_task_early_stopping=per_task_early_stopping,
        )

    def _policies(self, policy: str | Sequence[SearchPolicy], params: Mapping[str, Any] | None) -> list[SearchPolicy]:
        options = dict(params or {})
        seed = options.pop("seed", None)
        check_options("the search", options, SEARCH_OPTIONS)
        if isinstance(policy, str):
            return [make_policy(policy, task, seed, self.load_log_file) for task in self.tasks]
        if len(policy) != len(self.tasks) or not all(isinstance(p, SearchPolicy) for p in policy):
            raise SchedulerError(f"search_policy is a name, or a policy for each of the {len(self.tasks)} tasks")
        return list(policy)


def _best_cost(task: SearchTask, log: str) -> float:
    return min((cost for _, _, cost in measured(task, log) if cost is not None), default=_UNKNOWN)
