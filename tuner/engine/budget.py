"""The budget of a run, and whether a task has spent it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tuner.engine.scheduling import GradientOptions, Policy
from tuner.engine.task_state import TaskState
from tuner.goals import Goal


@dataclass(frozen=True)
class BudgetLimits:
    """Budgets, each without a limit when 0.
    A task has `trials` and `task_seconds` (its share of the wall time, see `share_time`). The run has
    `total_trials`, `seconds` of wall time and `device_seconds` of all its devices together. `early_stopping` is
    trials of a task without a better one. From the share `quiet_from` of a budget on, builds and measurements that
    want the same cores take turns (see `tuner.engine.turns`). Before, they overlap, and times are less exact. A task
    gives up when its first `equal_failures` trials all fail with one kind. `build_ahead` candidates wait built for
    each slot. `lost_retries` is how often a job whose device vanished is tried on another before the job itself is
    suspected."""

    trials: int = 0
    total_trials: int = 0
    seconds: float = 0.0
    task_seconds: float = 0.0
    device_seconds: float = 0.0
    early_stopping: int = 0
    build_ahead: int = 1
    builders: int = 2
    finalists: int = 6
    final_rounds: int = 3
    quiet_from: float = 0.0
    equal_failures: int = 12
    lost_retries: int = 1
    policy: Policy = Policy.GRADIENT
    gradient: GradientOptions = field(default=GradientOptions())
    goal: Goal = Goal.TIME

    def out_of_time(self, task: TaskState, elapsed_s: float, device_s: float = 0.0) -> bool:
        """Whether no more of the task's candidates may begin."""
        run_over = 0 < self.seconds <= elapsed_s or 0 < self.device_seconds <= device_s
        return run_over or 0 < self.task_seconds <= task.wall_s

    def allow(self, task: TaskState, tasks: Sequence[TaskState], elapsed_s: float, device_s: float = 0.0) -> bool:
        """Whether one more candidate of `task`, of the run's `tasks`, may be asked for."""
        if self.out_of_time(task, elapsed_s, device_s):
            return False
        if self.trials and task.asked >= self.trials:
            return False
        kept = sum(not t.asked and not t.ended for t in tasks) if task.asked else 0  # a first trial for each task
        if self.total_trials and sum(t.asked for t in tasks) + kept >= self.total_trials:
            return False
        return not 0 < self.early_stopping <= task.stale

    def spent(self, task: TaskState, tasks: Sequence[TaskState], elapsed_s: float, device_s: float = 0.0) -> float:
        """Return the share of a budget that the task has used.
        It is the run's or its own budget, whichever is nearer to its end."""
        pairs = (
            (task.asked, self.trials),
            (sum(t.asked for t in tasks), self.total_trials),
            (elapsed_s, self.seconds),
            (device_s, self.device_seconds),
            (task.wall_s, self.task_seconds),
        )
        return max((used / limit for used, limit in pairs if limit), default=1.0)


def share_time(at_work: Sequence[TaskState], seconds: float) -> None:
    """Book wall time that has passed, in equal parts for the tasks at work.
    The tasks' times thus add up to the run's, however many devices and builders there are."""
    for task in at_work:
        task.wall_s += seconds / len(at_work)
